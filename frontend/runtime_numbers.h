// Numbers that the model computes from data: tensors of no dims that Python's
// operators, comparisons and conversions become tensor ops on.
#ifndef TP_FRONTEND_RUNTIME_NUMBERS_H_
#define TP_FRONTEND_RUNTIME_NUMBERS_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "frontend/scalar_ops.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// bool, i64 or f64, as an int, float or bool of Python.
DType NumberDType(const AbstractValue& number);
// The number as a tensor of no dims: one that is known is made where the
// builder is. It becomes `dtype` (bool, i64 or f64) if that is given.
absl::StatusOr<Value*> NumberValue(const AbstractValue& number,
                                   ImportContext& context,
                                   std::optional<DType> dtype = std::nullopt);
// The tensor, of one element, as a number: item().
absl::StatusOr<AbstractValue> ReadRuntimeNumber(Value* tensor,
                                                ImportContext& context);

// Evaluates `op` ("aten::floordiv", "prim::min", ...) where every argument is
// a number and one of them is computed from data; nothing for any other op.
// Comparisons of sizes that depend on data come here, too.
absl::StatusOr<std::optional<AbstractValue>> EvaluateRuntimeNumberOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ScalarKind result, ImportContext& context);

// Whether the number is a size that depends on data, or computed from data.
bool DependsOnData(const AbstractValue& value, ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_RUNTIME_NUMBERS_H_
