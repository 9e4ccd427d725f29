// Ops that order elements along a dim, which stays whole.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

std::vector<TensorType> WithIndices(const TensorType& values) {
  TensorType indices = values;
  indices.dtype = DType::kI64;
  return {values, indices};
}

Types SortTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_RETURN_IF_ERROR(DimAttrOr(op, "dim", type.ndim(), -1).status());
  return WithIndices(type);
}

Types ArgsortTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_RETURN_IF_ERROR(DimAttrOr(op, "dim", type.ndim(), -1).status());
  type.dtype = DType::kI64;
  return std::vector<TensorType>{type};
}

Types TopkTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", type.ndim(), -1));
  TP_ASSIGN_OR_RETURN(SymExpr k, IntAttr(op, "k"));
  if (type.ndim() > 0) {
    TP_RETURN_IF_ERROR(assumptions.Require(k, Relation::kLe, type.dims[dim],
                                           "aten.topk: k within the dim",
                                           op.location()));
    type.dims[dim] = k;
  }
  return WithIndices(type);
}

absl::StatusOr<OpRule> SortRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(int dim,
                      DimAttrOr(op, "dim", op.operand(0)->type().ndim(), -1));
  return RuleExcept(op, {dim}, "-");
}

}  // namespace

void AddSortRows(OpRows& rows) {
  rows.push_back(Row("aten.sort", SortRule, SortTypes));
  rows.back().saves = "result";
  rows.push_back(Row("aten.topk", SortRule, TopkTypes));
  rows.back().saves = "result";
  rows.push_back(Row("aten.argsort", SortRule, ArgsortTypes));
  SetNotations(rows, {
                         {"aten.sort", "... s^ -> ... s^, ... s^"},
                         {"aten.argsort", "... s^ -> ... s^"},
                         {"aten.topk", "... s^ -> ... k^, ... k^"},
                     });
}

}  // namespace tp
