// Table lookups.
#include "ir/builder.h"
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"
#include "ir/shard_extent.h"

namespace tp {
namespace {

constexpr char kRows[] = "v";

Types EmbeddingTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType weight, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType ids, TypeOf(op, 1));
  if (weight.ndim() != 2) return OpError(op, "the weight must have 2 dims");
  if (ids.dtype != DType::kI64 && ids.dtype != DType::kI32) {
    return OpError(op, "the indices must be i64 or i32");
  }
  TensorType result{weight.dtype, ids.dims};
  result.dims.push_back(weight.dims[1]);
  return std::vector<TensorType>{result};
}

constexpr char kEmbeddingRule[] = "v+ h, ... -> ... h";

// A rank finds its rows by their offset, so they have to be one range.
absl::StatusOr<OpRule> EmbeddingRule(const Op& op) {
  TP_ASSIGN_OR_RETURN(OpRule rule, ParseRule(kEmbeddingRule, "0", op));
  for (Factor& factor : rule.factors) factor.one_range = factor.name == kRows;
  return rule;
}

// A rank with some of the rows gives zeros for ids of others; the sum over
// ranks has every row once. Ids outside the whole table are errors as ever.
absl::StatusOr<Value*> LocalizeEmbedding(Op& op, const LocalizeContext& context,
                                         Builder& builder) {
  const Factor& factor = context.rule->factors[context.sharding.factor];
  if (factor.name != kRows) return op.result();
  const DimFactor& within = context.sharding.within;
  TP_CHECK(within.left == SymExpr(1), "the rows of a rank are no range");
  SymExpr offset =
      ShardExtentOf(within.size, context.axis_size, context.coordinate).offset *
      within.right;
  Op* shard =
      builder.CreateTyped("tp.embedding_shard", {op.operand(0), op.operand(1)},
                          {{"offset", offset}, {"num_embeddings", factor.size}},
                          {op.result()->type()});
  // The row that gets no gradient.
  if (const Attribute* padding = op.attribute("padding_idx"))
    shard->SetAttribute("padding_idx", *padding);
  return shard->result();
}

Types OneHotTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType ids, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(SymExpr classes, IntAttrOr(op, "num_classes", -1));
  if (classes.is_constant() && classes.constant() <= 0) {
    return OpUnsupported(op,
                         "num_classes must be given: the number of "
                         "classes would depend on data");
  }
  ids.dtype = DType::kI64;
  ids.dims.push_back(classes);
  return std::vector<TensorType>{ids};
}

}  // namespace

void AddEmbeddingRows(OpRows& rows) {
  rows.push_back(
      Row("aten.embedding", kEmbeddingRule, "0", EmbeddingTypes));
  rows.back().rule_fn = EmbeddingRule;
  rows.back().saves = "1";
  rows.back().localize = LocalizeEmbedding;
  rows.push_back(Row("aten.one_hot", "... -> ... c^", "-", OneHotTypes));
}

}  // namespace tp
