// LibTorch's types in terms of ours.
#ifndef TP_FRONTEND_TORCH_TYPES_H_
#define TP_FRONTEND_TORCH_TYPES_H_

#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>

#include "ir/dtype.h"
#include "ir/location.h"

namespace tp {

// Nothing for types without a counterpart (complex, quantized, float8).
std::optional<DType> FromScalarType(c10::ScalarType type);
c10::ScalarType ToScalarType(DType dtype);
// From the integer that TorchScript passes dtypes as.
std::optional<DType> FromScalarTypeCode(int64_t code);
int64_t ToScalarTypeCode(DType dtype);

// Where the node stands in the user's program: the Python line, if the
// archive still knows it. File names lose what lies before the package.
Location LocationOf(const torch::jit::Node& node, std::string module_path);

}  // namespace tp

#endif  // TP_FRONTEND_TORCH_TYPES_H_
