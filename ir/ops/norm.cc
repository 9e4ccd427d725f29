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

constexpr char kGroups[] = "groups";

// `b (groups c^) ...^, (groups c^), (groups c^) -> b (groups c^) ...^`.
absl::StatusOr<OpRule> GroupNormRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(SymExpr groups, IntAttr(op, "num_groups"));
  std::optional<SymExpr> channels;
  if (type.ndim() > 1) channels = ExactDiv(type.dims[1], groups);
  if (!channels) return ReplicateRule(op);
  RuleMaker rule(op);
  for (int d = 0; d < type.ndim(); ++d) {
    llvm::SmallVector<int, 2> factors;
    if (d == 1) {
      factors = {rule.Pass(groups, kGroups), rule.Whole(*channels)};
    } else {
      factors = {d == 0 ? rule.Pass(type.dims[d]) : rule.Whole(type.dims[d])};
    }
    for (int factor : factors) {
      rule.Operand(0, d, factor);
      rule.Result(0, d, factor);
      for (int i = 1; d == 1 && i < op.num_operands(); ++i)
        rule.Operand(i, 0, factor);
    }
  }
  return std::move(rule).Build();
}

absl::StatusOr<Value*> LocalizeGroupNorm(Op& op, const LocalizeContext& context,
                                         Builder&) {
  if (context.rule->factors[context.sharding.factor].name == kGroups)
    op.SetAttribute("num_groups", LocalFactorSize(context));
  return op.result();
}

// Each channel of each example by its own statistics, or the running ones.
// Where those are updated, they are over the whole batch.
absl::StatusOr<OpRule> InstanceNormRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(bool own, BoolAttrOr(op, "use_input_stats", true));
  const bool updates = own && (Has(op, 3) || Has(op, 4));
  const TensorType& type = op.operand(0)->type();
  RuleMaker rule(op);
  for (int d = 0; d < type.ndim(); ++d) {
    const bool pass = d == 1 || (d == 0 && !updates);
    const int factor =
        pass ? rule.Pass(type.dims[d]) : rule.Whole(type.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, d, factor);
    for (int i = 1; d == 1 && i < op.num_operands(); ++i)
      rule.Operand(i, 0, factor);
  }
  return std::move(rule).Build();
}

// The importer takes the update of running statistics apart, since an op of
// ours has no effects.
Types BatchNormTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(bool training, BoolAttrOr(op, "training", false));
  if (training && (Has(op, 3) || Has(op, 4))) {
    return OpUnsupported(op,
                         "would update the running statistics in place; give "
                         "none, and update them by ops of their own");
  }
  return ChannelNormTypes(op, assumptions);
}

// With running statistics: a scale and a shift per channel. In training mode
// each channel's are those of the whole batch.
absl::StatusOr<OpRule> BatchNormRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(bool training, BoolAttrOr(op, "training", false));
  const TensorType& type = op.operand(0)->type();
  RuleMaker rule(op);
  for (int d = 0; d < type.ndim(); ++d) {
    const int factor =
        training && d != 1 ? rule.Whole(type.dims[d]) : rule.Pass(type.dims[d]);
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
  add("aten.group_norm", GroupNormRule, ChannelNormTypes);
  rows.back().localize = LocalizeGroupNorm;
  add("aten.instance_norm", InstanceNormRule, ChannelNormTypes);
  add("aten.batch_norm", BatchNormRule, BatchNormTypes);
  SetNotations(
      rows,
      {
          {"aten.layer_norm", "... c^, c^, c^ -> ... c^"},
          {"aten.rms_norm", "... c^, c^ -> ... c^"},
          {"aten.native_layer_norm", "... c^, c^, c^ -> ... c^, ... 1, ... 1"},
          {"aten.group_norm",
           "b (groups c^) ...^, (groups c^), (groups c^) -> b (groups c^) "
           "...^"},
          {"aten.instance_norm", "b c ...^, c, c, c, c -> b c ...^"},
          {"aten.batch_norm", "b c ..., c, c, c, c -> b c ..."},
      });
}

}  // namespace tp
