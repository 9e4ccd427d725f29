// Opens what tp-compile wrote, and trusts none of it: versions, hashes, the
// mesh and the collective schedule are checked before anything runs.
#ifndef TP_RUNTIME_PACKAGE_READER_H_
#define TP_RUNTIME_PACKAGE_READER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "ir/safetensors.h"

namespace tp {

struct OpenOptions {
  // Compares the SHA-256 of the weight files too. Programs are always
  // compared.
  bool hash_weights = true;
};

struct Package {
  std::string directory;
  std::string tool_version;
  std::string torch_version;
  Mesh mesh;
  std::vector<std::string> notes;  // of the compiler, for the user
  // By rank.
  std::vector<std::shared_ptr<const Module>> programs;
  std::vector<std::shared_ptr<const SafetensorsFile>> weights;
};

// kNotFound for a missing folder or file, kFailedPrecondition for another
// format version or a schedule that differs from the one that was proven,
// kDataLoss for a file that is not the one tp-compile wrote,
// kInvalidArgument for a manifest or program that cannot be read.
absl::StatusOr<Package> OpenPackage(const std::string& directory,
                                    const OpenOptions& options);

}  // namespace tp

#endif  // TP_RUNTIME_PACKAGE_READER_H_
