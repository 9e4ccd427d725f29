#include "ir/checkpoint_reader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/checkpoint_writer.h"
#include "ir/file_digest.h"
#include "ir/mapped_file.h"
#include "ir/sha256.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

std::string In(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What else there is to load, for messages.
std::string OthersIn(const std::string& dir, const std::string& except) {
  std::string text;
  const std::vector<int64_t> steps = CheckpointSteps(dir);
  for (int64_t step : llvm::reverse(steps)) {
    const std::string path = In(dir, absl::StrCat("step-", step));
    if (path != except) absl::StrAppend(&text, text.empty() ? "" : ", ", path);
  }
  return text;
}

// The folder of the checkpoint that `path` means.
absl::StatusOr<std::string> FolderOf(const std::string& path) {
  if (Exists(In(path, "checkpoint.json"))) return path;
  const std::string latest = In(path, "latest");
  if (!Exists(latest)) {
    const std::string others = OthersIn(path, "");
    return absl::NotFoundError(
        absl::StrCat(path,
                     " is no checkpoint: it has neither checkpoint.json "
                     "nor a file 'latest'",
                     others.empty() ? "" : "; there are ", others));
  }
  TP_ASSIGN_OR_RETURN(std::string name, ReadTextFile(latest));
  llvm::StringRef trimmed = llvm::StringRef(name).trim();
  int64_t step = 0;
  if (!trimmed.starts_with("step-") ||
      trimmed.drop_front(5).getAsInteger(10, step) || step < 0)
    return absl::DataLossError(
        absl::StrCat(latest, " does not name a checkpoint (step-N)"));
  return In(path, trimmed.str());
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    const std::string& path, CheckHashes check) {
  TP_ASSIGN_OR_RETURN(std::string folder, FolderOf(path));
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader());
  reader->folder_ = folder;
  absl::Status status = reader->OpenFiles(check);
  if (status.ok()) return reader;
  const std::string others = folder == path ? "" : OthersIn(path, folder);
  if (others.empty()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; older checkpoints: ", others));
}

const CheckpointTensor* CheckpointReader::Find(llvm::StringRef key) const {
  auto it = by_key_.find(key);
  return it == by_key_.end() ? nullptr : &checkpoint_.tensors[it->second];
}

absl::Status CheckpointReader::Differs(const std::string& path,
                                       const std::string& how) const {
  return absl::DataLossError(absl::StrCat(
      path, " is not the file that was written: ", how,
      ". It was edited, damaged, or belongs to another checkpoint or rank; "
      "load another checkpoint"));
}

absl::Status CheckpointReader::OpenFiles(CheckHashes check) {
  const std::string path = In(folder_, "checkpoint.json");
  TP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  absl::StatusOr<Checkpoint> parsed = ParseCheckpointJson(text);
  if (!parsed.ok()) return Annotate(parsed.status(), path);
  checkpoint_ = *std::move(parsed);
  for (size_t i = 0; i < checkpoint_.tensors.size(); ++i)
    by_key_[checkpoint_.tensors[i].key()] = i;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (int64_t rank = 0; rank < checkpoint_.mesh.num_ranks(); ++rank) {
    TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file,
                        OpenRank(rank, check));
    files.push_back(std::move(file));
  }
  files_ = ShardedFiles(checkpoint_.mesh, std::move(files));
  for (const CheckpointTensor& tensor : checkpoint_.tensors)
    TP_RETURN_IF_ERROR(files_.Check(tensor.sharded()));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> CheckpointReader::OpenRank(
    int64_t rank, CheckHashes check) const {
  const std::string name = RankFileName(rank);
  const std::string path = In(folder_, name);
  const CheckpointFile& entry = checkpoint_.files.at(name);
  TP_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapped,
                      MappedFile::Open(path));
  if (mapped->size() != entry.bytes)
    return Differs(path, absl::StrCat("it has ", mapped->size(),
                                      " bytes instead of ", entry.bytes));
  if (check == CheckHashes::kYes) {
    // In pieces, so that what was hashed does not count as used memory.
    constexpr uint64_t kPiece = uint64_t{16} << 20;
    Sha256 hasher;
    for (uint64_t at = 0; at < mapped->size(); at += kPiece) {
      TP_ASSIGN_OR_RETURN(
          Bytes bytes, mapped->Map(at, std::min(kPiece, mapped->size() - at)));
      hasher.Update(llvm::ArrayRef(bytes.data(), bytes.size()));
    }
    if (hasher.FinishHex() != entry.sha256)
      return Differs(path, "its SHA-256 differs from checkpoint.json's");
  }
  TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file,
                      SafetensorsFile::Open(path));
  size_t expected = 0;
  for (const CheckpointTensor& tensor : checkpoint_.tensors)
    expected += RankStores(tensor, checkpoint_.mesh, rank);
  if (file->weights().size() != expected)
    return Differs(path, absl::StrCat("it holds ", file->weights().size(),
                                      " tensors instead of ", expected));
  return file;
}

}  // namespace tp
