// Calls of tensor ops with numbers that depend on data.
#ifndef TP_FRONTEND_NUMBER_ARGUMENTS_H_
#define TP_FRONTEND_NUMBER_ARGUMENTS_H_

#include <ATen/core/function_schema.h>

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// Whether an argument, or an element of a list of numbers, depends on data.
bool HasRuntimeNumbers(llvm::ArrayRef<AbstractValue> arguments);

// A call of another overload that takes tensors where `schema` takes such
// numbers: add(x, 2*n) as aten::add.Tensor. Nothing where there is none.
struct TensorCall {
  const c10::FunctionSchema* schema = nullptr;
  std::vector<AbstractValue> arguments;
};
absl::StatusOr<std::optional<TensorCall>> WithTensorNumbers(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context);

// select(x, dim, i), full(size, n) and the like, which have no such overload.
absl::StatusOr<std::optional<std::vector<AbstractValue>>> ImportByNumber(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_NUMBER_ARGUMENTS_H_
