#include "codegen/package_writer.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "codegen/manifest.h"
#include "codegen/plan_yaml.h"
#include "codegen/unfinished_package.h"
#include "codegen/weight_sharder.h"
#include "ir/file_digest.h"
#include "ir/package_manifest.h"
#include "ir/schedule.h"
#include "ir/status.h"
#include "ir/text.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

bool IsPackage(const fs::path& folder) {
  absl::StatusOr<std::string> text =
      ReadTextFile((folder / "manifest.json").string());
  return text.ok() && IsPackageManifest(*text);
}

fs::path TargetOf(const std::string& dir) {
  fs::path target = fs::path(dir).lexically_normal();
  return target.has_filename() ? target : target.parent_path();
}

absl::Status CheckTarget(const fs::path& target) {
  std::error_code error;
  if (!fs::exists(target, error)) return absl::OkStatus();
  if (fs::is_directory(target, error) &&
      (fs::is_empty(target, error) || IsPackage(target)))
    return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(target.string(),
                   " exists and is not a package; it is left as it is. Give "
                   "another folder with -o, or remove it"));
}

absl::Status AddText(const fs::path& folder, const std::string& name,
                     const std::string& text, ManifestInfo& info) {
  TP_RETURN_IF_ERROR(WriteTextFile((folder / name).string(), text));
  info.files.push_back(
      {name, Sha256Hex(text), "", static_cast<int64_t>(text.size())});
  return absl::OkStatus();
}

absl::Status AddRank(const fs::path& folder, int64_t rank,
                     const Module& planned, const Module& program,
                     const WeightSource& weights, ManifestInfo& info) {
  TP_RETURN_IF_ERROR(AddText(folder, absl::StrCat("rank", rank, ".tpir"),
                             Print(program), info));
  const std::string name = absl::StrCat("rank", rank, ".safetensors");
  TP_ASSIGN_OR_RETURN(
      RankWeights written,
      WriteRankWeights(planned, rank, weights, (folder / name).string()));
  info.rank_weight_bytes.push_back(written.tensor_bytes);
  info.files.push_back(
      {name, written.sha256, written.checksum, written.file_bytes});
  return absl::OkStatus();
}

absl::Status WriteInto(UnfinishedPackage& folder, const Module& planned,
                       const std::vector<std::unique_ptr<Module>>& programs,
                       const WeightSource& weights,
                       const PackageOptions& options) {
  ManifestInfo info;
  info.tool_version = TP_VERSION;
  info.torch_version = options.torch_version;
  info.model = options.model;
  info.notes = options.notes;
  info.arguments = options.arguments;
  info.libraries = options.libraries;
  info.generate = options.generate;
  info.search = options.search;
  std::vector<const Module*> modules;
  for (const auto& program : programs) modules.push_back(program.get());
  TP_ASSIGN_OR_RETURN(info.schedule_sha256, HashSchedules(modules));

  const auto num_ranks = static_cast<int64_t>(programs.size());
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    if (options.progress) options.progress(rank, num_ranks);
    TP_RETURN_IF_ERROR(
        AddRank(folder.path(), rank, planned, *programs[rank], weights, info));
  }
  // The whole plan with its collectives, for tp-inspect.
  TP_RETURN_IF_ERROR(AddText(folder.path(), "plan.tpir", Print(planned), info));
  TP_RETURN_IF_ERROR(
      AddText(folder.path(), "plan.yaml", PlanYaml(planned, options), info));
  TP_RETURN_IF_ERROR(AddText(folder.path(), "machine.yaml",
                             MachineYaml(options.machine), info));
  TP_RETURN_IF_ERROR(WriteTextFile((folder.path() / "manifest.json").string(),
                                   ManifestJson(planned, info)));
  return folder.Install();
}

}  // namespace

absl::Status CheckPackageTarget(const std::string& dir) {
  return CheckTarget(TargetOf(dir));
}

absl::Status WritePackage(const std::string& dir, const Module& planned,
                          const std::vector<std::unique_ptr<Module>>& programs,
                          const WeightSource& weights,
                          const PackageOptions& options) {
  const fs::path target = TargetOf(dir);
  TP_RETURN_IF_ERROR(CheckTarget(target));
  UnfinishedPackage own;
  UnfinishedPackage& folder =
      options.unfinished == nullptr ? own : *options.unfinished;
  absl::Status status = folder.Create(target);
  if (status.ok())
    status = WriteInto(folder, planned, programs, weights, options);
  if (status.ok()) return status;
  // What fails in a folder that was taken away says nothing.
  if (folder.abandoned())
    return absl::CancelledError("the package was abandoned");
  folder.Abandon();
  return status;
}

}  // namespace tp
