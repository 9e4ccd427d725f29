#include "codegen/package_writer.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "codegen/manifest.h"
#include "codegen/plan_yaml.h"
#include "codegen/weight_sharder.h"
#include "ir/file_digest.h"
#include "ir/package_manifest.h"
#include "ir/schedule.h"
#include "ir/status.h"
#include "ir/text.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

// Removes the folder, and those above it that it had to create, unless
// Keep() was called.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {
    std::error_code ignored;
    for (fs::path above = path_.parent_path();
         !above.empty() && !fs::exists(above, ignored);
         above = above.parent_path())
      created_.push_back(above);
  }
  ~TemporaryFolder() {
    if (kept_) return;
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    for (const fs::path& above : created_) fs::remove(above, ignored);
  }
  void Keep() { kept_ = true; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::vector<fs::path> created_;  // the innermost first
  bool kept_ = false;
};

absl::Status SystemError(const std::string& action, const fs::path& path,
                         const std::error_code& error) {
  const std::string message = absl::StrCat("cannot ", action, " ",
                                           path.string(), ": ",
                                           error.message());
  if (error == std::errc::not_a_directory ||
      error == std::errc::no_such_file_or_directory)
    return absl::NotFoundError(message);
  if (error == std::errc::permission_denied ||
      error == std::errc::operation_not_permitted ||
      error == std::errc::read_only_file_system)
    return absl::PermissionDeniedError(message);
  if (error == std::errc::no_space_on_device)
    return absl::UnavailableError(absl::StrCat(
        message, "; free some space or write to another disk"));
  return absl::UnavailableError(message);
}

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

// Puts the finished folder in the target's place.
absl::Status Install(TemporaryFolder& finished, const fs::path& target) {
  std::error_code error;
  if (fs::exists(target, error)) {
    const fs::path old = finished.path().string() + ".old";
    fs::rename(target, old, error);
    if (error) return SystemError("replace", target, error);
    fs::rename(finished.path(), target, error);
    if (error) {
      std::error_code ignored;
      fs::rename(old, target, ignored);
      return SystemError("create", target, error);
    }
    fs::remove_all(old, error);
  } else {
    fs::rename(finished.path(), target, error);
    if (error) return SystemError("create", target, error);
  }
  finished.Keep();
  return absl::OkStatus();
}

absl::Status AddText(const fs::path& folder, const std::string& name,
                     const std::string& text, ManifestInfo& info) {
  TP_RETURN_IF_ERROR(WriteTextFile((folder / name).string(), text));
  info.files.push_back(
      {name, Sha256Hex(text), static_cast<int64_t>(text.size())});
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
      WriteRankWeights(planned, *planned.functions()[0], rank, weights,
                       (folder / name).string()));
  info.rank_weight_bytes.push_back(written.tensor_bytes);
  info.files.push_back({name, written.sha256, written.file_bytes});
  return absl::OkStatus();
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
  TemporaryFolder folder(
      absl::StrCat(target.string(), ".tmp", static_cast<int64_t>(getpid())));
  std::error_code error;
  fs::create_directories(folder.path(), error);
  if (error) return SystemError("create", folder.path(), error);

  ManifestInfo info;
  info.tool_version = TP_VERSION;
  info.torch_version = options.torch_version;
  info.model = options.model;
  info.notes = options.notes;
  std::vector<const Module*> modules;
  for (const auto& program : programs) modules.push_back(program.get());
  TP_ASSIGN_OR_RETURN(info.schedule_sha256, HashSchedules(modules));

  const auto num_ranks = static_cast<int64_t>(programs.size());
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    if (options.progress) options.progress(rank, num_ranks);
    TP_RETURN_IF_ERROR(AddRank(folder.path(), rank, planned, *programs[rank],
                               weights, info));
  }
  // The whole plan with its collectives, for tp-inspect.
  TP_RETURN_IF_ERROR(
      AddText(folder.path(), "plan.tpir", Print(planned), info));
  TP_RETURN_IF_ERROR(AddText(folder.path(), "plan.yaml",
                             PlanYaml(planned, options.model), info));
  TP_RETURN_IF_ERROR(
      WriteTextFile((folder.path() / "manifest.json").string(),
                    ManifestJson(planned, info)));
  return Install(folder, target);
}

}  // namespace tp
