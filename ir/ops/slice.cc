// Ops that take a part of operand 0: slice, select, narrow, flip, tril.
#include <limits>

#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// A bound as Python clamps it into [0, size].
absl::StatusOr<SymExpr> ClampBound(const Op& op, Assumptions& assumptions,
                                   SymExpr bound, const SymExpr& size) {
  // "To the end" in traced code is the largest integer.
  constexpr int64_t kHuge = int64_t{1} << 62;
  if (std::optional<int64_t> constant = bound.AsConstant()) {
    if (*constant >= kHuge) return size;
    if (*constant <= -kHuge) return SymExpr(0);
  }
  auto decide = [&](const SymExpr& a, Relation relation, const SymExpr& b) {
    return assumptions.Decide(
        a, relation, b, op.name() + ": a bound within its dim", op.location());
  };
  TP_ASSIGN_OR_RETURN(bool from_start, decide(bound, Relation::kGe, 0));
  if (!from_start) {
    bound = bound + size;
    TP_ASSIGN_OR_RETURN(bool inside, decide(bound, Relation::kGe, 0));
    if (!inside) return SymExpr(0);
  }
  if (bound == size) return size;
  TP_ASSIGN_OR_RETURN(bool inside, decide(bound, Relation::kLe, size));
  return inside ? bound : size;
}

struct Range {
  int dim = 0;
  SymExpr start;
  SymExpr size;  // of the result
};

absl::StatusOr<Range> SliceRange(const Op& op, Assumptions& assumptions,
                                 const TensorType& type) {
  Range range;
  if (type.ndim() == 0) return OpError(op, "a 0-dim tensor has no slices");
  TP_ASSIGN_OR_RETURN(range.dim, DimAttrOr(op, "dim", type.ndim(), 0));
  const SymExpr& size = type.dims[range.dim];
  TP_ASSIGN_OR_RETURN(SymExpr start, IntAttrOr(op, "start", 0));
  TP_ASSIGN_OR_RETURN(
      SymExpr end, IntAttrOr(op, "end", std::numeric_limits<int64_t>::max()));
  TP_ASSIGN_OR_RETURN(SymExpr step, IntAttrOr(op, "step", 1));
  std::optional<int64_t> stride = step.AsConstant();
  if (stride && *stride <= 0) return OpError(op, "step must be positive");
  TP_ASSIGN_OR_RETURN(start, ClampBound(op, assumptions, start, size));
  TP_ASSIGN_OR_RETURN(end, ClampBound(op, assumptions, end, size));
  range.start = start;
  SymExpr length = end - start;
  TP_ASSIGN_OR_RETURN(
      bool some,
      assumptions.Decide(length, Relation::kGe, 0,
                         "aten.slice: start before end", op.location()));
  range.size = some ? CeilDiv(length, step) : SymExpr(0);
  return range;
}

Types SliceTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(Range range, SliceRange(op, assumptions, type));
  type.dims[range.dim] = range.size;
  return std::vector<TensorType>{type};
}

// A slice that keeps every element from the start on leaves a split alone:
// bounds beyond the end are clamped, locally too.
bool KeepsAll(const Op& op, int dim) {
  const SymExpr& size = op.operand(0)->type().dims[dim];
  if (!(op.result()->type().dims[dim] == size)) return false;
  const Attribute* step = op.attribute("step");
  if (step != nullptr && !(*step == Attribute(1))) return false;
  const Attribute* start = op.attribute("start");
  if (start != nullptr && !start->is_none() && !IsZero(start)) return false;
  const Attribute* end = op.attribute("end");
  if (end == nullptr || end->is_none()) return true;
  // A negative end counts from the local one.
  std::optional<int64_t> constant = end->AsConstantInt();
  return (constant && *constant > 0) ||
         (end->is_int() && end->as_int() == size);
}

absl::StatusOr<OpRule> SliceRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  int ndim = op.operand(0)->type().ndim();
  if (ndim == 0 || op.result()->type().ndim() != ndim) {
    return OpError(op, "needs a dim to slice");
  }
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", ndim, 0));
  if (KeepsAll(op, dim)) return RuleExcept(op, {}, "0");
  return RuleExcept(op, {dim}, "0");
}

Types NarrowTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  if (type.ndim() == 0) return OpError(op, "a 0-dim tensor has no parts");
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim()));
  TP_ASSIGN_OR_RETURN(SymExpr start, IntAttr(op, "start"));
  TP_ASSIGN_OR_RETURN(SymExpr length, IntAttr(op, "length"));
  if (start.is_constant() && start.constant() < 0) {
    start = start + type.dims[dim];
  }
  TP_RETURN_IF_ERROR(assumptions.Require(
      start, Relation::kGe, 0, "aten.narrow: the start", op.location()));
  TP_RETURN_IF_ERROR(assumptions.Require(start + length, Relation::kLe,
                                         type.dims[dim], "aten.narrow: the end",
                                         op.location()));
  type.dims[dim] = length;
  return std::vector<TensorType>{type};
}

absl::StatusOr<OpRule> WholeDimRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(int dim,
                      DimAttr(op, "dim", op.operand(0)->type().ndim()));
  return RuleExcept(op, {dim}, "0");
}

Types SelectTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  if (type.ndim() == 0) return OpError(op, "a 0-dim tensor has no parts");
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim()));
  TP_ASSIGN_OR_RETURN(SymExpr index, IntAttr(op, "index"));
  const SymExpr& size = type.dims[dim];
  TP_ASSIGN_OR_RETURN(
      bool from_start,
      assumptions.Decide(index, Relation::kGe, 0, "aten.select: the index",
                         op.location()));
  if (!from_start) index = index + size;
  TP_RETURN_IF_ERROR(assumptions.Require(
      index, Relation::kGe, 0, "aten.select: the index", op.location()));
  TP_RETURN_IF_ERROR(assumptions.Require(
      index, Relation::kLt, size, "aten.select: the index", op.location()));
  type.dims.erase(type.dims.begin() + dim);
  return std::vector<TensorType>{type};
}

absl::StatusOr<OpRule> SelectRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim()));
  RuleMaker rule(op);
  int next = 0;
  for (int i = 0; i < type.ndim(); ++i) {
    int factor = i == dim ? rule.Whole(type.dims[i]) : rule.Pass(type.dims[i]);
    rule.Operand(0, i, factor);
    if (i != dim) rule.Result(0, next++, factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

// flip and roll move elements along `dims` only.
absl::StatusOr<OpRule> DimsRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(std::vector<int> dims,
                      DimsAttr(op, "dims", op.operand(0)->type().ndim()));
  return RuleExcept(op, dims, "0");
}

// tril and triu mask the last two dims by position.
absl::StatusOr<OpRule> TriangleRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  int ndim = op.operand(0)->type().ndim();
  return RuleExcept(op, {ndim - 2, ndim - 1}, "0");
}

Types TriangleTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  if (type.ndim() < 2) return OpError(op, "needs at least 2 dims");
  return std::vector<TensorType>{type};
}

}  // namespace

void AddSliceRows(OpRows& rows) {
  rows.push_back(Row("aten.slice", SliceRule, SliceTypes));
  rows.back().traits = kView;
  rows.push_back(Row("aten.narrow", WholeDimRule, NarrowTypes));
  rows.back().traits = kView;
  rows.push_back(Row("aten.select", SelectRule, SelectTypes));
  rows.back().traits = kView;
  rows.push_back(Row("aten.flip", DimsRule, SameAsOperand0));
  rows.push_back(Row("aten.roll", DimsRule, SameAsOperand0));
  rows.push_back(Row("aten.tril", TriangleRule, TriangleTypes));
  rows.push_back(Row("aten.triu", TriangleRule, TriangleTypes));
}

}  // namespace tp
