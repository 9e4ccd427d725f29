// Sums many small tensors over ranks by one collective.
#ifndef TP_RUNTIME_OPTIMIZER_FLAT_REDUCE_H_
#define TP_RUNTIME_OPTIMIZER_FLAT_REDUCE_H_

#include <ATen/ATen.h>

#include <vector>

#include "absl/status/status.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/comm/communicator.h"

namespace tp {

// Each tensor (f32 or f64) becomes the sum over the ranks of the axis, in
// place. Every rank gives as many of the same dtypes and sizes. `what` names
// the call in messages.
absl::Status SumOverRanks(std::vector<at::Tensor*>& tensors, Communicator* axis,
                          const char* what);

// The same over each axis in turn: of all `tensors`, those `is_split` on it.
absl::Status SumOverAxes(
    llvm::ArrayRef<at::Tensor*> tensors, llvm::ArrayRef<Communicator*> axes,
    llvm::function_ref<bool(size_t tensor, size_t axis)> is_split,
    const char* what);

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_FLAT_REDUCE_H_
