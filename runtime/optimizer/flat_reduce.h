// Sums many small tensors over ranks by one collective.
#ifndef TP_RUNTIME_OPTIMIZER_FLAT_REDUCE_H_
#define TP_RUNTIME_OPTIMIZER_FLAT_REDUCE_H_

#include <ATen/ATen.h>

#include <vector>

#include "absl/status/status.h"
#include "runtime/comm/communicator.h"

namespace tp {

// Each tensor (f32 or f64) becomes the sum over the ranks of the axis, in
// place. Every rank gives as many of the same dtypes and sizes. `what` names
// the call in messages.
absl::Status SumOverRanks(std::vector<at::Tensor*>& tensors, Communicator* axis,
                          const char* what);

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_FLAT_REDUCE_H_
