// Ops of TorchScript on numbers, strings and None, evaluated while importing.
#ifndef TP_FRONTEND_SCALAR_OPS_H_
#define TP_FRONTEND_SCALAR_OPS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// What the schema says the op gives, where arguments do not tell.
enum class ScalarKind { kOther, kBool, kInt, kFloat };

// Evaluates `op` ("aten::floordiv", "prim::min", ...) where every argument is
// a number, string, device or None; nothing for any other op. Integers stay
// symbolic; comparisons are decided by the example sizes, with guards.
// kInvalidArgument: a division by zero. kUnimplemented: a shift of a symbol.
absl::StatusOr<std::optional<AbstractValue>> EvaluateScalarOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ScalarKind result, ImportContext& context);

// Whether the truth of a number, string, list or None is as in Python;
// nothing for other kinds.
absl::StatusOr<std::optional<bool>> Truth(const AbstractValue& value,
                                          ImportContext& context);

// Python's == on scalars and containers of them; nothing where it does not
// apply (tensors).
absl::StatusOr<std::optional<bool>> Equal(const AbstractValue& a,
                                          const AbstractValue& b,
                                          ImportContext& context);

// The number as a float; sizes are fixed to their example values.
absl::StatusOr<double> ToFloat(const AbstractValue& number,
                               ImportContext& context);
// The number as an integer, truncated as Python's int().
absl::StatusOr<SymExpr> ToInt(const AbstractValue& number,
                              ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_SCALAR_OPS_H_
