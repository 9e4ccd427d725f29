// manifest.json: what a package holds and what it assumed.
#ifndef TP_CODEGEN_MANIFEST_H_
#define TP_CODEGEN_MANIFEST_H_

#include <optional>
#include <string>
#include <vector>

#include "ir/generate_info.h"
#include "ir/model_argument.h"
#include "ir/module.h"
#include "ir/search_report.h"

namespace tp {

struct PackageFile {
  std::string name;    // relative to the package
  std::string sha256;  // hex
  // FastChecksum; empty for files that are small.
  std::string checksum;
  int64_t bytes = 0;
};

struct ManifestInfo {
  std::string tool_version;
  std::string torch_version;
  std::string model;  // file name of the source model
  std::string schedule_sha256;
  std::vector<PackageFile> files;
  std::vector<int64_t> rank_weight_bytes;  // one per rank
  std::vector<std::string> notes;
  std::vector<std::string> libraries;  // file names, of operators
  // Of the model, by function.
  std::vector<std::vector<ModelArgument>> arguments;
  std::optional<GenerateInfo> generate;
  std::optional<SearchReport> search;
};

// Deterministic: no times, no absolute paths.
std::string ManifestJson(const Module& planned, const ManifestInfo& info);

}  // namespace tp

#endif  // TP_CODEGEN_MANIFEST_H_
