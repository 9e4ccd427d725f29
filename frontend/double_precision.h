// Makes a loaded TorchScript model compute in f64.
#ifndef TP_FRONTEND_DOUBLE_PRECISION_H_
#define TP_FRONTEND_DOUBLE_PRECISION_H_

#include <torch/csrc/jit/api/module.h>

namespace tp {

// Converts floating point weights and constants to f64, and rewrites dtypes
// of floating point that the code names. Before the first run of the model.
// Throws what LibTorch throws.
void ConvertToDouble(torch::jit::Module& module);

}  // namespace tp

#endif  // TP_FRONTEND_DOUBLE_PRECISION_H_
