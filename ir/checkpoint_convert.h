// Checkpoints from and to other things: one ordinary file, another plan.
#ifndef TP_IR_CHECKPOINT_CONVERT_H_
#define TP_IR_CHECKPOINT_CONVERT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/checkpoint.h"
#include "ir/checkpoint_reader.h"
#include "ir/module.h"
#include "ir/sharded_files.h"
#include "ir/weights_by_name.h"

namespace tp {

// The weights of a planned module (not of one rank), as a package keeps them:
// arguments of @forward that are parameters or buffers, in order.
absl::StatusOr<std::vector<CheckpointTensor>> PlannedWeights(
    const Module& planned);

// A package's weights as its rank files hold them, for what checkpoints lack.
struct PackageWeights {
  std::vector<CheckpointTensor> tensors;
  ShardedFiles files;
};

// Writes every weight of the checkpoint as an ordinary safetensors file under
// its original name, a tied one under each of its names. Weights that only
// `package` (null: none) has, such as frozen ones, come from there. In memory
// is one piece at a time. Written beside `path` and renamed.
absl::Status ExportCheckpoint(const CheckpointReader& checkpoint,
                              const PackageWeights* package,
                              const std::string& path);

struct ReshardOptions {
  bool weights_only = false;  // leave the optimizer's state out
};

// Writes the checkpoint to `dir` as the plan lays weights out, over any number
// of ranks; a state follows its parameter (StateSpec).
// kInvalidArgument: a weight the plan does not have, or has in another size or
// dtype, or a trainable one that the checkpoint lacks. kFailedPrecondition: a
// state that each rank keeps for itself.
absl::Status ReshardCheckpoint(const CheckpointReader& checkpoint,
                               const Module& planned, const std::string& dir,
                               const ReshardOptions& options);

// Writes a checkpoint of step 0, without optimizer state, with the weights of
// `given` by original name (MatchWeights) as the plan lays them out.
absl::Status ImportCheckpoint(const WeightSource& given, const Module& planned,
                              const std::string& dir,
                              const MatchOptions& options);

}  // namespace tp

#endif  // TP_IR_CHECKPOINT_CONVERT_H_
