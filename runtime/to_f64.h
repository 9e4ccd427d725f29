// Rewrites a program to compute in f64, for verification.
#ifndef TP_RUNTIME_TO_F64_H_
#define TP_RUNTIME_TO_F64_H_

#include "ir/module.h"

namespace tp {

// f32, f16 and bf16 become f64 in every type and dtype attribute.
void PromoteToF64(Module& module);

}  // namespace tp

#endif  // TP_RUNTIME_TO_F64_H_
