// Ops that ask a tensor for its sizes, dtype or a number in it, evaluated
// while importing.
#ifndef TP_FRONTEND_TENSOR_QUERIES_H_
#define TP_FRONTEND_TENSOR_QUERIES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// Evaluates `op` ("aten::size", "prim::dtype", "aten::item", ...) on a tensor;
// nothing for any other op. A number that depends on data is unknown.
absl::StatusOr<std::optional<AbstractValue>> EvaluateTensorQuery(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context);

// Evaluates arithmetic and comparisons on 0-dim integer tensors whose content
// is known (sizes turned into tensors, as tracing does), which makes another
// such tensor; nothing for any other op or argument.
absl::StatusOr<std::optional<AbstractValue>> FoldScalarTensorOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context);

// A 0-dim tensor from a number, as torch.tensor would make it with `dtype`, or
// with the number's own type where that is not given.
AbstractValue ScalarTensor(const AbstractValue& number,
                           std::optional<DType> dtype, ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_TENSOR_QUERIES_H_
