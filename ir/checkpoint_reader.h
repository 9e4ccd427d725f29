// Opens checkpoints, and trusts none of what is in them.
#ifndef TP_IR_CHECKPOINT_READER_H_
#define TP_IR_CHECKPOINT_READER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/checkpoint.h"
#include "ir/safetensors.h"
#include "ir/sharded_files.h"
#include "llvm/ADT/StringMap.h"

namespace tp {

enum class CheckHashes : bool { kNo, kYes };

// Thread-safe.
class CheckpointReader {
 public:
  // `path` is one checkpoint (DIR/step-N), or the DIR whose `latest` names
  // one. kNotFound, or kDataLoss naming the file that was edited, cut short or
  // belongs elsewhere.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
      const std::string& path, CheckHashes check = CheckHashes::kYes);

  // The folder that was opened.
  const std::string& folder() const { return folder_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  // Null if there is none.
  const CheckpointTensor* Find(llvm::StringRef key) const;

  // The parts: files().ReadBlock(tensor.sharded(), ...).
  const ShardedFiles& files() const { return files_; }

 private:
  absl::Status OpenFiles(CheckHashes check);
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenRank(
      int64_t rank, CheckHashes check) const;
  absl::Status Differs(const std::string& path, const std::string& how) const;

  std::string folder_;
  Checkpoint checkpoint_;
  llvm::StringMap<size_t> by_key_;
  ShardedFiles files_;
};

}  // namespace tp

#endif  // TP_IR_CHECKPOINT_READER_H_
