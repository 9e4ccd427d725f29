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
  if (!(within.left == SymExpr(1))) {
    return OpUnsupported(op, "the rows of a rank have to be one range");
  }
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

// embedding_bag(weight, indices, offsets, ..., per_sample_weights): rows
// summed up, averaged or maximized by bag; also the bag of each index, the
// sizes of the bags and where the largest values come from, as far as LibTorch
// makes them.
enum BagMode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

Types EmbeddingBagTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType weight, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType indices, TypeOf(op, 1));
  TP_ASSIGN_OR_RETURN(TensorType offsets, TypeOf(op, 2));
  TP_ASSIGN_OR_RETURN(int64_t mode, ConstIntAttrOr(op, "mode", kSum));
  TP_ASSIGN_OR_RETURN(bool last, BoolAttrOr(op, "include_last_offset", false));
  TP_ASSIGN_OR_RETURN(int64_t padding, ConstIntAttrOr(op, "padding_idx", -1));
  if (weight.ndim() != 2) return OpError(op, "the weight must have 2 dims");
  if (indices.ndim() != 1 || offsets.ndim() != 1) {
    return OpUnsupported(op, "indices and offsets must have 1 dim");
  }
  const SymExpr bags = offsets.dims[0] - SymExpr(last ? 1 : 0);
  const DType index = Promote(indices.dtype, offsets.dtype);
  // Sums of other floats take a short cut that leaves the bags out (where the
  // rows are without gaps, as weights are).
  const bool shortcut = mode == kSum && padding < 0 &&
                        IsNone(op, "padding_idx") &&
                        weight.dtype != DType::kF64;
  TensorType of_index{index, {shortcut ? SymExpr(0) : indices.dims[0]}};
  TensorType sizes{index, {mode == kSum ? offsets.dims[0] : bags}};
  TensorType largest = sizes;
  if (mode == kMax) largest.dims.push_back(weight.dims[1]);
  return std::vector<TensorType>{
      {weight.dtype, {bags, weight.dims[1]}}, of_index, sizes, largest};
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
  rows.push_back(Row("aten.embedding", kEmbeddingRule, "0", EmbeddingTypes));
  rows.back().rule_fn = EmbeddingRule;
  rows.back().saves = "1";
  rows.back().localize = LocalizeEmbedding;
  // Whole: a rank without columns would have no counts either. Canonicalize
  // takes it apart where nobody wants those.
  rows.push_back(
      Row("aten.embedding_bag", "replicate", "-", EmbeddingBagTypes));
  rows.back().saves = "1,2";
  rows.push_back(Row("aten.one_hot", "... -> ... c^", "-", OneHotTypes));
}

}  // namespace tp
