// In-place ops as functional ones whose result is written back.
#ifndef TP_FRONTEND_IN_PLACE_OPS_H_
#define TP_FRONTEND_IN_PLACE_OPS_H_

#include <ATen/core/function_schema.h>

#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// Imports a call of an op that writes to its first argument.
absl::StatusOr<std::vector<AbstractValue>> ImportInPlaceOp(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_IN_PLACE_OPS_H_
