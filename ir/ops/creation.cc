// Ops that make tensors from attributes.
#include <cmath>

#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// zeros, ones, empty, rand, ...: f32 unless told otherwise.
Types SizeTypes(const Op& op, Assumptions&) {
  TensorType type;
  TP_ASSIGN_OR_RETURN(type.dims, IntsAttr(op, "size"));
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", DType::kF32));
  return std::vector<TensorType>{type};
}

Types FullTypes(const Op& op, Assumptions&) {
  TensorType type;
  TP_ASSIGN_OR_RETURN(type.dims, IntsAttr(op, "size"));
  const Attribute* value = op.attribute("fill_value");
  if (value == nullptr) return OpError(op, "attribute fill_value is missing");
  TP_ASSIGN_OR_RETURN(type.dtype,
                      DTypeAttrOr(op, "dtype", ScalarDType(*value)));
  return std::vector<TensorType>{type};
}

// new_*: the dtype of operand 0.
Types NewTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(type.dims, IntsAttr(op, "size"));
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", type.dtype));
  return std::vector<TensorType>{type};
}

Types LikeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", type.dtype));
  return std::vector<TensorType>{type};
}

// Every dim of the result passes. Operands lend a dtype only (canonicalize
// drops them).
absl::StatusOr<OpRule> FillRule(const Op& op) {
  if (op.num_results() == 0) return OpError(op, "has no results");
  RuleMaker rule(op);
  const TensorType& type = op.result()->type();
  for (int d = 0; d < type.ndim(); ++d) {
    rule.Result(0, d, rule.Pass(type.dims[d]));
  }
  for (int i = 0; i < op.num_operands(); ++i) rule.WholeOperand(i);
  return std::move(rule).Build();
}

// Pointwise on operand 0, whose values do not matter.
absl::StatusOr<OpRule> LikeRule(const Op& op) {
  return RuleExcept(op, {}, "-");
}

// The number of steps from start to end.
absl::StatusOr<SymExpr> StepCount(const Op& op, Assumptions& assumptions,
                                  const Attribute& start, const Attribute& end,
                                  const Attribute& step) {
  if (start.is_int() && end.is_int() && step.is_int()) {
    SymExpr length = end.as_int() - start.as_int();
    SymExpr stride = step.as_int();
    if (std::optional<int64_t> constant = stride.AsConstant()) {
      if (*constant == 0) return OpError(op, "step must not be 0");
      if (*constant < 0) {
        length = SymExpr(0) - length;
        stride = SymExpr(0) - stride;
      }
    }
    TP_RETURN_IF_ERROR(assumptions.Require(length, Relation::kGe, 0,
                                           "aten.arange: start before end",
                                           op.location()));
    return CeilDiv(length, stride);
  }
  auto from = start.AsNumber();
  auto to = end.AsNumber();
  auto by = step.AsNumber();
  if (!from || !to || !by) {
    return OpUnsupported(op, "bounds that are not whole must be constant");
  }
  if (*by == 0) return OpError(op, "step must not be 0");
  double count = std::ceil((*to - *from) / *by);
  if (!(count >= 0 && count < 9e15)) {
    return OpError(op, "start, end and step do not fit together");
  }
  return SymExpr(static_cast<int64_t>(count));
}

Types ArangeTypes(const Op& op, Assumptions& assumptions) {
  const Attribute zero(0);
  const Attribute one(1);
  const Attribute* start = IsNone(op, "start") ? &zero : op.attribute("start");
  const Attribute* step = IsNone(op, "step") ? &one : op.attribute("step");
  if (IsNone(op, "end")) return OpError(op, "attribute end is missing");
  const Attribute* end = op.attribute("end");
  bool whole = start->is_int() && end->is_int() && step->is_int();
  TensorType type;
  TP_ASSIGN_OR_RETURN(
      type.dtype, DTypeAttrOr(op, "dtype", whole ? DType::kI64 : DType::kF32));
  TP_ASSIGN_OR_RETURN(SymExpr count,
                      StepCount(op, assumptions, *start, *end, *step));
  type.dims = Dims{count};
  return std::vector<TensorType>{type};
}

Types LinspaceTypes(const Op& op, Assumptions&) {
  TensorType type;
  TP_ASSIGN_OR_RETURN(SymExpr steps, IntAttr(op, "steps"));
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", DType::kF32));
  type.dims = Dims{steps};
  return std::vector<TensorType>{type};
}

Types EyeTypes(const Op& op, Assumptions&) {
  TensorType type;
  TP_ASSIGN_OR_RETURN(SymExpr n, IntAttr(op, "n"));
  TP_ASSIGN_OR_RETURN(SymExpr m, IntAttrOr(op, "m", n));
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", DType::kF32));
  type.dims = Dims{n, m};
  return std::vector<TensorType>{type};
}

Types ScalarTensorTypes(const Op& op, Assumptions&) {
  TensorType type;
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", DType::kF32));
  return std::vector<TensorType>{type};
}

// tensor(data): a number, or nested lists of numbers.
Types TensorTypes(const Op& op, Assumptions&) {
  const Attribute* data = op.attribute(IsNone(op, "data") ? "t" : "data");
  if (data == nullptr) return OpError(op, "attribute data is missing");
  TensorType type;
  while (data->is_list()) {
    type.dims.push_back(static_cast<int64_t>(data->as_list().size()));
    if (data->as_list().empty()) break;
    data = &data->as_list()[0];
  }
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", ScalarDType(*data)));
  return std::vector<TensorType>{type};
}

}  // namespace

void AddCreationRows(OpRows& rows) {
  auto sized = [&rows](const char* name, RuleFn rule, ShapeFn shape) {
    rows.push_back(Row(name, rule, shape));
    rows.back().sizes_attribute = "size";
  };
  for (const char* name : {"aten.zeros", "aten.ones", "aten.empty"}) {
    sized(name, FillRule, SizeTypes);
  }
  sized("aten.full", FillRule, FullTypes);
  for (const char* name :
       {"aten.new_zeros", "aten.new_ones", "aten.new_full", "aten.new_empty"}) {
    sized(name, FillRule, NewTypes);
  }
  for (const char* name : {"aten.zeros_like", "aten.ones_like",
                           "aten.full_like", "aten.empty_like"}) {
    rows.push_back(Row(name, LikeRule, LikeTypes));
  }
  // Values depend on the position, so the result stays whole.
  rows.push_back(Row("aten.arange", "replicate", "-", ArangeTypes));
  rows.push_back(Row("aten.linspace", "replicate", "-", LinspaceTypes));
  rows.push_back(Row("aten.eye", "replicate", "-", EyeTypes));
  rows.push_back(
      Row("aten.scalar_tensor", "replicate", "-", ScalarTensorTypes));
  rows.push_back(Row("aten.tensor", "replicate", "-", TensorTypes));
  // Random numbers must be the same on all ranks: whole.
  for (const char* name : {"aten.rand", "aten.randn"}) {
    rows.push_back(Row(name, "replicate", "-", SizeTypes));
    rows.back().traits = kRandom;
  }
  for (const char* name :
       {"aten.rand_like", "aten.randn_like", "aten.bernoulli"}) {
    rows.push_back(Row(name, "replicate", "-", LikeTypes));
    rows.back().traits = kRandom;
  }
}

}  // namespace tp
