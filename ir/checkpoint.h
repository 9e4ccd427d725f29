// Checkpoints of a training run: what they hold and how it is written down.
//
//   DIR/latest                      the name of the newest complete checkpoint
//   DIR/step-500/checkpoint.json    what it holds, with the hash of every file
//   DIR/step-500/rank0.safetensors  the parts of rank 0
//
// A tensor is stored as it lies on the mesh; a copy that a lower rank holds as
// well is stored there only. A state that each rank keeps for itself has the
// placement P: every rank stores its own.
#ifndef TP_IR_CHECKPOINT_H_
#define TP_IR_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/sharded_files.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

inline constexpr int64_t kCheckpointFormatVersion = 1;

struct CheckpointTensor {
  enum class Kind : uint8_t {
    kParameter,
    kBuffer,
    kState,  // the optimizer's, of the parameter `name`
  };
  Kind kind = Kind::kParameter;
  std::string name;                  // first original dotted name
  std::vector<std::string> aliases;  // other names of the same weight
  std::string state;                 // kState: "exp_avg", "row", ...
  DType dtype = DType::kF32;
  llvm::SmallVector<int64_t, 4> sizes;  // whole
  ShardingSpec spec;                    // one placement per mesh axis

  // Its name in the files of the ranks: "wi.weight", "wi.weight#exp_avg".
  std::string key() const;
  ShardedTensor sharded() const { return {key(), dtype, sizes, spec}; }
};

struct CheckpointFile {
  std::string sha256;  // lower-case hex
  uint64_t bytes = 0;
};

struct Checkpoint {
  std::string tool_version;
  int64_t step = 0;      // optimizer steps done
  int64_t epoch = 0;     // of the data
  int64_t position = 0;  // micro-batches of that epoch that are used up
  uint64_t seed = 0;
  std::string optimizer;          // "adafactor"; empty: no state
  std::string optimizer_options;  // as text, to compare
  // Whatever else the run has to remember: the loss scale, the schedule.
  std::map<std::string, std::string> extra;
  Mesh mesh;
  std::vector<CheckpointTensor> tensors;
  std::map<std::string, CheckpointFile> files;  // by name; set when written
};

// "rank3.safetensors"
std::string RankFileName(int64_t rank);

// kInvalidArgument: two tensors of one key, a placement that does not fit, a
// weight that is a Partial, sizes that overflow, or more than 1024 ranks.
absl::Status CheckCheckpoint(const Checkpoint& checkpoint);

// The text of checkpoint.json, deterministic; its last field is the hash of
// everything above it.
std::string CheckpointJson(const Checkpoint& checkpoint);

// kDataLoss: cut short or edited. kFailedPrecondition: another format version.
// kInvalidArgument: whole, but not a valid checkpoint. Messages do not name
// the file. The result passed CheckCheckpoint.
absl::StatusOr<Checkpoint> ParseCheckpointJson(llvm::StringRef text);

// Where a state of a parameter lies when the parameter lies so. A state of the
// parameter's sizes lies like it. A "row" statistic (the parameter's dims but
// the last) and a "col" one (all but the last but one) keep the split of the
// dims they keep; where the split dim is gone, and for anything else, whole.
ShardingSpec StateSpec(llvm::ArrayRef<int64_t> parameter_sizes,
                       llvm::ArrayRef<Placement> parameter_spec,
                       llvm::StringRef state,
                       llvm::ArrayRef<int64_t> state_sizes);

}  // namespace tp

#endif  // TP_IR_CHECKPOINT_H_
