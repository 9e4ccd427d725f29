// Losses.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// self is [C], or [N, C, ...]; target is the classes [N, ...], or
// probabilities like self.
struct LossDims {
  int channel = 0;
  bool probabilities = false;
};

absl::StatusOr<LossDims> DimsOf(const Op& op) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType target, TypeOf(op, 1));
  LossDims dims;
  if (self.ndim() == 0) return OpError(op, "the input has no class dim");
  dims.channel = self.ndim() == 1 ? 0 : 1;
  dims.probabilities = IsFloatingPoint(target.dtype);
  int expected = self.ndim() - (dims.probabilities ? 0 : 1);
  if (target.ndim() != expected) {
    return OpError(op, "the target has other dims than the input");
  }
  return dims;
}

Types CrossEntropyTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(LossDims dims, DimsOf(op));
  const TensorType& self = op.operand(0)->type();
  const TensorType& target = op.operand(1)->type();
  TensorType result{self.dtype, {}};
  int next = 0;
  for (int d = 0; d < self.ndim(); ++d) {
    if (d == dims.channel && !dims.probabilities) continue;
    TP_RETURN_IF_ERROR(SameSize(op, assumptions, self.dims[d],
                                target.dims[next++], "dims of input and target")
                           .status());
    if (d != dims.channel) result.dims.push_back(self.dims[d]);
  }
  TP_ASSIGN_OR_RETURN(int64_t reduction,
                      ConstIntAttrOr(op, "reduction", kMean));
  if (reduction != kNone) result.dims.clear();
  return std::vector<TensorType>{result};
}

// Classes stay whole. A mean divides by a count of all examples, so the batch
// passes only unreduced, and is summed away only by a sum; canonicalize makes
// a sum and a count of a mean.
absl::StatusOr<OpRule> CrossEntropyRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  TP_ASSIGN_OR_RETURN(LossDims dims, DimsOf(op));
  TP_ASSIGN_OR_RETURN(int64_t reduction,
                      ConstIntAttrOr(op, "reduction", kMean));
  const TensorType& self = op.operand(0)->type();
  RuleMaker rule(op);
  int next_target = 0;
  int next_result = 0;
  for (int d = 0; d < self.ndim(); ++d) {
    int factor;
    if (d == dims.channel || reduction == kMean) {
      factor = rule.Whole(self.dims[d]);
    } else if (reduction == kSum) {
      factor = rule.Reduce(self.dims[d]);
    } else {
      factor = rule.Pass(self.dims[d]);
    }
    rule.Operand(0, d, factor);
    if (d != dims.channel || dims.probabilities) {
      rule.Operand(1, next_target++, factor);
    }
    if (d == dims.channel) {
      rule.Operand(2, 0, factor);
    } else if (reduction == kNone) {
      rule.Result(0, next_result++, factor);
    }
  }
  return std::move(rule).Build();
}

// mse_loss, l1_loss, smooth_l1_loss, ...: elementwise, then reduced.
Types ElementLossTypes(const Op& op, Assumptions& assumptions) {
  TensorType result;
  TP_RETURN_IF_ERROR(TypeOf(op, 1).status());
  TP_ASSIGN_OR_RETURN(result.dims, BroadcastOperands(op, assumptions));
  result.dtype = PromotedDType(op, 0, /*scalars=*/false);
  TP_ASSIGN_OR_RETURN(int64_t reduction,
                      ConstIntAttrOr(op, "reduction", kMean));
  if (reduction != kNone) result.dims.clear();
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> ElementLossRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  TP_ASSIGN_OR_RETURN(int64_t reduction,
                      ConstIntAttrOr(op, "reduction", kMean));
  if (reduction == kNone) return PointwiseRule("-", op);
  if (reduction == kMean) return ReplicateRule(op);
  RuleMaker rule(op);
  rule.ReduceBroadcast();
  return std::move(rule).Build();
}

}  // namespace

void AddLossRows(OpRows& rows) {
  rows.push_back(
      Row("aten.cross_entropy_loss", CrossEntropyRule, CrossEntropyTypes));
  rows.back().saves = "0,1";
  // nll_loss takes log-probabilities in place of logits.
  rows.push_back(Row("aten.nll_loss", CrossEntropyRule, CrossEntropyTypes));
  rows.back().saves = "0,1";
  rows.push_back(Row("aten.nll_loss_nd", CrossEntropyRule, CrossEntropyTypes));
  rows.back().saves = "0,1";
  for (const char* name :
       {"aten.mse_loss", "aten.l1_loss", "aten.smooth_l1_loss",
        "aten.huber_loss", "aten.binary_cross_entropy",
        "aten.binary_cross_entropy_with_logits", "aten.kl_div",
        "aten.poisson_nll_loss", "aten.soft_margin_loss",
        "aten.hinge_embedding_loss", "aten.margin_ranking_loss"}) {
    rows.push_back(Row(name, ElementLossRule, ElementLossTypes));
    rows.back().saves = "0,1";
  }
  SetNotations(rows, {
                         {"aten.cross_entropy_loss", "... c^ ..., ... -> ..."},
                         {"aten.nll_loss", "... c^ ..., ... -> ..."},
                         {"aten.nll_loss_nd", "... c^ ..., ... -> ..."},
                         {"aten.mse_loss", "..., ... -> ..."},
                         {"aten.l1_loss", "..., ... -> ..."},
                     });
}

}  // namespace tp
