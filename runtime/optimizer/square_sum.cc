#include "runtime/optimizer/square_sum.h"

namespace tp {
namespace {

// Several sums side by side, so that one addition need not wait for another.
constexpr int64_t kLanes = 8;

template <typename T, typename Wide>
double SumOf(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  const T* const data = dense.const_data_ptr<T>();
  const int64_t count = dense.numel();
  double lanes[kLanes] = {};
  int64_t n = 0;
  for (; n + kLanes <= count; n += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double x = static_cast<Wide>(data[n + lane]);
      lanes[lane] += x * x;
    }
  }
  for (; n < count; ++n) {
    const double x = static_cast<Wide>(data[n]);
    lanes[0] += x * x;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

double SquareSum(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return SumOf<double, double>(tensor);
    case at::kFloat:
      return SumOf<float, float>(tensor);
    case at::kBFloat16:
      return SumOf<at::BFloat16, float>(tensor);
    case at::kHalf:
      return SumOf<at::Half, float>(tensor);
    default:
      return SumOf<double, double>(tensor.to(at::kDouble));
  }
}

}  // namespace tp
