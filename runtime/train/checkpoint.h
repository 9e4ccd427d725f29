// Saves a training run to checkpoints and goes on from one, bit for bit.
#ifndef TP_RUNTIME_TRAIN_CHECKPOINT_H_
#define TP_RUNTIME_TRAIN_CHECKPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "runtime/train/trainer.h"

namespace tp {

// Where the data goes on: see Batches.
struct DataPosition {
  int64_t epoch = 0;
  int64_t position = 0;
};

// Writes DIR/step-N, all ranks at the same time, and lets DIR/latest name it;
// the one before stays good until this one is complete on the disk. Older
// ones go, so that `keep` remain (0: all).
absl::Status SaveCheckpoint(const std::string& dir, TrainSession& session,
                            const Trainer& trainer,
                            const DataPosition& position, int keep);

// Reads parameters, optimizer state and the position. `path` is one
// checkpoint or the folder of them. The checkpoint may lie on another number
// of ranks. kDataLoss names a torn or edited file; kFailedPrecondition: other
// parameters, another optimizer, or options of it that change what is done.
absl::Status LoadCheckpoint(const std::string& path, TrainSession& session,
                            Trainer& trainer, DataPosition& position);

}  // namespace tp

#endif  // TP_RUNTIME_TRAIN_CHECKPOINT_H_
