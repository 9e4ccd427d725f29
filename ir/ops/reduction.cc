// Reductions and scans over dims.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

absl::StatusOr<TensorType> Reduced(const Op& op) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(std::vector<int> dims, DimsAttr(op, "dim", type.ndim()));
  TP_ASSIGN_OR_RETURN(bool keepdim, BoolAttrOr(op, "keepdim", false));
  Dims result;
  for (int i = 0; i < type.ndim(); ++i) {
    if (!llvm::is_contained(dims, i)) {
      result.push_back(type.dims[i]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  type.dims = result;
  return type;
}

Types SameDTypeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, Reduced(op));
  return std::vector<TensorType>{type};
}

Types SumTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, Reduced(op));
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", ToSum(type.dtype)));
  return std::vector<TensorType>{type};
}

Types MeanTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, Reduced(op));
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", type.dtype));
  if (!IsFloatingPoint(type.dtype)) {
    return OpError(op, "needs a floating-point dtype");
  }
  return std::vector<TensorType>{type};
}

template <DType dtype>
Types FixedTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, Reduced(op));
  type.dtype = dtype;
  return std::vector<TensorType>{type};
}

Types FloatTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, Reduced(op));
  TP_ASSIGN_OR_RETURN(type.dtype,
                      DTypeAttrOr(op, "dtype", ToFloat(type.dtype)));
  return std::vector<TensorType>{type};
}

// max.dim, min.dim, median.dim, mode: values and indices.
Types ValuesAndIndicesTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType values, Reduced(op));
  TensorType indices = values;
  indices.dtype = DType::kI64;
  return std::vector<TensorType>{values, indices};
}

Types TwiceTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, Reduced(op));
  return std::vector<TensorType>{type, type};
}

absl::StatusOr<OpRule> ReduceRule(const Op& op, bool whole, ReduceKind reduce,
                                  llvm::StringRef partial) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(std::vector<int> dims, DimsAttr(op, "dim", type.ndim()));
  TP_ASSIGN_OR_RETURN(bool keepdim, BoolAttrOr(op, "keepdim", false));
  RuleMaker rule(op);
  int next = 0;
  for (int i = 0; i < type.ndim(); ++i) {
    if (llvm::is_contained(dims, i)) {
      rule.Operand(
          0, i,
          whole ? rule.Whole(type.dims[i]) : rule.Reduce(type.dims[i], reduce));
      if (keepdim) ++next;
      continue;
    }
    int factor = rule.Pass(type.dims[i]);
    rule.Operand(0, i, factor);
    for (int r = 0; r < op.num_results(); ++r) rule.Result(r, next, factor);
    ++next;
  }
  rule.Partial(partial);
  return std::move(rule).Build();
}

absl::StatusOr<OpRule> SumRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  bool linear = PartialSurvivesCast(op.operand(0)->type().dtype,
                                    op.result()->type().dtype);
  return ReduceRule(op, false, ReduceKind::kSum, linear ? "0" : "-");
}

// A mean of the means of parts of different sizes is wrong, so the dims stay
// whole; canonicalize makes it a sum and a count where that pays.
absl::StatusOr<OpRule> MeanRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  bool linear = PartialSurvivesCast(op.operand(0)->type().dtype,
                                    op.result()->type().dtype);
  return ReduceRule(op, true, ReduceKind::kSum, linear ? "0" : "-");
}

template <ReduceKind reduce>
absl::StatusOr<OpRule> ExtremeRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  // Booleans have no reduction between ranks.
  bool whole = op.operand(0)->type().dtype == DType::kBool;
  return ReduceRule(op, whole, reduce, "-");
}

absl::StatusOr<OpRule> WholeRule(const Op& op) {
  return ReduceRule(op, true, ReduceKind::kSum, "-");
}

// Scans keep their dims; the scanned dim stays whole.
Types CumulativeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_RETURN_IF_ERROR(DimAttr(op, "dim", type.ndim()).status());
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", ToSum(type.dtype)));
  return std::vector<TensorType>{type};
}

Types CumulativeMaxTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_RETURN_IF_ERROR(DimAttr(op, "dim", type.ndim()).status());
  TensorType indices = type;
  indices.dtype = DType::kI64;
  return std::vector<TensorType>{type, indices};
}

template <bool linear>
absl::StatusOr<OpRule> CumulativeRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim()));
  bool passes =
      linear && PartialSurvivesCast(type.dtype, op.result()->type().dtype);
  return RuleExcept(op, {dim}, passes ? "0" : "-");
}

// diff(self, n, dim, prepend, append): neighbours along a dim that both ends
// lengthen and each of n rounds shortens by one.
Types DiffTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", type.ndim(), -1));
  if (type.ndim() == 0) return OpError(op, "a 0-dim tensor has no neighbours");
  TP_ASSIGN_OR_RETURN(SymExpr rounds, IntAttrOr(op, "n", SymExpr(1)));
  for (int i = 1; i < op.num_operands(); ++i) {
    const TensorType* end = TypeOrNull(op, i);
    if (end == nullptr) continue;
    if (end->ndim() != type.ndim()) {
      return OpError(op, "prepend and append must have the dims of the input");
    }
    type.dims[dim] = type.dims[dim] + end->dims[dim];
  }
  type.dims[dim] = type.dims[dim] - rounds;
  return std::vector<TensorType>{type};
}

absl::StatusOr<OpRule> DiffRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& result = op.result()->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", result.ndim(), -1));
  RuleMaker rule(op);
  for (int d = 0; d < result.ndim(); ++d) {
    const int passing = d == dim ? -1 : rule.Pass(result.dims[d]);
    for (int i = 0; i < op.num_operands(); ++i) {
      const TensorType* type = TypeOrNull(op, i);
      if (type == nullptr) continue;
      rule.Operand(i, d, d == dim ? rule.Whole(type->dims[d]) : passing);
    }
    rule.Result(0, d, d == dim ? rule.Whole(result.dims[d]) : passing);
  }
  return std::move(rule).Build();
}

// softmax and log_softmax over `dim`.
Types SoftmaxTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_RETURN_IF_ERROR(DimAttr(op, "dim", type.ndim()).status());
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", type.dtype));
  TP_ASSIGN_OR_RETURN(bool to_float, BoolAttrOr(op, "half_to_float", false));
  if (to_float) type.dtype = DType::kF32;
  return std::vector<TensorType>{type};
}

}  // namespace

void AddReductionRows(OpRows& rows) {
  auto add = [&rows](const char* name, RuleFn rule, ShapeFn shape,
                     const char* saves = "-") {
    rows.push_back(Row(std::string("aten.") + name, rule, shape));
    rows.back().saves = saves;
  };
  add("sum", SumRule, SumTypes);
  add("nansum", SumRule, SumTypes, "0");
  add("mean", MeanRule, MeanTypes);
  constexpr RuleFn max_rule = ExtremeRule<ReduceKind::kMax>;
  constexpr RuleFn min_rule = ExtremeRule<ReduceKind::kMin>;
  add("amax", max_rule, SameDTypeTypes, "0,result");
  add("amin", min_rule, SameDTypeTypes, "0,result");
  add("max", max_rule, SameDTypeTypes, "0,result");
  add("min", min_rule, SameDTypeTypes, "0,result");
  for (const char* name :
       {"max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode"}) {
    add(name, WholeRule, ValuesAndIndicesTypes, "result");
  }
  add("argmax", WholeRule, FixedTypes<DType::kI64>);
  add("argmin", WholeRule, FixedTypes<DType::kI64>);
  add("all", WholeRule, FixedTypes<DType::kBool>);
  add("any", WholeRule, FixedTypes<DType::kBool>);
  add("count_nonzero", WholeRule, FixedTypes<DType::kI64>);
  add("prod", WholeRule, SumTypes, "0,result");
  add("logsumexp", WholeRule, FloatTypes, "0,result");
  add("var", WholeRule, SameDTypeTypes, "0");
  add("std", WholeRule, SameDTypeTypes, "0,result");
  add("var_mean", WholeRule, TwiceTypes, "0");
  add("std_mean", WholeRule, TwiceTypes, "0,result");
  add("linalg_vector_norm", WholeRule, FloatTypes, "0,result");
  add("norm", WholeRule, FloatTypes, "0,result");
  add("linalg_norm", WholeRule, FloatTypes, "0,result");
  add("nanmean", WholeRule, FloatTypes, "0");
  add("cumsum", CumulativeRule<true>, CumulativeTypes);
  add("cumprod", CumulativeRule<false>, CumulativeTypes, "0,result");
  add("logcumsumexp", CumulativeRule<false>, CumulativeTypes, "0,result");
  add("diff", DiffRule, DiffTypes);
  add("cummax", CumulativeRule<false>, CumulativeMaxTypes, "result");
  add("cummin", CumulativeRule<false>, CumulativeMaxTypes, "result");
  for (const char* name :
       {"softmax", "_softmax", "log_softmax", "_log_softmax"}) {
    add(name, CumulativeRule<false>, SoftmaxTypes, "result");
  }
  SetNotations(rows, {
                         {"aten.sum", "... s+ -> ..."},
                         {"aten.nansum", "... s+ -> ..."},
                         {"aten.mean", "... s^ -> ..."},
                         {"aten.amax", "... s+max -> ..."},
                         {"aten.amin", "... s+min -> ..."},
                         {"aten.max", "... s+max -> ..."},
                         {"aten.min", "... s+min -> ..."},
                         {"aten.cumsum", "... s^ -> ... s^"},
                         {"aten.cumprod", "... s^ -> ... s^"},
                         {"aten.logcumsumexp", "... s^ -> ... s^"},
                         {"aten.softmax", "... s^ -> ... s^"},
                         {"aten._softmax", "... s^ -> ... s^"},
                         {"aten.log_softmax", "... s^ -> ... s^"},
                         {"aten._log_softmax", "... s^ -> ... s^"},
                         {"aten.argmax", "... s^ -> ..."},
                         {"aten.argmin", "... s^ -> ..."},
                         {"aten.all", "... s^ -> ..."},
                         {"aten.any", "... s^ -> ..."},
                         {"aten.prod", "... s^ -> ..."},
                         {"aten.logsumexp", "... s^ -> ..."},
                         {"aten.var", "... s^ -> ..."},
                         {"aten.std", "... s^ -> ..."},
                     });
}

}  // namespace tp
