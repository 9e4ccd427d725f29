#include "passes/expand_fused.h"

#include <cmath>
#include <limits>
#include <utility>

#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/expand_loss.h"

namespace tp {
namespace {

// How a mask is laid out; true keeps a key out.
enum MaskType : int64_t { kSourceMask = 0, kKeyPadding = 1, kFullMask = 2 };

struct AttentionWeights {
  Value* qkv_weight = nullptr;  // [3 width, width]
  Value* qkv_bias = nullptr;
  Value* out_weight = nullptr;
  Value* out_bias = nullptr;
};

struct AttentionOptions {
  int64_t width = 0;
  int64_t heads = 1;
  Value* mask = nullptr;
  int64_t mask_type = kFullMask;
  bool need_weights = false;
  bool average_weights = true;
};

struct AttentionResult {
  Value* output = nullptr;
  Value* weights = nullptr;  // if they are needed
};

class Expansion {
 public:
  explicit Expansion(Builder& builder) : builder_(builder) {}

  absl::StatusOr<Value*> Make(const char* name,
                              std::vector<OperandArg> operands,
                              std::vector<NamedAttribute> attributes = {}) {
    TP_ASSIGN_OR_RETURN(Op * op, builder_.Create(name, std::move(operands),
                                                 std::move(attributes)));
    return op->result();
  }

  absl::StatusOr<Value*> Linear(Value* x, Value* weight, Value* bias) {
    TP_ASSIGN_OR_RETURN(Value * product, Make("aten.linear", {x, weight}));
    return Make("aten.add.Tensor", {product, bias});
  }

  absl::StatusOr<Value*> LayerNorm(Value* x, Value* weight, Value* bias,
                                   double eps) {
    const SymExpr width = x->type().dims.back();
    return Make(
        "aten.layer_norm", {x, weight, bias},
        {{"normalized_shape", Attribute::Ints(llvm::ArrayRef<SymExpr>(width))},
         {"eps", eps}});
  }

  absl::StatusOr<AttentionResult> Attention(Value* query, Value* key,
                                            Value* value,
                                            const AttentionWeights& weights,
                                            const AttentionOptions& options) {
    TP_ASSIGN_OR_RETURN(std::vector<Value*> qkv,
                        Project(query, key, value, weights, options));
    for (Value*& part : qkv) {
      TP_ASSIGN_OR_RETURN(part, SplitHeads(part, options.heads));
    }
    AttentionResult result;
    Value* context = nullptr;
    if (options.mask == nullptr && !options.need_weights) {
      TP_ASSIGN_OR_RETURN(context, Make("aten.scaled_dot_product_attention",
                                        {qkv[0], qkv[1], qkv[2], nullptr}));
    } else {
      TP_ASSIGN_OR_RETURN(Value * probabilities,
                          Probabilities(qkv[0], qkv[1], options));
      TP_ASSIGN_OR_RETURN(context,
                          Make("aten.matmul", {probabilities, qkv[2]}));
      result.weights = probabilities;
    }
    TP_ASSIGN_OR_RETURN(context, JoinHeads(context));
    TP_ASSIGN_OR_RETURN(result.output,
                        Linear(context, weights.out_weight, weights.out_bias));
    if (options.need_weights && options.average_weights) {
      TP_ASSIGN_OR_RETURN(
          Value * sum,
          Make("aten.sum.dim_IntList", {result.weights},
               {{"dim", Attribute::Ints(llvm::ArrayRef<int64_t>(1))}}));
      TP_ASSIGN_OR_RETURN(result.weights, Make("aten.div.Scalar", {sum},
                                               {{"other", options.heads}}));
    }
    return result;
  }

 private:
  // Queries, keys and values, [batch, length, width] each.
  absl::StatusOr<std::vector<Value*>> Project(Value* query, Value* key,
                                              Value* value,
                                              const AttentionWeights& weights,
                                              const AttentionOptions& options) {
    const std::vector<int64_t> thirds(3, options.width);
    auto split = [&](Value* whole, int64_t dim) {
      return builder_.Create(
          "aten.split_with_sizes", {whole},
          {{"split_sizes", Attribute::Ints(llvm::ArrayRef<int64_t>(thirds))},
           {"dim", dim}});
    };
    std::vector<Value*> parts;
    if (query == key && key == value) {
      TP_ASSIGN_OR_RETURN(Value * all,
                          Linear(query, weights.qkv_weight, weights.qkv_bias));
      TP_ASSIGN_OR_RETURN(Op * three, split(all, 2));
      for (int i = 0; i < 3; ++i) parts.push_back(three->result(i));
      return parts;
    }
    TP_ASSIGN_OR_RETURN(Op * weight, split(weights.qkv_weight, 0));
    TP_ASSIGN_OR_RETURN(Op * bias, split(weights.qkv_bias, 0));
    Value* const inputs[] = {query, key, value};
    for (int i = 0; i < 3; ++i) {
      TP_ASSIGN_OR_RETURN(
          Value * part, Linear(inputs[i], weight->result(i), bias->result(i)));
      parts.push_back(part);
    }
    return parts;
  }

  // [batch, length, (heads size)] to [batch, heads, length, size].
  absl::StatusOr<Value*> SplitHeads(Value* x, int64_t heads) {
    const Dims& dims = x->type().dims;
    std::optional<SymExpr> size = ExactDiv(dims[2], heads);
    if (!size)
      return absl::InvalidArgumentError("the width is no multiple of heads");
    const Dims shape = {dims[0], dims[1], SymExpr(heads), *size};
    TP_ASSIGN_OR_RETURN(
        Value * split,
        Make("aten.reshape", {x}, {{"shape", Attribute::Ints(shape)}}));
    return Make("aten.transpose.int", {split}, {{"dim0", 1}, {"dim1", 2}});
  }

  absl::StatusOr<Value*> JoinHeads(Value* x) {
    TP_ASSIGN_OR_RETURN(Value * moved, Make("aten.transpose.int", {x},
                                            {{"dim0", 1}, {"dim1", 2}}));
    const Dims& dims = moved->type().dims;
    const Dims shape = {dims[0], dims[1], dims[2] * dims[3]};
    return Make("aten.reshape", {moved}, {{"shape", Attribute::Ints(shape)}});
  }

  absl::StatusOr<Value*> Probabilities(Value* query, Value* key,
                                       const AttentionOptions& options) {
    const double size = static_cast<double>(options.width / options.heads);
    TP_ASSIGN_OR_RETURN(query, Make("aten.mul.Scalar", {query},
                                    {{"other", 1 / std::sqrt(size)}}));
    TP_ASSIGN_OR_RETURN(
        key, Make("aten.transpose.int", {key}, {{"dim0", 2}, {"dim1", 3}}));
    TP_ASSIGN_OR_RETURN(Value * scores, Make("aten.matmul", {query, key}));
    if (options.mask != nullptr) {
      Value* mask = options.mask;
      if (mask->type().dtype != DType::kBool) {
        TP_ASSIGN_OR_RETURN(
            mask, Make("aten.to.dtype", {mask}, {{"dtype", DType::kBool}}));
      }
      if (options.mask_type == kKeyPadding) {
        for (int i = 0; i < 2; ++i) {
          TP_ASSIGN_OR_RETURN(mask,
                              Make("aten.unsqueeze", {mask}, {{"dim", 1}}));
        }
      }
      TP_ASSIGN_OR_RETURN(
          scores, Make("aten.masked_fill.Scalar", {scores, mask},
                       {{"value", -std::numeric_limits<double>::infinity()}}));
    }
    return Make("aten.softmax.int", {scores}, {{"dim", -1}});
  }

  Builder& builder_;
};

// _native_multi_head_attention(query, key, value, embed_dim, num_head,
// qkv_weight, qkv_bias, proj_weight, proj_bias, mask, ...).
absl::StatusOr<std::vector<Value*>> ExpandAttention(const Op& op,
                                                    Builder& builder) {
  AttentionOptions options;
  options.width = op.IntOr("embed_dim", 0);
  options.heads = op.IntOr("num_head", 1);
  options.mask = op.operand_or_null(7);
  options.mask_type = op.IntOr("mask_type", kFullMask);
  options.need_weights = op.BoolOr("need_weights", true);
  options.average_weights = op.BoolOr("average_attn_weights", true);
  const AttentionWeights weights = {op.operand(3), op.operand(4), op.operand(5),
                                    op.operand(6)};
  TP_ASSIGN_OR_RETURN(
      AttentionResult result,
      Expansion(builder).Attention(op.operand(0), op.operand(1), op.operand(2),
                                   weights, options));
  if (!options.need_weights) {
    // LibTorch leaves it undefined; nothing uses it.
    result.weights = builder
                         .CreateTyped("aten.zeros", {},
                                      {{"size", Attribute::List{0}},
                                       {"dtype", op.result(1)->type().dtype}},
                                      {op.result(1)->type()})
                         ->result();
  }
  return std::vector<Value*>{result.output, result.weights};
}

// _transformer_encoder_layer_fwd(src, embed_dim, num_heads, qkv_weight,
// qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
// norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1,
// ffn_weight_2, ffn_bias_2, mask, mask_type).
absl::StatusOr<std::vector<Value*>> ExpandEncoderLayer(const Op& op,
                                                       Builder& builder) {
  Expansion expand(builder);
  AttentionOptions options;
  options.width = op.IntOr("embed_dim", 0);
  options.heads = op.IntOr("num_heads", 1);
  options.mask = op.operand_or_null(13);
  options.mask_type = op.IntOr("mask_type", kFullMask);
  const AttentionWeights weights = {op.operand(1), op.operand(2), op.operand(3),
                                    op.operand(4)};
  const bool norm_first = op.BoolOr("norm_first", false);
  const double eps = op.FloatOr("eps", 1e-5);
  auto norm = [&](Value* x, int operand) {
    return expand.LayerNorm(x, op.operand(operand), op.operand(operand + 1),
                            eps);
  };
  Value* x = op.operand(0);
  Value* residual = x;
  if (norm_first) {
    TP_ASSIGN_OR_RETURN(x, norm(x, 5));
  }
  TP_ASSIGN_OR_RETURN(AttentionResult attention,
                      expand.Attention(x, x, x, weights, options));
  TP_ASSIGN_OR_RETURN(
      x, expand.Make("aten.add.Tensor", {attention.output, residual}));
  if (!norm_first) {
    TP_ASSIGN_OR_RETURN(x, norm(x, 5));
  }
  residual = x;
  if (norm_first) {
    TP_ASSIGN_OR_RETURN(x, norm(x, 7));
  }
  TP_ASSIGN_OR_RETURN(x, expand.Linear(x, op.operand(9), op.operand(10)));
  TP_ASSIGN_OR_RETURN(
      x, expand.Make(op.BoolOr("use_gelu", false) ? "aten.gelu" : "aten.relu",
                     {x}));
  TP_ASSIGN_OR_RETURN(x, expand.Linear(x, op.operand(11), op.operand(12)));
  TP_ASSIGN_OR_RETURN(x, expand.Make("aten.add.Tensor", {x, residual}));
  if (!norm_first) {
    TP_ASSIGN_OR_RETURN(x, norm(x, 7));
  }
  return std::vector<Value*>{x};
}

enum BagMode : int64_t { kBagSum = 0, kBagMean = 1, kBagMax = 2 };

// Whether anything uses a result of the op other than the first.
bool UsesOtherResults(const Op& op, const Block& block) {
  auto is_other = [&](const Value* value) {
    return value != nullptr && value->op() == &op && value->index() > 0;
  };
  return llvm::any_of(block.results(), is_other) ||
         llvm::any_of(block.ops(), [&](const std::unique_ptr<Op>& user) {
           return llvm::any_of(user->operands(), is_other) ||
                  llvm::any_of(user->regions(), [&](const auto& region) {
                    return UsesOtherResults(op, *region);
                  });
         });
}

// embedding_bag(weight, indices, offsets, ..., per_sample_weights): a lookup,
// whose rows and columns both split, and sums of its rows by bag. Bag i begins
// at offsets[i].
class BagExpansion {
 public:
  BagExpansion(const Op& op, Builder& builder)
      : op_(op),
        expand_(builder),
        weight_(op.operand(0)),
        indices_(op.operand(1)),
        bags_(op.result()->type().dims[0]) {}

  absl::StatusOr<Value*> Run() {
    const int64_t mode = op_.IntOr("mode", kBagSum);
    TP_RETURN_IF_ERROR(FindBags());
    TP_RETURN_IF_ERROR(FindCounted());
    TP_ASSIGN_OR_RETURN(Value * rows,
                        expand_.Make("aten.embedding", {weight_, indices_}));
    if (mode == kBagMax) return Largest(rows);
    if (Value* scale = op_.operand_or_null(3)) {
      TP_ASSIGN_OR_RETURN(rows, Scaled(rows, scale));
    }
    if (counted_ != nullptr) {
      TP_ASSIGN_OR_RETURN(rows, Scaled(rows, counted_));
    }
    TP_ASSIGN_OR_RETURN(Value * sums, SumByBag(rows));
    if (mode == kBagSum) return sums;
    TP_ASSIGN_OR_RETURN(Value * sizes, BagSizes());
    TP_ASSIGN_OR_RETURN(sizes,
                        expand_.Make("aten.clamp_min", {sizes}, {{"min", 1}}));
    TP_ASSIGN_OR_RETURN(sizes, Column(sizes));
    return expand_.Make("aten.div.Tensor", {sums, sizes});
  }

 private:
  absl::StatusOr<Value*> Column(Value* vector) {
    return expand_.Make("aten.unsqueeze", {vector}, {{"dim", 1}});
  }

  absl::StatusOr<Value*> Scaled(Value* rows, Value* scale) {
    TP_ASSIGN_OR_RETURN(scale, Column(scale));
    return expand_.Make("aten.mul.Tensor", {rows, scale});
  }

  absl::StatusOr<Value*> Zeros(const Dims& dims, DType dtype) {
    return expand_.Make("aten.zeros", {},
                        {{"size", Attribute::Ints(dims)}, {"dtype", dtype}});
  }

  // The bag of each index: the last one that begins at or before it.
  absl::Status FindBags() {
    Value* offsets = op_.operand(2);
    if (op_.BoolOr("include_last_offset", false)) {
      TP_ASSIGN_OR_RETURN(
          offsets, expand_.Make("aten.slice.Tensor", {offsets},
                                {{"dim", 0}, {"start", 0}, {"end", bags_}}));
    }
    TP_ASSIGN_OR_RETURN(Value * positions,
                        expand_.Make("aten.arange", {},
                                     {{"end", indices_->type().dims[0]},
                                      {"dtype", offsets->type().dtype}}));
    TP_ASSIGN_OR_RETURN(Value * next,
                        expand_.Make("aten.bucketize.Tensor",
                                     {positions, offsets}, {{"right", true}}));
    TP_ASSIGN_OR_RETURN(
        bag_, expand_.Make("aten.sub.Scalar", {next}, {{"other", 1}}));
    return absl::OkStatus();
  }

  // Which indices are no padding, if there is any.
  absl::Status FindCounted() {
    const Attribute* padding = op_.attribute("padding_idx");
    if (padding == nullptr || !padding->AsConstantInt())
      return absl::OkStatus();
    SymExpr index = *padding->AsConstantInt();
    if (index.constant() < 0) index = index + weight_->type().dims[0];
    TP_ASSIGN_OR_RETURN(counted_, expand_.Make("aten.ne.Scalar", {indices_},
                                               {{"other", index}}));
    return absl::OkStatus();
  }

  absl::StatusOr<Value*> SumByBag(Value* source) {
    Dims dims = source->type().dims;
    dims[0] = bags_;
    TP_ASSIGN_OR_RETURN(Value * zeros, Zeros(dims, source->type().dtype));
    return expand_.Make("aten.index_add", {zeros, bag_, source}, {{"dim", 0}});
  }

  absl::StatusOr<Value*> BagSizes() {
    const DType dtype = weight_->type().dtype;
    Value* ones = counted_;
    if (ones == nullptr) {
      TP_ASSIGN_OR_RETURN(
          ones, expand_.Make("aten.ones_like", {indices_}, {{"dtype", dtype}}));
    } else {
      TP_ASSIGN_OR_RETURN(
          ones, expand_.Make("aten.to.dtype", {ones}, {{"dtype", dtype}}));
    }
    return SumByBag(ones);
  }

  // An empty bag gives 0.
  absl::StatusOr<Value*> Largest(Value* rows) {
    if (counted_ != nullptr) {
      TP_ASSIGN_OR_RETURN(Value * padding,
                          expand_.Make("aten.logical_not", {counted_}));
      TP_ASSIGN_OR_RETURN(padding, Column(padding));
      TP_ASSIGN_OR_RETURN(
          rows,
          expand_.Make("aten.masked_fill.Scalar", {rows, padding},
                       {{"value", -std::numeric_limits<double>::infinity()}}));
    }
    Dims dims = rows->type().dims;
    TP_ASSIGN_OR_RETURN(Value * index, Column(bag_));
    TP_ASSIGN_OR_RETURN(index, expand_.Make("aten.expand", {index},
                                            {{"size", Attribute::Ints(dims)}}));
    dims[0] = bags_;
    TP_ASSIGN_OR_RETURN(Value * zeros, Zeros(dims, rows->type().dtype));
    TP_ASSIGN_OR_RETURN(
        Value * largest,
        expand_.Make(
            "aten.scatter_reduce.two", {zeros, index, rows},
            {{"dim", 0}, {"reduce", "amax"}, {"include_self", false}}));
    TP_ASSIGN_OR_RETURN(Value * sizes, BagSizes());
    TP_ASSIGN_OR_RETURN(sizes, Column(sizes));
    TP_ASSIGN_OR_RETURN(
        Value * empty, expand_.Make("aten.eq.Scalar", {sizes}, {{"other", 0}}));
    return expand_.Make("aten.masked_fill.Scalar", {largest, empty},
                        {{"value", 0}});
  }

  const Op& op_;
  Expansion expand_;
  Value* const weight_;
  Value* const indices_;
  const SymExpr bags_;
  Value* bag_ = nullptr;      // per index
  Value* counted_ = nullptr;  // per index; null: all are
};

// Without what LibTorch counts on the way, which is not made then.
absl::StatusOr<std::vector<Value*>> ExpandBag(const Op& op, Builder& builder) {
  if (UsesOtherResults(op, builder.block())) return std::vector<Value*>();
  TP_ASSIGN_OR_RETURN(Value * sums, BagExpansion(op, builder).Run());
  std::vector<Value*> results = {sums};
  for (int i = 1; i < op.num_results(); ++i) {
    const TensorType& type = op.result(i)->type();
    results.push_back(builder
                          .CreateTyped("aten.zeros", {},
                                       {{"size", Attribute::Ints(type.dims)},
                                        {"dtype", type.dtype}},
                                       {type})
                          ->result());
  }
  return results;
}

}  // namespace

absl::StatusOr<std::vector<Value*>> ExpandFused(const Op& op,
                                                Builder& builder) {
  if (op.Is("aten._native_multi_head_attention"))
    return ExpandAttention(op, builder);
  if (op.Is("aten._transformer_encoder_layer_fwd"))
    return ExpandEncoderLayer(op, builder);
  if (op.Is("aten.embedding_bag")) return ExpandBag(op, builder);
  return ExpandLoss(op, builder);
}

}  // namespace tp
