// A rank's part of a tensor, and the tensor that all parts make up.
#ifndef TP_RUNTIME_SHARD_TENSOR_H_
#define TP_RUNTIME_SHARD_TENSOR_H_

#include <ATen/ATen.h>

#include "absl/status/statusor.h"
#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/sym_expr.h"
#include "ir/type.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {

// What `rank` holds of `whole`: a view of it where one block is taken, else a
// copy. `sizes` are the symbols of this call. The spec has no Partial.
absl::StatusOr<at::Tensor> ShardOf(const at::Tensor& whole,
                                   const ShardingSpec& spec, const Mesh& mesh,
                                   int rank, const SymbolValues& sizes);

// Puts a tensor of the type `whole` together; `part(rank)` is a rank's. No
// dim is split on two axes.
absl::StatusOr<at::Tensor> Assemble(
    const TensorType& whole, const ShardingSpec& spec, const Mesh& mesh,
    const SymbolValues& sizes, llvm::function_ref<at::Tensor(int rank)> part);

bool IsWhole(const ShardingSpec& spec);

}  // namespace tp

#endif  // TP_RUNTIME_SHARD_TENSOR_H_
