// scaled_dot_product_attention(query, key, value, attn_mask).
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

constexpr int kQuery = 0;
constexpr int kKey = 1;
constexpr int kValue = 2;
constexpr int kMask = 3;

absl::Status CheckAttention(const Op& op) {
  for (int i = 0; i < 3; ++i) {
    TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, i));
    if (type.ndim() < 2) {
      return OpError(op, "query, key and value need at least 2 dims");
    }
    if (type.ndim() != op.operand(0)->type().ndim()) {
      return OpError(op, "query, key and value have different dims");
    }
  }
  return absl::OkStatus();
}

Types AttentionTypes(const Op& op, Assumptions& assumptions) {
  TP_RETURN_IF_ERROR(CheckAttention(op));
  const TensorType& q = op.operand(kQuery)->type();
  const TensorType& k = op.operand(kKey)->type();
  const TensorType& v = op.operand(kValue)->type();
  int ndim = q.ndim();
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, q.dims.back(), k.dims.back(),
                              "the last dims of query and key")
                         .status());
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, k.dims[ndim - 2],
                              v.dims[ndim - 2], "keys and values")
                         .status());
  TP_ASSIGN_OR_RETURN(bool grouped, BoolAttrOr(op, "enable_gqa", false));
  TensorType result;
  result.dtype = q.dtype;
  for (int i = 0; i + 2 < ndim; ++i) {
    SymExpr size = q.dims[i];
    for (const TensorType* other : {&k, &v}) {
      const SymExpr& theirs = other->dims[i];
      if (theirs == SymExpr(1) || theirs == size) continue;
      if (size == SymExpr(1)) {
        size = theirs;
        continue;
      }
      if (grouped && i == ndim - 3) {
        if (!ExactDiv(size, theirs)) {
          return OpError(op,
                         "the heads of the query are no multiple of "
                         "those of key and value");
        }
        continue;
      }
      TP_ASSIGN_OR_RETURN(size, SameSize(op, assumptions, size, theirs,
                                         "batch dims of query, key, value"));
    }
    result.dims.push_back(size);
  }
  result.dims.push_back(q.dims[ndim - 2]);
  if (const TensorType* mask = TypeOrNull(op, kMask)) {
    Dims scores = result.dims;
    scores.push_back(k.dims[ndim - 2]);
    TP_RETURN_IF_ERROR(RequireBroadcastTo(op, assumptions, mask->dims, scores));
  }
  result.dims.push_back(v.dims.back());
  return std::vector<TensorType>{result};
}

// `... q d^, ... s^ d^, ... s^ e, ... q s^ -> ... q e`. A query sees which
// keys are before it under is_causal, so its position must be the global one.
absl::StatusOr<OpRule> AttentionRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckAttention(op));
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 3));
  TP_ASSIGN_OR_RETURN(bool causal, BoolAttrOr(op, "is_causal", false));
  TP_ASSIGN_OR_RETURN(bool grouped, BoolAttrOr(op, "enable_gqa", false));
  if (op.FloatOr("dropout_p", 0.0) != 0.0) return ReplicateRule(op);
  const TensorType& q = op.operand(kQuery)->type();
  const TensorType& k = op.operand(kKey)->type();
  const TensorType& v = op.operand(kValue)->type();
  const TensorType& result = op.result()->type();
  const TensorType* mask = TypeOrNull(op, kMask);
  int ndim = q.ndim();
  if (result.ndim() != ndim) return OpError(op, "has a result of other dims");
  RuleMaker rule(op);

  auto mask_dim = [&](int from_end, int factor) {
    if (mask == nullptr || mask->ndim() < from_end) return;
    rule.Operand(kMask, -from_end, factor);
  };
  for (int i = 0; i + 2 < ndim; ++i) {
    int from_end = ndim - i;
    SymExpr size = result.dims[i];
    const SymExpr& shared = k.dims[i];
    if (grouped && i == ndim - 3 && !(shared == size)) {
      // Query head h uses key head h / repeats: heads are (shared repeats).
      std::optional<SymExpr> repeats = ExactDiv(size, shared);
      if (!repeats || !(v.dims[i] == shared)) {
        int whole = rule.Whole(size);
        rule.Operand(kQuery, i, whole);
        rule.Operand(kKey, i, rule.Whole(shared));
        rule.Operand(kValue, i, rule.Whole(v.dims[i]));
        mask_dim(from_end, whole);
        rule.Result(0, i, whole);
        continue;
      }
      int outer = rule.Pass(shared);
      int inner = rule.Pass(*repeats);
      rule.Operand(kKey, i, outer);
      rule.Operand(kValue, i, outer);
      for (int factor : {outer, inner}) {
        rule.Operand(kQuery, i, factor);
        mask_dim(from_end, factor);
        rule.Result(0, i, factor);
      }
      continue;
    }
    int factor = rule.Pass(size);
    for (int operand : {kQuery, kKey, kValue}) {
      rule.Operand(operand, i, factor);
    }
    mask_dim(from_end, factor);
    rule.Result(0, i, factor);
  }
  int rows =
      causal ? rule.Whole(q.dims[ndim - 2]) : rule.Pass(q.dims[ndim - 2]);
  int keys = rule.Whole(k.dims[ndim - 2]);
  int width = rule.Whole(q.dims.back());
  int value_width = rule.Pass(v.dims.back());
  rule.Operand(kQuery, -2, rows);
  rule.Operand(kQuery, -1, width);
  rule.Operand(kKey, -2, keys);
  rule.Operand(kKey, -1, width);
  rule.Operand(kValue, -2, keys);
  rule.Operand(kValue, -1, value_width);
  mask_dim(2, rows);
  mask_dim(1, keys);
  rule.Result(0, -2, rows);
  rule.Result(0, -1, value_width);
  rule.Partial("2");
  return std::move(rule).Build();
}

}  // namespace

void AddAttentionRows(OpRows& rows) {
  rows.push_back(
      Row("aten.scaled_dot_product_attention", AttentionRule, AttentionTypes));
  rows.back().saves = "0,1,2,result";
}

}  // namespace tp
