#include "ir/builder.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/status.h"

namespace tp {

std::unique_ptr<Op> Builder::Make(std::string name,
                                  std::vector<OperandArg> operands,
                                  std::vector<NamedAttribute> attributes) {
  auto op = std::make_unique<Op>(std::move(name), location_);
  for (const OperandArg& operand : operands) {
    if (const auto* list = std::get_if<std::vector<Value*>>(&operand))
      op->AddOperandList(*list);
    else
      op->AddOperand(std::get<Value*>(operand));
  }
  for (NamedAttribute& attribute : attributes)
    op->SetAttribute(attribute.name, std::move(attribute.value));
  return op;
}

absl::StatusOr<Op*> Builder::Create(std::string name,
                                    std::vector<OperandArg> operands,
                                    std::vector<NamedAttribute> attributes) {
  std::unique_ptr<Op> op =
      Make(std::move(name), std::move(operands), std::move(attributes));
  absl::StatusOr<std::vector<TensorType>> types =
      InferTypes(*op, module_.assumptions());
  if (!types.ok()) {
    // Errors from the op table usually name the op already.
    if (absl::StrContains(types.status().message(), op->name()))
      return types.status();
    std::string where = op->name();
    if (!op->location().empty())
      absl::StrAppend(&where, " at ", ToString(op->location()));
    return Annotate(types.status(), where);
  }
  for (TensorType& type : *types) op->AddResult(std::move(type));
  return block_->Insert(position_, std::move(op));
}

Op* Builder::CreateTyped(std::string name, std::vector<OperandArg> operands,
                         std::vector<NamedAttribute> attributes,
                         std::vector<TensorType> types) {
  std::unique_ptr<Op> op =
      Make(std::move(name), std::move(operands), std::move(attributes));
  for (TensorType& type : types) op->AddResult(std::move(type));
  return block_->Insert(position_, std::move(op));
}

}  // namespace tp
