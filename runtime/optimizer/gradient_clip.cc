#include "runtime/optimizer/gradient_clip.h"

#include <cmath>

#include "ir/status.h"
#include "runtime/optimizer/flat_reduce.h"
#include "runtime/optimizer/square_sum.h"

namespace tp {

absl::StatusOr<double> GlobalGradNorm(
    const std::vector<TrainableParameter>& parameters,
    const std::vector<at::Tensor>& gradients,
    llvm::ArrayRef<Communicator*> axes) {
  std::vector<at::Tensor> squares(gradients.size());
  std::vector<at::Tensor*> all;
  for (size_t i = 0; i < gradients.size(); ++i) {
    all.push_back(&squares[i]);
    if (!gradients[i].defined()) continue;
    squares[i] = at::scalar_tensor(SquareSum(gradients[i]), at::kDouble);
  }
  TP_RETURN_IF_ERROR(SumOverAxes(
      all, axes,
      [&](size_t i, size_t axis) {
        return parameters[i].spec[axis].is_shard();
      },
      "gradient norm"));
  double sum = 0;
  for (const at::Tensor& square : squares) {
    if (square.defined()) sum += square.item<double>();
  }
  return std::sqrt(sum);
}

void ClipGradients(std::vector<at::Tensor>& gradients, double norm,
                   double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return;
  for (at::Tensor& gradient : gradients) {
    if (gradient.defined()) gradient.mul_(factor);
  }
}

}  // namespace tp
