// Convolutions.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

constexpr char kGroups[] = "groups";

// The arguments of every spelling of a convolution.
struct Conv {
  int spatial = 0;  // number of spatial dims
  bool batched = true;
  bool transposed = false;
  int64_t groups = 1;
  std::string padding;  // "same", "valid" or "" for numbers
  Dims stride, pads, dilation, output_padding;  // one per spatial dim
};

absl::StatusOr<Conv> ConvOf(const Op& op) {
  TP_ASSIGN_OR_RETURN(TensorType input, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType weight, TypeOf(op, 1));
  Conv conv;
  conv.spatial = weight.ndim() - 2;
  conv.batched = input.ndim() == weight.ndim();
  if (conv.spatial < 1 ||
      (!conv.batched && input.ndim() != weight.ndim() - 1)) {
    return OpError(op, "input and weight have unsuitable dims");
  }
  TP_ASSIGN_OR_RETURN(conv.transposed, BoolAttrOr(op, "transposed", false));
  if (op.base_name().find("aten.conv_transpose") == 0) conv.transposed = true;
  TP_ASSIGN_OR_RETURN(conv.groups, ConstIntAttrOr(op, "groups", 1));
  const Dims ones(conv.spatial, SymExpr(1));
  const Dims zeros(conv.spatial, SymExpr(0));
  if (conv.groups < 1) return OpError(op, "groups must be positive");
  TP_ASSIGN_OR_RETURN(conv.stride,
                      PerDimAttrOr(op, "stride", conv.spatial, ones));
  TP_ASSIGN_OR_RETURN(conv.dilation,
                      PerDimAttrOr(op, "dilation", conv.spatial, ones));
  TP_ASSIGN_OR_RETURN(conv.output_padding,
                      PerDimAttrOr(op, "output_padding", conv.spatial, zeros));
  const Attribute* padding = op.attribute("padding");
  if (padding != nullptr && padding->is_string()) {
    conv.padding = padding->as_string();
    if (conv.padding != "same" && conv.padding != "valid") {
      return OpError(op, "padding must be numbers, same or valid");
    }
    conv.pads = zeros;
  } else {
    TP_ASSIGN_OR_RETURN(conv.pads,
                        PerDimAttrOr(op, "padding", conv.spatial, zeros));
  }
  return conv;
}

Types ConvTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(Conv conv, ConvOf(op));
  const TensorType& input = op.operand(0)->type();
  const TensorType& weight = op.operand(1)->type();
  int channel = conv.batched ? 1 : 0;
  SymExpr per_group =
      conv.transposed ? weight.dims[0] : weight.dims[1] * SymExpr(conv.groups);
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, input.dims[channel], per_group,
                              "channels of input and weight")
                         .status());
  TensorType result = input;
  result.dims[channel] =
      conv.transposed ? weight.dims[1] * SymExpr(conv.groups) : weight.dims[0];
  if (const TensorType* bias = TypeOrNull(op, 2)) {
    if (bias->ndim() != 1) return OpError(op, "the bias must have 1 dim");
    TP_RETURN_IF_ERROR(SameSize(op, assumptions, bias->dims[0],
                                result.dims[channel], "bias and channels")
                           .status());
  }
  for (int i = 0; i < conv.spatial; ++i) {
    SymExpr& size = result.dims[channel + 1 + i];
    SymExpr reach = conv.dilation[i] * (weight.dims[2 + i] - SymExpr(1));
    if (conv.stride[i] == SymExpr(0)) {
      return OpError(op, "stride must be positive");
    }
    if (conv.transposed) {
      size = (size - SymExpr(1)) * conv.stride[i] - SymExpr(2) * conv.pads[i] +
             reach + conv.output_padding[i] + SymExpr(1);
    } else if (conv.padding != "same") {
      size = size + SymExpr(2) * conv.pads[i] - reach - SymExpr(1);
      TP_RETURN_IF_ERROR(assumptions.Require(
          size, Relation::kGe, 0, op.name() + ": the kernel fits in the input",
          op.location()));
      size = FloorDiv(size, conv.stride[i]) + SymExpr(1);
    }
  }
  return std::vector<TensorType>{result};
}

// `b (g i+) ..., (g o) i+ ..., (g o) -> b (g o) ...`; transposed weights are
// (g i+) o. With a bias i stays whole: each rank would add it.
absl::StatusOr<OpRule> ConvRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  TP_ASSIGN_OR_RETURN(Conv conv, ConvOf(op));
  const TensorType& input = op.operand(0)->type();
  const TensorType& weight = op.operand(1)->type();
  const TensorType& result = op.result()->type();
  int channel = conv.batched ? 1 : 0;
  if (result.ndim() != input.ndim()) {
    return OpError(op, "has a result of other dims");
  }
  bool has_bias = Has(op, 2);
  std::optional<SymExpr> in = ExactDiv(input.dims[channel], conv.groups);
  std::optional<SymExpr> out = ExactDiv(result.dims[channel], conv.groups);
  if (!in || !out) return ReplicateRule(op);
  RuleMaker rule(op);
  if (conv.batched) {
    int batch = rule.Pass(input.dims[0]);
    rule.Operand(0, 0, batch);
    rule.Result(0, 0, batch);
  }
  int group = rule.Pass(conv.groups, kGroups);
  int in_factor = has_bias ? rule.Whole(*in) : rule.Reduce(*in);
  int out_factor = rule.Pass(*out);
  rule.Operand(0, channel, group);
  rule.Operand(0, channel, in_factor);
  rule.Operand(1, 0, group);
  rule.Operand(1, 0, conv.transposed ? in_factor : out_factor);
  rule.Operand(1, 1, conv.transposed ? out_factor : in_factor);
  rule.Operand(2, 0, group);
  rule.Operand(2, 0, out_factor);
  rule.Result(0, channel, group);
  rule.Result(0, channel, out_factor);
  for (int i = 0; i < conv.spatial; ++i) {
    rule.Operand(0, channel + 1 + i, rule.Whole(input.dims[channel + 1 + i]));
    rule.Operand(1, 2 + i, rule.Whole(weight.dims[2 + i]));
    rule.Result(0, channel + 1 + i, rule.Whole(result.dims[channel + 1 + i]));
  }
  if (!has_bias) rule.Partial("0|1");
  return std::move(rule).Build();
}

absl::StatusOr<Value*> LocalizeConv(Op& op, const LocalizeContext& context,
                                    Builder&) {
  const Factor& factor = context.rule->factors[context.sharding.factor];
  if (factor.name != kGroups) return op.result();
  op.SetAttribute("groups", LocalFactorSize(context));
  return op.result();
}

}  // namespace

void AddConvRows(OpRows& rows) {
  for (const char* name :
       {"aten.convolution", "aten._convolution", "aten.conv1d", "aten.conv2d",
        "aten.conv3d", "aten._convolution_mode", "aten.conv_transpose1d",
        "aten.conv_transpose2d", "aten.conv_transpose3d"}) {
    rows.push_back(Row(name, ConvRule, ConvTypes));
    rows.back().saves = "0,1";
    rows.back().localize = LocalizeConv;
  }
  SetNotations(
      rows,
      {
          {"aten.convolution", "b (g i+) ...^, (g o) i+ ...^ -> b (g o) ...^"},
          {"aten._convolution", "b (g i+) ...^, (g o) i+ ...^ -> b (g o) ...^"},
          {"aten.conv1d", "b (g i+) ...^, (g o) i+ ...^ -> b (g o) ...^"},
          {"aten.conv2d", "b (g i+) ...^, (g o) i+ ...^ -> b (g o) ...^"},
          {"aten.conv3d", "b (g i+) ...^, (g o) i+ ...^ -> b (g o) ...^"},
          {"aten._convolution_mode",
           "b (g i+) ...^, (g o) i+ ...^ -> b (g o) ...^"},
          {"aten.conv_transpose1d",
           "b (g i+) ...^, (g i+) o ...^ -> b (g o) ...^"},
          {"aten.conv_transpose2d",
           "b (g i+) ...^, (g i+) o ...^ -> b (g o) ...^"},
          {"aten.conv_transpose3d",
           "b (g i+) ...^, (g i+) o ...^ -> b (g o) ...^"},
      });
}

}  // namespace tp
