// Products with a constant matrix, through oneDNN.
//
// at::linear hands f32 to MKL, which reads the weight as it lies in memory,
// and on some processors (AMD's) runs at half of what they can do. oneDNN
// reaches the full rate everywhere when the weight was first brought into the
// blocked layout of its kernels; a weight is constant, so that is done once.
#ifndef TP_RUNTIME_PACKED_LINEAR_H_
#define TP_RUNTIME_PACKED_LINEAR_H_

#include <ATen/ATen.h>

#include <string>

namespace tp {

// Applied to the product before it is written.
struct LinearEpilogue {
  std::string function = "none";  // or gelu, relu, ...: names of LibTorch
  std::string approximate = "";   // of gelu: none or tanh
};

// Whether this LibTorch and processor gain from packing a weight [n, k], or
// [k, n], of this type.
bool CanPackWeight(const at::Tensor& weight);

// The blocked copy of `weight` [n, k]: opaque, only for PackedLinear. With
// `transposed`, the weight is [k, n].
at::Tensor PackWeight(const at::Tensor& weight, bool transposed);

// x [..., k] times the packed weight, plus `bias` [n] where it is defined.
at::Tensor PackedLinear(const at::Tensor& x, const at::Tensor& packed,
                        const at::Tensor& bias,
                        const LinearEpilogue& epilogue = {});

}  // namespace tp

#endif  // TP_RUNTIME_PACKED_LINEAR_H_
