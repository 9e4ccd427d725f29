// Which values have gradients, and how gradients lie.
//
// The gradient of a whole (R) value is whole on every rank, that of a shard
// is that shard's, and that of a summand (Partial) is the whole gradient of
// the sum. So an op that computes different pieces on different ranks gives
// each rank only a term of the gradient of a whole operand: such operands go
// through tp.copy, whose gradient is summed over the axis.
#ifndef TP_PASSES_GRADIENTS_H_
#define TP_PASSES_GRADIENTS_H_

#include "ir/module.h"
#include "llvm/ADT/DenseSet.h"
#include "passes/strategy.h"

namespace tp {

// Values that depend on a trainable parameter through floating point values.
llvm::DenseSet<const Value*> ValuesWithGradients(const Function& function);

// Whether operand `index` of an op run so needs tp.copy, if it has a gradient.
bool NeedsCopy(const Strategy& strategy, int index);

// How the gradient of a value lies, on one axis and on all.
Placement GradientPlacement(const Placement& value);
ShardingSpec GradientSpec(const Value& value, int mesh_ndim);

// How the gradient lies that the derivative of a segment gives for a value
// that entered it: what came through tp.copy is a term per rank.
ShardingSpec TermSpec(const Value& entering, const Mesh& mesh);

// The value before tp.enter and tp.leave.
const Value* Origin(const Value* value);
// Whether the value comes from a tp.copy on that axis.
bool IsCopyOn(const Value* value, const std::string& axis);

}  // namespace tp

#endif  // TP_PASSES_GRADIENTS_H_
