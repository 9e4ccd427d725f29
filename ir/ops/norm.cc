// Normalizations.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// How many last dims normalized_shape covers.
absl::StatusOr<int> NormalizedDims(const Op& op) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(Dims shape, IntsAttr(op, "normalized_shape"));
  if (shape.empty() || static_cast<int>(shape.size()) > type.ndim()) {
    return OpError(op, "normalized_shape must cover 1 or more last dims");
  }
  return static_cast<int>(shape.size());
}

absl::Status CheckLayerNorm(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(int count, NormalizedDims(op));
  TP_ASSIGN_OR_RETURN(Dims shape, IntsAttr(op, "normalized_shape"));
  const TensorType& type = op.operand(0)->type();
  for (int i = 0; i < count; ++i) {
    TP_RETURN_IF_ERROR(SameSize(op, assumptions,
                                type.dims[type.ndim() - count + i], shape[i],
                                "normalized_shape and the input's last dims")
                           .status());
  }
  for (int operand = 1; operand < op.num_operands(); ++operand) {
    const TensorType* weight = TypeOrNull(op, operand);
    if (weight != nullptr && !(weight->dims == shape)) {
      return OpError(op,
                     "the weight and bias must have the dims of "
                     "normalized_shape");
    }
  }
  return absl::OkStatus();
}

Types LayerNormTypes(const Op& op, Assumptions& assumptions) {
  TP_RETURN_IF_ERROR(CheckLayerNorm(op, assumptions));
  return SameAsOperand0(op, assumptions);
}

// native_layer_norm: also mean and reciprocal deviation, kept dims of 1.
Types NativeLayerNormTypes(const Op& op, Assumptions& assumptions) {
  TP_RETURN_IF_ERROR(CheckLayerNorm(op, assumptions));
  TP_ASSIGN_OR_RETURN(int count, NormalizedDims(op));
  TensorType type = op.operand(0)->type();
  TensorType statistics = type;
  for (int i = type.ndim() - count; i < type.ndim(); ++i) {
    statistics.dims[i] = 1;
  }
  return std::vector<TensorType>{type, statistics, statistics};
}

// `... c^, c^, c^ -> ... c^` for each normalized dim c.
absl::StatusOr<OpRule> LayerNormRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(int count, NormalizedDims(op));
  const TensorType& type = op.operand(0)->type();
  RuleMaker rule(op);
  for (int d = 0; d < type.ndim(); ++d) {
    bool normalized = d >= type.ndim() - count;
    int factor =
        normalized ? rule.Whole(type.dims[d]) : rule.Pass(type.dims[d]);
    rule.Operand(0, d, factor);
    for (int r = 0; r < op.num_results(); ++r) {
      if (op.result(r)->type().ndim() != type.ndim()) {
        return OpError(op, "has a result of other dims");
      }
      // A no-op for the statistics, whose normalized dims are 1.
      rule.Result(r, d, factor);
    }
    for (int i = 1; normalized && i < op.num_operands(); ++i) {
      rule.Operand(i, d - (type.ndim() - count), factor);
    }
  }
  return std::move(rule).Build();
}

Types ChannelNormTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  if (type.ndim() < 2) return OpError(op, "needs a batch and a channel dim");
  return SameAsOperand0(op, assumptions);
}

// group_norm, instance_norm: the batch passes. The number of groups would
// have to be local for channels to pass.
absl::StatusOr<OpRule> BatchOnlyRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  std::vector<int> whole;
  for (int d = 1; d < type.ndim(); ++d) whole.push_back(d);
  return RuleExcept(op, whole, "-");
}

Types BatchNormTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(bool training, BoolAttrOr(op, "training", false));
  if (training) {
    return OpUnsupported(op,
                         "batch statistics (training mode) are not "
                         "supported; call model.eval() before exporting");
  }
  return ChannelNormTypes(op, assumptions);
}

// With running statistics: a scale and a shift per channel.
absl::StatusOr<OpRule> BatchNormRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(bool training, BoolAttrOr(op, "training", false));
  if (training) return ReplicateRule(op);
  const TensorType& type = op.operand(0)->type();
  RuleMaker rule(op);
  for (int d = 0; d < type.ndim(); ++d) {
    int factor = rule.Pass(type.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, d, factor);
    for (int i = 1; d == 1 && i < op.num_operands(); ++i) {
      rule.Operand(i, 0, factor);
    }
  }
  return std::move(rule).Build();
}

}  // namespace

void AddNormRows(OpRows& rows) {
  auto add = [&rows](const char* name, RuleFn rule, ShapeFn shape) {
    rows.push_back(Row(name, rule, shape));
    rows.back().saves = "0,1";
  };
  add("aten.layer_norm", LayerNormRule, LayerNormTypes);
  add("aten.rms_norm", LayerNormRule, LayerNormTypes);
  add("aten.native_layer_norm", LayerNormRule, NativeLayerNormTypes);
  add("aten.group_norm", BatchOnlyRule, ChannelNormTypes);
  add("aten.instance_norm", BatchOnlyRule, ChannelNormTypes);
  add("aten.batch_norm", BatchNormRule, BatchNormTypes);
}

}  // namespace tp
