// Optimizers: how gradients become new parameters.
//
// An optimizer holds the state of one rank. It updates the local parts of
// parameters so that all ranks together do what one device would do: where a
// statistic spans a whole tensor (Adafactor's row and column means), sums go
// over the axes of the mesh that split it.
#ifndef TP_RUNTIME_OPTIMIZER_OPTIMIZER_H_
#define TP_RUNTIME_OPTIMIZER_OPTIMIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/train/parameter.h"

namespace tp {

struct OptimizerOptions {
  std::string name = "adamw";  // see OptimizerNames
  // Defaults that depend on the optimizer are negative here.
  double weight_decay = -1;  // adamw 0.01, else 0
  double momentum = 0;       // sgd
  bool nesterov = false;     // sgd
  double beta1 = 0.9;        // adamw
  double beta2 = 0.999;      // adamw
  double eps = 1e-8;         // adamw
  // adafactor: what transformers' Trainer uses (scale_parameter,
  // relative_step and warmup_init are off).
  double eps1 = 1e-30;  // added to squared gradients
  double clip_threshold = 1;
  double decay_rate = -0.8;
  // Row and column means and the RMS of each rank's part alone, as the Python
  // library does; not what one device computes.
  bool per_shard = false;
  // f16 and bf16 parameters: keep an f32 copy that is updated and rounded.
  bool master_weights = false;
  // f16 and bf16 parameters: round up or down by chance, so that small
  // updates count on average. Does not depend on the number of ranks.
  bool stochastic_rounding = false;
  uint64_t seed = 0;  // of stochastic rounding
  // Regular expressions of names without weight decay.
  std::vector<std::string> no_decay;
};

// A part of an optimizer's state, for checkpoints.
struct OptimizerState {
  int parameter = 0;           // its index
  std::string name;            // "exp_avg", "row", "col", "master", ...
  at::Tensor value;            // local; the state itself, for copy_
  std::vector<int64_t> sizes;  // whole
  ShardingSpec spec;           // P: every rank has its own
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates every parameter whose gradient is defined. `gradients` are
  // parallel to the parameters, local, summed over ranks and clipped; they
  // may be overwritten. `step` counts from 1. Every rank calls with the same
  // numbers.
  virtual absl::Status Step(int64_t step, double lr,
                            llvm::ArrayRef<at::Tensor> gradients) = 0;
  virtual std::vector<OptimizerState> State() const = 0;
};

// "adafactor, adamw, sgd"
std::string OptimizerNames();

// The communicators, one per mesh axis, must outlive the optimizer; they may
// have one rank. kInvalidArgument: an unknown name or a bad regular
// expression.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const OptimizerOptions& options, std::vector<TrainableParameter> parameters,
    std::vector<Communicator*> axes);

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_OPTIMIZER_H_
