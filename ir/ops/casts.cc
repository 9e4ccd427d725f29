// Conversions, and ops that give a tensor like another one.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

Types CastTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", type.dtype));
  return std::vector<TensorType>{type};
}

// view.dtype reads the same bytes as another dtype.
Types ViewDTypeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(DType dtype, DTypeAttrOr(op, "dtype", type.dtype));
  if (ByteSize(dtype) != ByteSize(type.dtype)) {
    return OpUnsupported(op, "a view as a dtype of another width");
  }
  type.dtype = dtype;
  return std::vector<TensorType>{type};
}

// to.other, type_as: the dtype of operand 1.
Types CastLikeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType other, TypeOf(op, 1));
  type.dtype = other.dtype;
  return std::vector<TensorType>{type};
}

// Operand 0 elementwise; others lend a dtype only (canonicalize drops them).
absl::StatusOr<OpRule> CastRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  RuleMaker rule(op);
  for (int i = 0; i < type.ndim(); ++i) {
    int factor = rule.Pass(type.dims[i]);
    rule.Operand(0, i, factor);
    rule.Result(0, i, factor);
  }
  for (int i = 1; i < op.num_operands(); ++i) rule.WholeOperand(i);
  if (PartialSurvivesCast(type.dtype, op.result()->type().dtype)) {
    rule.Partial("0");
  }
  return std::move(rule).Build();
}

template <DType dtype>
Types FixedCastTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  type.dtype = dtype;
  return std::vector<TensorType>{type};
}

// copy(self, src): src as a tensor like self.
Types CopyTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType source, TypeOf(op, 1));
  TP_RETURN_IF_ERROR(
      RequireBroadcastTo(op, assumptions, source.dims, self.dims));
  return std::vector<TensorType>{self};
}

}  // namespace

void AddCastRows(OpRows& rows) {
  // contiguous, detach and `to` give their operand itself where there is
  // nothing to do.
  for (const char* name : {"aten.to", "aten.contiguous", "aten.detach",
                           "aten.alias", "aten.lift_fresh"}) {
    rows.push_back(Row(name, CastRule, CastTypes));
    rows.back().traits = kView;
  }
  for (const char* name : {"aten._to_copy", "aten.clone", "aten.lift",
                           "aten.detach_copy", "aten.alias_copy", "aten.cpu"}) {
    rows.push_back(Row(name, CastRule, CastTypes));
  }
  for (const char* name : {"aten.to.other", "aten.type_as"}) {
    rows.push_back(Row(name, CastRule, CastLikeTypes));
    rows.back().traits = kView;
  }
  rows.push_back(Row("aten.view.dtype", CastRule, ViewDTypeTypes));
  rows.back().traits = kView;
  rows.push_back(Row("aten.float", CastRule, FixedCastTypes<DType::kF32>));
  rows.push_back(Row("aten.double", CastRule, FixedCastTypes<DType::kF64>));
  rows.push_back(Row("aten.half", CastRule, FixedCastTypes<DType::kF16>));
  rows.push_back(Row("aten.bfloat16", CastRule, FixedCastTypes<DType::kBF16>));
  rows.push_back(Row("aten.long", CastRule, FixedCastTypes<DType::kI64>));
  rows.push_back(Row("aten.int", CastRule, FixedCastTypes<DType::kI32>));
  rows.push_back(Row("aten.bool", CastRule, FixedCastTypes<DType::kBool>));
  rows.push_back(Row("aten.copy", "pointwise", "-", CopyTypes));
  // fill(self, value): a tensor like self; pointwise also over a 0-dim value.
  rows.push_back(Row("aten.fill", "pointwise", "-", SameAsOperand0));
}

}  // namespace tp
