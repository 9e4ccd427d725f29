#include "passes/gradients.h"

#include "ir/op_def.h"

namespace tp {

llvm::DenseSet<const Value*> ValuesWithGradients(const Function& function) {
  llvm::DenseSet<const Value*> values;
  for (size_t i = 0; i < function.arguments().size(); ++i) {
    const Value* argument = function.body().arguments()[i].get();
    if (function.arguments()[i].is_trainable() &&
        IsFloatingPoint(argument->type().dtype))
      values.insert(argument);
  }
  for (const auto& op : function.body().ops()) {
    // A barrier by its meaning.
    if (op->Is("aten.detach")) continue;
    bool depends = false;
    for (const Value* operand : op->operands())
      depends |= operand != nullptr && values.contains(operand);
    if (!depends) continue;
    for (int i = 0; i < op->num_results(); ++i)
      if (IsFloatingPoint(op->result(i)->type().dtype))
        values.insert(op->result(i));
  }
  return values;
}

bool NeedsCopy(const Strategy& strategy, int index) {
  return strategy.kind != Strategy::Kind::kReplicate &&
         strategy.operands[index].is_replicate();
}

Placement GradientPlacement(const Placement& value) {
  return value.is_shard() ? value : Placement::Replicate();
}

ShardingSpec GradientSpec(const Value& value, int mesh_ndim) {
  ShardingSpec spec(mesh_ndim);
  for (int axis = 0; axis < mesh_ndim; ++axis)
    spec[axis] = GradientPlacement(AxisPlacement(value, axis));
  return spec;
}

ShardingSpec TermSpec(const Value& entering, const Mesh& mesh) {
  ShardingSpec spec = GradientSpec(entering, mesh.ndim());
  for (int axis = 0; axis < mesh.ndim(); ++axis)
    if (IsCopyOn(&entering, mesh.axis(axis).name))
      spec[axis] = Placement::Partial();
  return spec;
}

const Value* Origin(const Value* value) {
  while (value->op() != nullptr &&
         (value->op()->Is("tp.enter") || value->op()->Is("tp.leave")))
    value = value->op()->operand(value->index());
  return value;
}

// What happens on other axes in between leaves the terms of this one terms.
bool IsCopyOn(const Value* value, const std::string& axis) {
  for (value = Origin(value);
       value->op() != nullptr && HasTrait(*value->op(), kCollective);
       value = Origin(value->op()->operand(0)))
    if (value->op()->attribute("axis")->as_string() == axis)
      return value->op()->Is("tp.copy");
  return false;
}

}  // namespace tp
