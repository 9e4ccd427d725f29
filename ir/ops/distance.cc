// Distances, similarities, and ops that scale by a norm. A norm is no sum, so
// the dims it is over stay whole.
#include <algorithm>
#include <cmath>

#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// Adds the factor of a dim that operands broadcast along, `from_end` >= 1.
void FromEnd(RuleMaker& rule, const Op& op, int operand, int from_end,
             int factor) {
  if (from_end <= op.operand(operand)->type().ndim())
    rule.Operand(operand, -from_end, factor);
}

// cosine_similarity(x1, x2, dim=1): dims broadcast, one is gone.
Types CosineTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType a, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType b, TypeOf(op, 1));
  TensorType result;
  result.dtype = ToFloat(Promote(a.dtype, b.dtype));
  TP_ASSIGN_OR_RETURN(result.dims, Broadcast(op, assumptions, a.dims, b.dims));
  const int ndim = result.ndim();
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", ndim, 1));
  if (ndim > 0) result.dims.erase(result.dims.begin() + dim);
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> CosineRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& result = op.result()->type();
  const int ndim =
      std::max(op.operand(0)->type().ndim(), op.operand(1)->type().ndim());
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", ndim, 1));
  if (ndim == 0) return ReplicateRule(op);
  if (result.ndim() != ndim - 1) {
    return OpError(op, "has a result of other dims");
  }
  RuleMaker rule(op);
  int next = 0;
  for (int d = 0; d < ndim; ++d) {
    if (d == dim) {
      for (int i = 0; i < 2; ++i) {
        const TensorType& type = op.operand(i)->type();
        const int own = d - (ndim - type.ndim());
        if (own >= 0) rule.Operand(i, own, rule.Whole(type.dims[own]));
      }
      continue;
    }
    const int factor = rule.Pass(result.dims[next]);
    rule.Result(0, next++, factor);
    for (int i = 0; i < 2; ++i) FromEnd(rule, op, i, ndim - d, factor);
  }
  return std::move(rule).Build();
}

// pairwise_distance(x1, x2, p, eps, keepdim): over the last dim.
Types PairwiseTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType a, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType b, TypeOf(op, 1));
  TensorType result;
  result.dtype = ToFloat(Promote(a.dtype, b.dtype));
  TP_ASSIGN_OR_RETURN(result.dims, Broadcast(op, assumptions, a.dims, b.dims));
  TP_ASSIGN_OR_RETURN(bool keepdim, BoolAttrOr(op, "keepdim", false));
  if (result.ndim() == 0) return OpError(op, "needs a dim to measure along");
  result.dims.pop_back();
  if (keepdim) result.dims.push_back(1);
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> PairwiseRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  TP_ASSIGN_OR_RETURN(bool keepdim, BoolAttrOr(op, "keepdim", false));
  const TensorType& result = op.result()->type();
  const int kept = result.ndim() - (keepdim ? 1 : 0);
  RuleMaker rule(op);
  for (int i = 1; i <= kept; ++i) {
    const int factor = rule.Pass(result.dims[kept - i]);
    rule.Result(0, kept - i, factor);
    for (int operand = 0; operand < 2; ++operand)
      FromEnd(rule, op, operand, i + 1, factor);
  }
  for (int i = 0; i < 2; ++i) {
    const TensorType& type = op.operand(i)->type();
    if (type.ndim() > 0) rule.Operand(i, -1, rule.Whole(type.dims.back()));
  }
  return std::move(rule).Build();
}

// linalg_cross(self, other, dim): of vectors of 3 along a dim.
Types CrossTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType a, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType b, TypeOf(op, 1));
  if (a.ndim() != b.ndim()) return OpError(op, "takes equal numbers of dims");
  TensorType result{Promote(a.dtype, b.dtype), {}};
  TP_ASSIGN_OR_RETURN(result.dims, Broadcast(op, assumptions, a.dims, b.dims));
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> CrossRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& result = op.result()->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", result.ndim(), -1));
  RuleMaker rule(op);
  for (int d = 0; d < result.ndim(); ++d) {
    const int factor =
        d == dim ? rule.Whole(result.dims[d]) : rule.Pass(result.dims[d]);
    rule.Result(0, d, factor);
    for (int i = 0; i < 2; ++i) FromEnd(rule, op, i, result.ndim() - d, factor);
  }
  rule.Partial("0|1");
  return std::move(rule).Build();
}

// cdist(x1 [..., P, M], x2 [..., R, M]): every pair of rows.
Types CdistTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType a, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType b, TypeOf(op, 1));
  if (a.ndim() < 2 || b.ndim() < 2) return OpError(op, "needs 2 dims or more");
  if (!IsFloatingPoint(a.dtype)) return OpError(op, "needs floating point");
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, a.dims.back(), b.dims.back(),
                              "the widths of the rows")
                         .status());
  llvm::ArrayRef<SymExpr> batch_a = a.dims;
  llvm::ArrayRef<SymExpr> batch_b = b.dims;
  TensorType result{a.dtype, {}};
  TP_ASSIGN_OR_RETURN(
      result.dims,
      Broadcast(op, assumptions, batch_a.drop_back(2), batch_b.drop_back(2)));
  result.dims.push_back(a.dims[a.ndim() - 2]);
  result.dims.push_back(b.dims[b.ndim() - 2]);
  return std::vector<TensorType>{result};
}

// dist(self, other, p): the norm of the difference. Where it is a largest, a
// smallest or a count, parts of it make the whole.
Types DistTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType a, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType b, TypeOf(op, 1));
  TP_RETURN_IF_ERROR(Broadcast(op, assumptions, a.dims, b.dims).status());
  return std::vector<TensorType>{{ToFloat(Promote(a.dtype, b.dtype)), {}}};
}

absl::StatusOr<OpRule> DistRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const double p =
      IsNone(op, "p") ? 2 : op.attribute("p")->AsNumber().value_or(2);
  ReduceKind reduce = ReduceKind::kSum;
  if (std::isinf(p)) {
    reduce = p > 0 ? ReduceKind::kMax : ReduceKind::kMin;
  } else if (p != 0) {
    return ReplicateRule(op);
  }
  RuleMaker rule(op);
  rule.ReduceBroadcast(reduce);
  return std::move(rule).Build();
}

Types RenormTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  if (type.ndim() < 2) return OpError(op, "needs 2 dims or more");
  TP_RETURN_IF_ERROR(DimAttr(op, "dim", type.ndim()).status());
  return std::vector<TensorType>{type};
}

// renorm(self, p, dim, maxnorm): each slice of `dim` by its own norm.
absl::StatusOr<OpRule> RenormRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const int ndim = op.operand(0)->type().ndim();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", ndim));
  std::vector<int> whole;
  for (int d = 0; d < ndim; ++d)
    if (d != dim) whole.push_back(d);
  return RuleExcept(op, whole, "-");
}

Types WeightNormTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType v, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType g, TypeOf(op, 1));
  v.dtype = Promote(v.dtype, g.dtype);
  return std::vector<TensorType>{v};
}

// _weight_norm(v, g, dim): each slice v of `dim` is scaled to the norm g;
// dim = -1 means all of v at once.
absl::StatusOr<OpRule> WeightNormRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& v = op.operand(0)->type();
  const TensorType& g = op.operand(1)->type();
  TP_ASSIGN_OR_RETURN(int64_t dim, ConstIntAttrOr(op, "dim", 0));
  if (dim < 0 || dim >= v.ndim() || g.ndim() != v.ndim()) {
    return ReplicateRule(op);
  }
  RuleMaker rule(op);
  for (int d = 0; d < v.ndim(); ++d) {
    const int factor = d == dim ? rule.Pass(v.dims[d]) : rule.Whole(v.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, d, factor);
    if (d == dim) {
      rule.Operand(1, d, factor);
    } else {
      rule.Operand(1, d, rule.Whole(g.dims[d]));
    }
  }
  // Linear in g.
  rule.Partial("1");
  return std::move(rule).Build();
}

}  // namespace

void AddDistanceRows(OpRows& rows) {
  rows.push_back(Row("aten.cosine_similarity", CosineRule, CosineTypes));
  rows.back().saves = "0,1";
  rows.push_back(Row("aten.pairwise_distance", PairwiseRule, PairwiseTypes));
  rows.back().saves = "0,1,result";
  rows.push_back(Row("aten.linalg_cross", CrossRule, CrossTypes));
  rows.back().saves = "0,1";
  rows.push_back(
      Row("aten.cdist", "... p m^, ... r m^ -> ... p r", "-", CdistTypes));
  rows.back().saves = "0,1,result";
  rows.push_back(Row("aten.dist", DistRule, DistTypes));
  rows.back().saves = "0,1,result";
  rows.push_back(Row("aten.renorm", RenormRule, RenormTypes));
  rows.back().saves = "0";
  rows.push_back(Row("aten._weight_norm", WeightNormRule, WeightNormTypes));
  rows.back().saves = "0,1";
  SetNotations(
      rows, {
                {"aten.cosine_similarity", "... s^ ..., ... s^ ... -> ... ..."},
                {"aten.pairwise_distance", "... s^, ... s^ -> ..."},
                {"aten.renorm", "...^ d ...^ -> ...^ d ...^"},
                {"aten._weight_norm", "...^ d ...^, ... d ... -> ...^ d ...^"},
                {"aten.linalg_cross", "... s^ ..., ... s^ ... -> ... s^ ..."},
            });
}

}  // namespace tp
