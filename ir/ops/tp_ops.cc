// The ops of the compiler itself. Their types are given where they are made;
// what is inferred here holds while types are global.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

Types SymTypes(const Op& op, Assumptions&) {
  TP_RETURN_IF_ERROR(IntAttr(op, "value").status());
  return std::vector<TensorType>{{DType::kI64, {}}};
}

Types EmbeddingShardTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType weight, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType ids, TypeOf(op, 1));
  TP_RETURN_IF_ERROR(IntAttr(op, "offset").status());
  if (weight.ndim() != 2) return OpError(op, "the weight must have 2 dims");
  TensorType result{weight.dtype, ids.dims};
  result.dims.push_back(weight.dims[1]);
  return std::vector<TensorType>{result};
}

Types GatherShardTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType index, TypeOf(op, 1));
  for (const char* name : {"dim", "offset", "size"})
    TP_RETURN_IF_ERROR(IntAttr(op, name).status());
  if (index.dtype != DType::kI64 || index.ndim() != self.ndim())
    return OpError(op, "the index must be i64, of as many dims as the tensor");
  return std::vector<TensorType>{{self.dtype, index.dims}};
}

Types GivenTypes(const Op& op, Assumptions&) {
  return OpUnsupported(op, "its results are typed where it is made");
}

Types NoTypes(const Op&, Assumptions&) { return std::vector<TensorType>(); }

Types SameAsOperands(const Op& op, Assumptions&) {
  std::vector<TensorType> types;
  for (const Value* operand : op.operands()) {
    if (operand == nullptr) return OpError(op, "an operand is missing");
    types.push_back(operand->type());
  }
  return types;
}

}  // namespace

void AddTpRows(OpRows& rows) {
  for (const char* name : {"tp.all_reduce", "tp.all_gather",
                           "tp.reduce_scatter", "tp.all_to_all"}) {
    rows.push_back(Row(name, "replicate", "-", SameAsOperand0));
    rows.back().traits = kCollective;
  }
  rows.push_back(Row("tp.reshard", "replicate", "-", SameAsOperand0));
  // Local, but a step of a reshard like the collectives.
  rows.push_back(Row("tp.slice", "replicate", "-", SameAsOperand0));
  rows.back().traits = kCollective | kView;
  // Identity; its gradient is summed over the axis.
  rows.push_back(Row("tp.copy", "replicate", "-", SameAsOperand0));
  rows.back().traits = kCollective | kView;
  // Values that enter and leave a stretch of ops that is differentiated as
  // one; results lie as their operands do.
  for (const char* name : {"tp.enter", "tp.leave"}) {
    rows.push_back(Row(name, "replicate", "-", SameAsOperands));
    rows.back().traits = kBoundary;
  }
  // Gradients of what left a segment in, of what entered it out.
  rows.push_back(Row("tp.segment_grad", "replicate", "-", GivenTypes));
  rows.back().traits = kBoundary;
  // Gives a value back that a segment let go after it had been used.
  rows.push_back(Row("tp.refill", "replicate", "-", GivenTypes));
  rows.back().traits = kBoundary;
  // Control flow that depends on data. What decides is whole and equal on all
  // ranks (tp.broadcast), and so is what goes into, around and out of regions;
  // ops inside are split like any other.
  //
  //   %y = tp.if(%cond) { ^() ... yield %a } { ^() ... yield %b } : type
  //   %y = tp.loop(%limit, %cond, [%x]) { ^(%i: i64[], %carried: type)
  //     ... yield %again, %next } : type
  //
  // A loop runs at most %limit times (`none`: any number), %i counting from 0,
  // and while %cond, then %again, holds; without %cond nothing is yielded
  // for it.
  for (const char* name : {"tp.if", "tp.loop"}) {
    rows.push_back(Row(name, "replicate", "-", GivenTypes));
    rows.back().traits = kRegions;
  }
  // Ends the run on all ranks with its message.
  rows.push_back(Row("tp.raise", "replicate", "-", NoTypes));
  // The value of the first rank of the axis.
  rows.push_back(Row("tp.broadcast", "replicate", "-", SameAsOperand0));
  rows.back().traits = kCollective;
  rows.push_back(Row("tp.sym", "replicate", "-", SymTypes));
  rows.push_back(
      Row("tp.embedding_shard", "replicate", "-", EmbeddingShardTypes));
  // gather from [offset, offset + n) of a dim of `size`; zeros for the rest.
  rows.push_back(Row("tp.gather_shard", "replicate", "-", GatherShardTypes));
}

}  // namespace tp
