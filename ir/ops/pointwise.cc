// Elementwise ops. What promotes how follows ATen's TensorIterator.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

enum class ResultKind : uint8_t {
  kPromote,  // the promoted dtype
  kFloat,    // the promoted dtype, or f32 for integers
  kBool,
  kSelf,  // the dtype of operand 0, whatever the others are
};

// `first`: the first operand that takes part in type promotion.
template <ResultKind kind, int first = 0>
Types PointwiseTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TensorType result;
  TP_ASSIGN_OR_RETURN(result.dims, BroadcastOperands(op, assumptions));
  switch (kind) {
    case ResultKind::kPromote:
      result.dtype = PromotedDType(op, first);
      break;
    case ResultKind::kFloat:
      result.dtype = ToFloat(PromotedDType(op, first));
      break;
    case ResultKind::kBool:
      result.dtype = DType::kBool;
      break;
    case ResultKind::kSelf:
      result.dtype = self.dtype;
      break;
  }
  return std::vector<TensorType>{result};
}

// Quotients round to integers where a rounding mode is given.
Types DivTypes(const Op& op, Assumptions& assumptions) {
  return IsNone(op, "rounding_mode")
             ? PointwiseTypes<ResultKind::kFloat>(op, assumptions)
             : PointwiseTypes<ResultKind::kPromote>(op, assumptions);
}

// Ops with scalars that leave the dtype alone (addcmul's value, lerp's
// weight, the bounds of hardtanh).
Types TensorsOnlyTypes(const Op& op, Assumptions& assumptions) {
  TP_RETURN_IF_ERROR(TypeOf(op, 0).status());
  TensorType result;
  TP_ASSIGN_OR_RETURN(result.dims, BroadcastOperands(op, assumptions));
  result.dtype = PromotedDType(op, 0, /*scalars=*/false);
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> DivRule(const Op& op) {
  return PointwiseRule(IsNone(op, "rounding_mode") ? "0" : "-", op);
}

// x + 0 is linear, x + c is not: every rank would add c.
absl::StatusOr<OpRule> AddScalarRule(const Op& op) {
  return PointwiseRule(IsZero(op.attribute("other")) ? "0" : "-", op);
}

absl::StatusOr<OpRule> MaskedFillRule(const Op& op) {
  return PointwiseRule(IsZero(op.attribute("value")) ? "0" : "-", op);
}

absl::StatusOr<OpRule> WhereScalarRule(const Op& op) {
  const char* scalar = IsNone(op, "other") ? "self" : "other";
  return PointwiseRule(IsZero(op.attribute(scalar)) ? "1" : "-", op);
}

// Without training it is the identity. With it, every rank would have to
// draw the same numbers.
absl::StatusOr<OpRule> DropoutRule(const Op& op) {
  TP_ASSIGN_OR_RETURN(bool train, BoolAttrOr(op, "train", false));
  if (train) return ReplicateRule(op);
  return PointwiseRule("0", op);
}

// The weight lies along dim 1 (or holds one number).
absl::StatusOr<OpRule> PreluRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& self = op.operand(0)->type();
  RuleMaker rule(op);
  for (int i = 0; i < self.ndim(); ++i) {
    int factor = rule.Pass(self.dims[i]);
    rule.Operand(0, i, factor);
    rule.Result(0, i, factor);
    if (i == 1) rule.Operand(1, 0, factor);
  }
  return std::move(rule).Build();
}

// glu(x) halves a dim; that dim is whole.
Types GluTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", type.ndim(), -1));
  if (type.ndim() == 0) return OpError(op, "needs a dim to halve");
  std::optional<SymExpr> half = ExactDiv(type.dims[dim], 2);
  if (!half) return OpError(op, "the halved dim must be even");
  type.dims[dim] = *half;
  return std::vector<TensorType>{type};
}

absl::StatusOr<OpRule> GluRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(int dim,
                      DimAttrOr(op, "dim", op.operand(0)->type().ndim(), -1));
  return RuleExcept(op, {dim}, "-");
}

struct Entry {
  const char* name;
  const char* partial;
  const char* saves;
};

constexpr Entry kSameUnary[] = {
    {"neg", "0", "-"},         {"positive", "0", "-"},
    {"abs", "-", "0"},         {"sign", "-", "-"},
    {"sgn", "-", "-"},         {"relu", "-", "result"},
    {"relu6", "-", "result"},  {"gelu", "-", "0"},
    {"silu", "-", "0"},        {"mish", "-", "0"},
    {"hardswish", "-", "0"},   {"hardsigmoid", "-", "0"},
    {"hardtanh", "-", "0"},    {"leaky_relu", "-", "0"},
    {"elu", "-", "0"},         {"selu", "-", "result"},
    {"celu", "-", "0"},        {"softplus", "-", "0"},
    {"log_sigmoid", "-", "0"}, {"threshold", "-", "0"},
    {"floor", "-", "-"},       {"ceil", "-", "-"},
    {"round", "-", "-"},       {"trunc", "-", "-"},
    {"frac", "-", "-"},        {"square", "-", "0"},
    {"nan_to_num", "-", "0"},  {"bitwise_not", "-", "-"},
    {"hardshrink", "-", "0"},  {"softshrink", "-", "0"},
};

constexpr Entry kFloatUnary[] = {
    {"sqrt", "-", "result"},
    {"rsqrt", "-", "result"},
    {"exp", "-", "result"},
    {"exp2", "-", "result"},
    {"expm1", "-", "result"},
    {"log", "-", "0"},
    {"log2", "-", "0"},
    {"log10", "-", "0"},
    {"log1p", "-", "0"},
    {"sin", "-", "0"},
    {"cos", "-", "0"},
    {"tan", "-", "result"},
    {"asin", "-", "0"},
    {"acos", "-", "0"},
    {"atan", "-", "0"},
    {"sinh", "-", "0"},
    {"cosh", "-", "0"},
    {"asinh", "-", "0"},
    {"acosh", "-", "0"},
    {"atanh", "-", "0"},
    {"tanh", "-", "result"},
    {"sigmoid", "-", "result"},
    {"erf", "-", "0"},
    {"erfc", "-", "0"},
    {"reciprocal", "-", "result"},
    {"logit", "-", "0"},
    {"erfinv", "-", "result"},
    {"lgamma", "-", "0"},
    {"digamma", "-", "0"},
    {"sinc", "-", "0,result"},
    {"deg2rad", "0", "-"},
    {"rad2deg", "0", "-"},
};

constexpr Entry kBoolOps[] = {
    {"isnan", "-", "-"},       {"isinf", "-", "-"},
    {"isfinite", "-", "-"},    {"logical_not", "-", "-"},
    {"logical_and", "-", "-"}, {"logical_or", "-", "-"},
    {"logical_xor", "-", "-"}, {"eq", "-", "-"},
    {"ne", "-", "-"},          {"lt", "-", "-"},
    {"le", "-", "-"},          {"gt", "-", "-"},
    {"ge", "-", "-"},          {"signbit", "-", "-"},
    {"isposinf", "-", "-"},    {"isneginf", "-", "-"},
    {"isclose", "-", "-"},
};

constexpr Entry kPromoting[] = {
    {"add.Tensor", "0&1", "-"},
    {"sub.Tensor", "0&1", "-"},
    {"rsub.Tensor", "0&1", "-"},
    {"mul.Tensor", "0|1", "0,1"},
    {"mul.Scalar", "0", "-"},
    {"floor_divide", "-", "-"},
    {"remainder", "-", "0,1"},
    {"fmod", "-", "0,1"},
    {"maximum", "-", "0,1"},
    {"minimum", "-", "0,1"},
    {"max.other", "-", "0,1"},
    {"min.other", "-", "0,1"},
    {"fmax", "-", "0,1"},
    {"fmin", "-", "0,1"},
    {"pow", "-", "0,1,result"},
    {"clamp", "-", "0"},
    {"clamp_min", "-", "0"},
    {"clamp_max", "-", "0"},
    {"bitwise_and", "-", "-"},
    {"bitwise_or", "-", "-"},
    {"bitwise_xor", "-", "-"},
    {"__and__", "-", "-"},
    {"__or__", "-", "-"},
    {"__xor__", "-", "-"},
    {"bitwise_left_shift", "-", "-"},
    {"bitwise_right_shift", "-", "-"},
    {"__lshift__", "-", "-"},
    {"__rshift__", "-", "-"},
    {"hypot", "-", "0,1,result"},
    {"logaddexp", "-", "0,1,result"},
    {"logaddexp2", "-", "0,1,result"},
    {"heaviside", "-", "-"},
    {"nextafter", "-", "-"},
};

constexpr Entry kTensorsOnly[] = {
    {"addcmul", "-", "0,1,2"},
    {"addcdiv", "-", "0,1,2"},
    {"lerp.Scalar", "0&1", "-"},
    {"lerp.Tensor", "-", "0,1,2"},
};

template <size_t count>
void AddEntries(OpRows& rows, const Entry (&entries)[count], ShapeFn shape) {
  for (const Entry& entry : entries) {
    rows.push_back(Row(std::string("aten.") + entry.name, "pointwise",
                       entry.partial, shape));
    rows.back().saves = entry.saves;
  }
}

}  // namespace

void AddPointwiseRows(OpRows& rows) {
  constexpr ShapeFn promote = PointwiseTypes<ResultKind::kPromote>;
  constexpr ShapeFn to_float = PointwiseTypes<ResultKind::kFloat>;
  constexpr ShapeFn self = PointwiseTypes<ResultKind::kSelf>;
  AddEntries(rows, kSameUnary, self);
  AddEntries(rows, kFloatUnary, to_float);
  AddEntries(rows, kBoolOps, PointwiseTypes<ResultKind::kBool>);
  AddEntries(rows, kPromoting, promote);
  AddEntries(rows, kTensorsOnly, TensorsOnlyTypes);
  for (const char* name : {"aten.atan2", "aten.xlogy", "aten.copysign"}) {
    rows.push_back(Row(name, "pointwise", "-", to_float));
    rows.back().saves = "0,1";
  }
  for (const char* name : {"aten.add.Scalar", "aten.sub.Scalar"}) {
    rows.push_back(Row(name, AddScalarRule, promote));
  }
  rows.push_back(Row("aten.rsub.Scalar", AddScalarRule, promote));
  for (const char* name : {"aten.div", "aten.true_divide", "aten.divide"}) {
    rows.push_back(Row(name, DivRule, DivTypes));
    rows.back().saves = "0,1";
  }

  rows.push_back(Row("aten.where.self", "pointwise", "1&2",
                     PointwiseTypes<ResultKind::kPromote, 1>));
  rows.back().saves = "0";
  for (const char* name : {"aten.where.ScalarOther", "aten.where.ScalarSelf",
                           "aten.where.Scalar"}) {
    rows.push_back(
        Row(name, WhereScalarRule, PointwiseTypes<ResultKind::kPromote, 1>));
    rows.back().saves = "0";
  }
  rows.push_back(Row("aten.masked_fill", MaskedFillRule, self));
  rows.back().saves = "1";

  rows.push_back(Row("aten.dropout", DropoutRule, self));
  rows.back().traits = kRandom | kView;
  rows.push_back(Row("aten.feature_dropout", DropoutRule, self));
  rows.back().traits = kRandom | kView;
  rows.push_back(Row("aten.alpha_dropout", DropoutRule, self));
  rows.back().traits = kRandom | kView;

  rows.push_back(Row("aten.prelu", PreluRule, SameAsOperand0));
  rows.back().saves = "0,1";
  rows.push_back(Row("aten.glu", GluRule, GluTypes));
  rows.back().saves = "0";
}

}  // namespace tp
