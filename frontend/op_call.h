// A call of an ATen op, sorted into operands and attributes by its schema.
#ifndef TP_FRONTEND_OP_CALL_H_
#define TP_FRONTEND_OP_CALL_H_

#include <ATen/core/function_schema.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

struct OpCall {
  std::string name;  // "aten.add.Tensor"
  std::vector<OperandArg> operands;
  std::vector<NamedAttribute> attributes;
};

// "aten.add.Tensor" of aten::add.Tensor.
std::string OpName(const c10::OperatorName& name);

// Tensors become operands; dtypes and other arguments attributes, unless they
// equal the schema's default; devices, layouts, generators and the like are
// left out. Reads the tensors, as they are now.
absl::StatusOr<OpCall> MakeOpCall(const c10::FunctionSchema& schema,
                                  llvm::ArrayRef<AbstractValue> arguments,
                                  ImportContext& context);

// The argument of that name, or null where the schema has none.
const AbstractValue* FindArgument(const c10::FunctionSchema& schema,
                                  llvm::ArrayRef<AbstractValue> arguments,
                                  llvm::StringRef name);

}  // namespace tp

#endif  // TP_FRONTEND_OP_CALL_H_
