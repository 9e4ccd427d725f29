// Asks an operator of LibTorch what its results look like.
#ifndef TP_FRONTEND_OP_PROBE_H_
#define TP_FRONTEND_OP_PROBE_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "ir/dtype.h"
#include "ir/sym_expr.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

struct ProbedTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes;
};

// What one return of the schema gave.
struct ProbedReturn {
  bool is_tensor = false;  // one; else a list, or no tensors at all
  std::vector<ProbedTensor> tensors;
};
using ProbedReturns = std::vector<ProbedReturn>;

enum class ProbeKind {
  kMeta,   // by the meta kernel: sizes only
  kZeros,  // by a run on the CPU, on zeros
  kOnes,   // the same on ones, to see whether sizes depend on values
};

// Runs the operator at these sizes. kUnimplemented, with LibTorch's reason,
// where that fails or gives what our types cannot hold.
absl::StatusOr<ProbedReturns> ProbeOp(const c10::OperatorHandle& handle,
                                      llvm::ArrayRef<AbstractValue> arguments,
                                      const SymbolValues& symbols,
                                      ProbeKind kind);

}  // namespace tp

#endif  // TP_FRONTEND_OP_PROBE_H_
