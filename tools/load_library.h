// Libraries of operators that users bring (--load-library), and what a package
// says of those it was compiled with. Header-only, as command_line.h.
#ifndef TP_TOOLS_LOAD_LIBRARY_H_
#define TP_TOOLS_LOAD_LIBRARY_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/package_manifest.h"
#include "ir/status.h"
#include "llvm/Support/JSON.h"

namespace tp {

// Loads them for as long as the process lives; their TORCH_LIBRARY blocks
// register the operators. This runs code of the libraries.
inline absl::Status LoadLibraries(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    // Without a slash, dlopen would look elsewhere first.
    const std::string path = std::filesystem::absolute(file).string();
    if (!std::filesystem::exists(path))
      return absl::NotFoundError(
          absl::StrCat("--load-library ", file, ": there is no such file"));
    try {
      if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) continue;
      const char* reason = dlerror();
      return absl::InvalidArgumentError(absl::StrCat(
          "--load-library ", file, ": ", reason ? reason : "cannot be loaded",
          ". It has to be a shared library built against LibTorch ",
          TP_TORCH_VERSION));
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--load-library ", file, ": registers no operators: ", error.what()));
    }
  }
  return absl::OkStatus();
}

// File names, as they stand in a package.
inline std::vector<std::string> LibraryNames(
    const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files)
    names.push_back(std::filesystem::path(file).filename().string());
  return names;
}

inline std::vector<std::string> ManifestStrings(const PackageManifest& manifest,
                                                llvm::StringRef key) {
  std::vector<std::string> strings;
  if (const llvm::json::Array* list = manifest.root().getArray(key)) {
    for (const llvm::json::Value& entry : *list)
      if (auto text = entry.getAsString()) strings.push_back(text->str());
  }
  return strings;
}

// Operators of the package that are none of LibTorch's own: "lib::op" or
// "lib::op.overload".
inline std::vector<std::string> CustomOperators(
    const PackageManifest& manifest) {
  return ManifestStrings(manifest, "operators");
}

// What the archive check lets through for --verify: a model calls operators
// of the library that are not in the package, such as those in place.
inline std::vector<std::string> CustomNamespaces(
    const PackageManifest& manifest) {
  std::vector<std::string> names;
  for (const std::string& name : CustomOperators(manifest)) {
    const std::string space = name.substr(0, name.find("::"));
    if (space != "aten" && space != "prim") names.push_back(space + "::*");
  }
  return names;
}

// kUnimplemented, naming the libraries, if an operator is not there.
inline absl::Status CheckOperators(const PackageManifest& manifest) {
  std::vector<std::string> missing;
  for (const std::string& name : CustomOperators(manifest)) {
    const size_t dot = std::min(name.find('.'), name.size());
    const c10::OperatorName operator_name(
        name.substr(0, dot), dot == name.size() ? "" : name.substr(dot + 1));
    if (!c10::Dispatcher::singleton().findSchema(operator_name))
      missing.push_back(name);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      manifest.directory(), " needs operators that LibTorch does not have (",
      absl::StrJoin(missing, ", "),
      "); pass --load-library with the library "
      "that defines them, at compile time ",
      absl::StrJoin(ManifestStrings(manifest, "libraries"), ", ")));
}

}  // namespace tp

#endif  // TP_TOOLS_LOAD_LIBRARY_H_
