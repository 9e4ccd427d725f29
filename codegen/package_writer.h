// Writes a package: one program and one weight file per rank, the plan and
// the manifest.
#ifndef TP_CODEGEN_PACKAGE_WRITER_H_
#define TP_CODEGEN_PACKAGE_WRITER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "codegen/unfinished_package.h"
#include "ir/generate_info.h"
#include "ir/machine.h"
#include "ir/model_argument.h"
#include "ir/module.h"
#include "ir/search_report.h"
#include "ir/user_rules.h"
#include "ir/weight_source.h"

namespace tp {

struct PackageOptions {
  std::string model;          // file name of the source, for messages
  std::string torch_version;  // LibTorch that read the model
  std::vector<std::string> notes;
  Machine machine;                 // whose times it was planned by
  UserRules rules;                 // it was planned with
  std::vector<std::string> libraries;  // file names, of custom operators
  // Parameters that ZeRO-3 shards, for the plan.
  std::vector<std::string> zero3;
  // Of the model, by function.
  std::vector<std::vector<ModelArgument>> arguments;
  std::optional<GenerateInfo> generate;
  std::optional<SearchReport> search;
  // Called before each rank's weights are written; may be empty.
  std::function<void(int64_t rank, int64_t num_ranks)> progress;
  // Where the package is while it is written, for a caller that may have to
  // abandon it; null for one of WritePackage's own.
  UnfinishedPackage* unfinished = nullptr;
};

// kAlreadyExists if WritePackage would refuse `dir`: it exists and is no
// package. For asking before a long compilation.
absl::Status CheckPackageTarget(const std::string& dir);

// Writes everything to a temporary folder beside `dir`, then renames it, the
// manifest being written last: an interrupted or failed call leaves nothing
// that looks like a package, and an old package at `dir` stays until the new
// one is complete. `programs` holds one module per rank (MakeRankPrograms).
// kAlreadyExists if `dir` exists and is no package; kNotFound,
// kPermissionDenied or kUnavailable with the system's reason if it cannot be
// created or the disk is full; kCancelled if options.unfinished was abandoned
// meanwhile.
absl::Status WritePackage(const std::string& dir, const Module& planned,
                          const std::vector<std::unique_ptr<Module>>& programs,
                          const WeightSource& weights,
                          const PackageOptions& options);

}  // namespace tp

#endif  // TP_CODEGEN_PACKAGE_WRITER_H_
