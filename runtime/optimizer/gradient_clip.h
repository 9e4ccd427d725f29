// The norm of all gradients together, and clipping by it.
#ifndef TP_RUNTIME_OPTIMIZER_GRADIENT_CLIP_H_
#define TP_RUNTIME_OPTIMIZER_GRADIENT_CLIP_H_

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/train/parameter.h"

namespace tp {

// The 2-norm over every element of every gradient, each counted once: parts
// are added up over ranks, copies are not. Undefined gradients are left out.
// Accumulates in f64; the same bits on all ranks, which all have to call.
absl::StatusOr<double> GlobalGradNorm(
    const std::vector<TrainableParameter>& parameters,
    const std::vector<at::Tensor>& gradients,
    llvm::ArrayRef<Communicator*> axes);

// Scales the gradients by max_norm / (norm + 1e-6) where that is below 1, as
// torch.nn.utils.clip_grad_norm_ does. A norm that is no number is scaled by
// it: every gradient is then NaN.
void ClipGradients(std::vector<at::Tensor>& gradients, double norm,
                   double max_norm);

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_GRADIENT_CLIP_H_
