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

// _native_multi_head_attention: attention with its projections in one op, and
// the probabilities if need_weights. Canonicalize takes it apart.
Types NativeAttentionTypes(const Op& op, Assumptions& assumptions) {
  for (int i = 0; i < 7; ++i) TP_RETURN_IF_ERROR(TypeOf(op, i).status());
  TensorType query = op.operand(kQuery)->type();
  TP_ASSIGN_OR_RETURN(int64_t width, ConstIntAttr(op, "embed_dim"));
  TP_ASSIGN_OR_RETURN(int64_t heads, ConstIntAttr(op, "num_head"));
  if (query.ndim() != 3) return OpError(op, "the query must have 3 dims");
  if (heads < 1 || width % heads != 0) {
    return OpError(op, "embed_dim is no multiple of num_head");
  }
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, query.dims[2], SymExpr(width),
                              "the width of the query and embed_dim")
                         .status());
  // LibTorch takes query, key and value of one shape only.
  for (int i : {kKey, kValue}) {
    const TensorType& type = op.operand(i)->type();
    if (type.ndim() != 3) return OpError(op, "key and value need 3 dims");
    for (int d = 0; d < 3; ++d)
      TP_RETURN_IF_ERROR(SameSize(op, assumptions, query.dims[d], type.dims[d],
                                  "sizes of query, key and value")
                             .status());
  }
  TP_ASSIGN_OR_RETURN(bool needed, BoolAttrOr(op, "need_weights", true));
  TP_ASSIGN_OR_RETURN(bool average,
                      BoolAttrOr(op, "average_attn_weights", true));
  TensorType weights{query.dtype, {}};
  weights.dims.push_back(needed ? query.dims[0] : SymExpr(0));
  if (needed && !average) weights.dims.push_back(heads);
  if (needed) weights.dims.append(2, query.dims[1]);
  return std::vector<TensorType>{query, weights};
}

// _transformer_encoder_layer_fwd: a whole layer; taken apart as well.
Types EncoderLayerTypes(const Op& op, Assumptions&) {
  for (int i = 0; i < 13; ++i) TP_RETURN_IF_ERROR(TypeOf(op, i).status());
  const TensorType& source = op.operand(0)->type();
  if (source.ndim() != 3) return OpError(op, "the input must have 3 dims");
  return std::vector<TensorType>{source};
}

}  // namespace

void AddAttentionRows(OpRows& rows) {
  rows.push_back(
      Row("aten.scaled_dot_product_attention", AttentionRule, AttentionTypes));
  rows.back().saves = "0,1,2,result";
  rows.push_back(Row("aten._native_multi_head_attention", "replicate", "-",
                     NativeAttentionTypes));
  rows.back().traits = kDecompose;
  rows.push_back(Row("aten._transformer_encoder_layer_fwd", "replicate", "-",
                     EncoderLayerTypes));
  rows.back().traits = kDecompose;
  SetNotations(rows, {
                         {"aten.scaled_dot_product_attention",
                          "... q d^, ... s^ d^, ... s^ e, ... q s^ -> ... q e"},
                     });
}

}  // namespace tp
