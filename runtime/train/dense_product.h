// Products with a matrix that changes, and their derivatives, through oneDNN.
//
// Autograd's own products of f32 go to MKL, which on some processors (AMD's)
// runs at half of what they can do; oneDNN takes matrices as they lie,
// transposed or not, at nearly the full rate [Zen 5 core, 512 rows: 262
// against 118 GFLOP/s].
#ifndef TP_RUNTIME_TRAIN_DENSE_PRODUCT_H_
#define TP_RUNTIME_TRAIN_DENSE_PRODUCT_H_

#include <ATen/ATen.h>

namespace tp {

// Whether DenseProduct gains for these operands: f32 and large enough.
bool HasDenseProduct(const at::Tensor& x, const at::Tensor& weight);

// x [..., k] times `weight` [n, k] ([k, n] with `transposed`), plus `bias` [n]
// where it is defined; recorded for the backward pass.
at::Tensor DenseProduct(const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& bias, bool transposed);

}  // namespace tp

#endif  // TP_RUNTIME_TRAIN_DENSE_PRODUCT_H_
