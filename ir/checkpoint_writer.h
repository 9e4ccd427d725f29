// Writes a checkpoint so that the one before it stays good until the new one
// is complete on the disk.
#ifndef TP_IR_CHECKPOINT_WRITER_H_
#define TP_IR_CHECKPOINT_WRITER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/checkpoint.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tp {

// Everything goes to DIR/step-N.tmp, which is removed unless Commit succeeds.
//
//   auto writer = CheckpointWriter::Create("run", checkpoint);
//   (*writer)->WriteRank(0, fill);  // each rank, also at the same time
//   (*writer)->WriteRank(1, fill);
//   (*writer)->Commit(/*keep=*/2);
class CheckpointWriter {
 public:
  // `checkpoint` without files. Makes the folder DIR where it is missing.
  // kAlreadyExists: DIR/step-N is something else. One writer per DIR.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(
      const std::string& dir, Checkpoint checkpoint);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  const Checkpoint& checkpoint() const { return checkpoint_; }
  // DIR/step-N
  const std::string& target() const { return target_; }

  using Append =
      llvm::function_ref<absl::Status(const void* data, size_t size)>;
  // Appends the rank's block (BlockOf) of a tensor, row-major without gaps.
  using Fill =
      llvm::function_ref<absl::Status(const CheckpointTensor&, Append)>;

  // Writes the file of one rank; `fill` is called for the tensors it stores,
  // in order. Ranks may be written at the same time by several threads.
  // kInternal when `fill` appends another number of bytes than the block has.
  absl::Status WriteRank(int64_t rank, Fill fill);

  // After every rank: makes the checkpoint appear, lets `latest` name it, and
  // then removes older checkpoints of DIR, so that `keep` remain (0: all).
  absl::Status Commit(int keep);

 private:
  CheckpointWriter(std::string dir, Checkpoint checkpoint);
  absl::Status RemoveOld(int keep) const;

  std::string dir_;
  std::string target_;
  std::string temporary_;
  Checkpoint checkpoint_;
  std::vector<CheckpointFile> files_;  // by rank; empty: not written
  bool committed_ = false;
};

// Whether a rank's file holds (its part of) the tensor.
bool RankStores(const CheckpointTensor& tensor, const Mesh& mesh, int64_t rank);

// The steps DIR holds complete checkpoints of, by name, ascending.
std::vector<int64_t> CheckpointSteps(const std::string& dir);

}  // namespace tp

#endif  // TP_IR_CHECKPOINT_WRITER_H_
