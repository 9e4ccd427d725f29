// ATen ops on tensors as ops of our IR: one op per call, arguments by schema.
#ifndef TP_FRONTEND_TENSOR_OPS_H_
#define TP_FRONTEND_TENSOR_OPS_H_

#include <ATen/core/function_schema.h>

#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// Imports a call of the op with that schema, one argument per schema argument;
// gives one value per return. Views are tracked, writes in place become new
// values, dropout in evaluation mode disappears. An op without a row is noted
// in the context and gives unknown values. kUnimplemented: an effect that
// cannot be kept (random numbers, state); kInvalidArgument: wrong shapes.
absl::StatusOr<std::vector<AbstractValue>> ImportTensorOp(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context);

// Whether a call of the op writes to one of its arguments.
bool WritesArguments(const c10::FunctionSchema& schema);

}  // namespace tp

#endif  // TP_FRONTEND_TENSOR_OPS_H_
