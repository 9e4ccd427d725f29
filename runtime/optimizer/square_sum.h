// Sums of squares in one pass over a tensor.
#ifndef TP_RUNTIME_OPTIMIZER_SQUARE_SUM_H_
#define TP_RUNTIME_OPTIMIZER_SQUARE_SUM_H_

#include <ATen/ATen.h>

namespace tp {

// Of all elements of an f16, bf16, f32 or f64 tensor, in f64. ATen's
// reductions to f64 would copy the whole tensor to f64 first. For the first
// three dtypes it is finite exactly if every element is.
double SquareSum(const at::Tensor& tensor);

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_SQUARE_SUM_H_
