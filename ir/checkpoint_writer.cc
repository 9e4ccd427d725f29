#include "ir/checkpoint_writer.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/durable_file.h"
#include "ir/safetensors.h"
#include "ir/shard_block.h"
#include "ir/status.h"
#include "ir/system_error.h"
#include "llvm/ADT/StringRef.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr char kStepPrefix[] = "step-";

// What an interrupted writer left: unfinished folders, and old checkpoints
// whose replacement is in place.
void RemoveLeftovers(const std::string& dir) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    const llvm::StringRef text = name;
    if (!text.starts_with(kStepPrefix)) continue;
    const bool replaced =
        text.ends_with(".old") &&
        fs::exists(fs::path(dir) / text.drop_back(4).str(), error);
    if (text.ends_with(".tmp") || replaced) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

}  // namespace

bool RankStores(const CheckpointTensor& tensor, const Mesh& mesh,
                int64_t rank) {
  return HoldsFirstCopy(tensor.spec, mesh, rank);
}

std::vector<int64_t> CheckpointSteps(const std::string& dir) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    llvm::StringRef text = name;
    int64_t step = 0;
    if (text.consume_front(kStepPrefix) && !text.getAsInteger(10, step) &&
        fs::exists(entry.path() / "checkpoint.json", error))
      steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

CheckpointWriter::CheckpointWriter(std::string dir, Checkpoint checkpoint)
    : dir_(std::move(dir)), checkpoint_(std::move(checkpoint)) {
  target_ =
      (fs::path(dir_) / absl::StrCat(kStepPrefix, checkpoint_.step)).string();
  temporary_ = target_ + ".tmp";
  files_.resize(static_cast<size_t>(checkpoint_.mesh.num_ranks()));
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    const std::string& dir, Checkpoint checkpoint) {
  TP_RETURN_IF_ERROR(CheckCheckpoint(checkpoint));
  checkpoint.tool_version = TP_VERSION;
  checkpoint.files.clear();
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return SystemError("create", dir, error.value());
  RemoveLeftovers(dir);
  std::unique_ptr<CheckpointWriter> writer(
      new CheckpointWriter(dir, std::move(checkpoint)));
  if (fs::exists(writer->target_, error) &&
      !fs::exists(fs::path(writer->target_) / "checkpoint.json", error))
    return absl::AlreadyExistsError(absl::StrCat(
        writer->target_, " exists and is no checkpoint; it is left as it is"));
  fs::create_directory(writer->temporary_, error);
  if (error) return SystemError("create", writer->temporary_, error.value());
  return writer;
}

absl::Status CheckpointWriter::WriteRank(int64_t rank, Fill fill) {
  const std::string path = (fs::path(temporary_) / RankFileName(rank)).string();
  SafetensorsWriterOptions options;
  options.sync = true;
  TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> file,
                      SafetensorsWriter::Create(path, std::move(options)));
  std::vector<std::pair<const CheckpointTensor*, int64_t>> stored;
  for (const CheckpointTensor& tensor : checkpoint_.tensors) {
    if (!RankStores(tensor, checkpoint_.mesh, rank)) continue;
    TP_ASSIGN_OR_RETURN(
        std::vector<DimIntervals> block,
        BlockOf(tensor.sizes, tensor.spec, checkpoint_.mesh, rank));
    TP_RETURN_IF_ERROR(
        file->Declare(tensor.key(), tensor.dtype, ExtentsOf(block)));
    stored.push_back({&tensor, BlockElements(block) * ByteSize(tensor.dtype)});
  }
  for (const auto& [tensor, bytes] : stored) {
    auto left = static_cast<uint64_t>(bytes);
    const auto append = [&](const void* data, size_t size) -> absl::Status {
      if (size > left)
        return absl::InternalError(absl::StrCat(tensor->key(), " has ", bytes,
                                                " bytes on rank ", rank,
                                                ", more were given"));
      left -= size;
      return file->Append(data, size);
    };
    TP_RETURN_IF_ERROR(fill(*tensor, append));
    if (left != 0)
      return absl::InternalError(
          absl::StrCat(tensor->key(), " has ", bytes, " bytes on rank ", rank,
                       ", only ", bytes - left, " were given"));
  }
  TP_RETURN_IF_ERROR(file->Finish());
  files_[static_cast<size_t>(rank)] = {file->sha256(), file->file_size()};
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Commit(int keep) {
  for (size_t rank = 0; rank < files_.size(); ++rank) {
    if (files_[rank].sha256.empty())
      return absl::FailedPreconditionError(
          absl::StrCat(target_, ": rank ", rank, " was not written"));
    checkpoint_.files[RankFileName(static_cast<int64_t>(rank))] = files_[rank];
  }
  TP_RETURN_IF_ERROR(
      WriteDurably((fs::path(temporary_) / "checkpoint.json").string(),
                   CheckpointJson(checkpoint_)));
  TP_RETURN_IF_ERROR(InstallFolder(temporary_, target_));
  committed_ = true;
  TP_RETURN_IF_ERROR(
      WriteDurably((fs::path(dir_) / "latest").string(),
                   fs::path(target_).filename().string() + "\n"));
  return RemoveOld(keep);
}

absl::Status CheckpointWriter::RemoveOld(int keep) const {
  if (keep <= 0) return absl::OkStatus();
  // First this one and what led to it, newest first; then later steps, which
  // belong to a run that was taken up again before them.
  std::vector<int64_t> steps = CheckpointSteps(dir_);
  const auto order = [&](int64_t step) {
    return std::make_pair(step > checkpoint_.step, -step);
  };
  std::sort(steps.begin(), steps.end(),
            [&](int64_t a, int64_t b) { return order(a) < order(b); });
  for (size_t i = static_cast<size_t>(keep); i < steps.size(); ++i) {
    const fs::path path = fs::path(dir_) / absl::StrCat(kStepPrefix, steps[i]);
    // Renamed first: half a checkpoint must not look like one.
    const fs::path going = path.string() + ".tmp";
    std::error_code error;
    fs::rename(path, going, error);
    if (!error) fs::remove_all(going, error);
    if (error) return SystemError("remove", path.string(), error.value());
  }
  return absl::OkStatus();
}

}  // namespace tp
