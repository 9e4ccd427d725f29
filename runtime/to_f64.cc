#include "runtime/to_f64.h"

#include <vector>

namespace tp {
namespace {

DType Promoted(DType dtype) {
  return IsFloatingPoint(dtype) ? DType::kF64 : dtype;
}

void PromoteValue(Value& value) {
  TensorType type = value.type();
  type.dtype = Promoted(type.dtype);
  value.set_type(std::move(type));
}

void PromoteBlock(Block& block) {
  for (const auto& argument : block.arguments()) PromoteValue(*argument);
  for (const std::unique_ptr<Op>& op : block.ops()) {
    for (int i = 0; i < op->num_results(); ++i) PromoteValue(*op->result(i));
    const std::vector<NamedAttribute> attributes = op->attributes();
    for (const NamedAttribute& attribute : attributes) {
      if (!attribute.value.is_dtype()) continue;
      op->SetAttribute(attribute.name,
                       Attribute(Promoted(attribute.value.as_dtype())));
    }
    for (const auto& region : op->regions()) PromoteBlock(*region);
  }
}

}  // namespace

void PromoteToF64(Module& module) {
  for (const auto& function : module.functions()) {
    PromoteBlock(function->body());
  }
}

}  // namespace tp
