// Ops that move pixels between channels, columns and space. Partial sums pass:
// nothing is multiplied.
#include <algorithm>

#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// [..., C r r, H, W] <-> [..., C, H r, W r].
struct Shuffle {
  Dims batch;
  SymExpr channels;  // of the fine image
  SymExpr height;    // of the coarse image
  SymExpr width;
  SymExpr scale;
};

absl::StatusOr<Shuffle> ShuffleOf(const Op& op) {
  const bool coarse = op.Is("aten.pixel_shuffle");  // operand 0 is
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(
      int64_t scale,
      ConstIntAttr(op, coarse ? "upscale_factor" : "downscale_factor"));
  if (scale < 1) return OpError(op, "the factor must be positive");
  if (type.ndim() < 3) return OpError(op, "needs channels, height and width");
  const int channel = type.ndim() - 3;
  Shuffle shuffle;
  shuffle.batch.assign(type.dims.begin(), type.dims.begin() + channel);
  shuffle.channels = type.dims[channel];
  shuffle.height = type.dims[channel + 1];
  shuffle.width = type.dims[channel + 2];
  shuffle.scale = scale;
  auto divide = [&](SymExpr& size, int64_t by, const char* what) {
    const std::optional<SymExpr> exact = ExactDiv(size, by);
    if (!exact) return OpError(op, std::string(what) + " do not divide");
    size = *exact;
    return absl::OkStatus();
  };
  if (coarse) {
    TP_RETURN_IF_ERROR(divide(shuffle.channels, scale * scale, "channels"));
  } else {
    TP_RETURN_IF_ERROR(divide(shuffle.height, scale, "height and factor"));
    TP_RETURN_IF_ERROR(divide(shuffle.width, scale, "width and factor"));
  }
  return shuffle;
}

Types ShuffleTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(Shuffle shuffle, ShuffleOf(op));
  TensorType result{op.operand(0)->type().dtype, shuffle.batch};
  const SymExpr& scale = shuffle.scale;
  if (op.Is("aten.pixel_shuffle")) {
    result.dims.append(
        {shuffle.channels, shuffle.height * scale, shuffle.width * scale});
  } else {
    result.dims.append(
        {shuffle.channels * scale * scale, shuffle.height, shuffle.width});
  }
  return std::vector<TensorType>{result};
}

// `... (c r^ q^) h w -> ... c (h r^) (w q^)`, and back for unshuffle.
absl::StatusOr<OpRule> ShuffleRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(Shuffle shuffle, ShuffleOf(op));
  if (op.result()->type().ndim() != op.operand(0)->type().ndim()) {
    return OpError(op, "has a result of other dims");
  }
  const bool coarse = op.Is("aten.pixel_shuffle");
  const int channel = static_cast<int>(shuffle.batch.size());
  RuleMaker rule(op);
  auto on_coarse = [&](int dim, int factor) {
    coarse ? rule.Operand(0, dim, factor) : rule.Result(0, dim, factor);
  };
  auto on_fine = [&](int dim, int factor) {
    coarse ? rule.Result(0, dim, factor) : rule.Operand(0, dim, factor);
  };
  for (int i = 0; i < channel; ++i) {
    const int factor = rule.Pass(shuffle.batch[i]);
    on_coarse(i, factor);
    on_fine(i, factor);
  }
  const int c = rule.Pass(shuffle.channels);
  const int h = rule.Pass(shuffle.height);
  const int w = rule.Pass(shuffle.width);
  const int r = rule.Whole(shuffle.scale);
  const int q = rule.Whole(shuffle.scale);
  for (int factor : {c, r, q}) on_coarse(channel, factor);
  on_coarse(channel + 1, h);
  on_coarse(channel + 2, w);
  on_fine(channel, c);
  for (int factor : {h, r}) on_fine(channel + 1, factor);
  for (int factor : {w, q}) on_fine(channel + 2, factor);
  rule.Partial("0");
  return std::move(rule).Build();
}

constexpr char kGroups[] = "groups";

// channel_shuffle: `n (groups c) ... -> n (c groups) ...`.
absl::StatusOr<OpRule> ChannelShuffleRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(SymExpr groups, IntAttr(op, "groups"));
  std::optional<SymExpr> channels;
  if (type.ndim() > 2) channels = ExactDiv(type.dims[1], groups);
  if (!channels) return ReplicateRule(op);
  RuleMaker rule(op);
  for (int d = 0; d < type.ndim(); ++d) {
    if (d == 1) {
      const int group = rule.Pass(groups, kGroups);
      const int channel = rule.Pass(*channels);
      for (int factor : {group, channel}) rule.Operand(0, d, factor);
      for (int factor : {channel, group}) rule.Result(0, d, factor);
      continue;
    }
    const int factor = rule.Pass(type.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, d, factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

absl::StatusOr<Value*> LocalizeChannelShuffle(Op& op,
                                              const LocalizeContext& context,
                                              Builder&) {
  if (context.rule->factors[context.sharding.factor].name == kGroups)
    op.SetAttribute("groups", LocalFactorSize(context));
  return op.result();
}

// diagonal(self, offset, dim1, dim2): a new last dim in place of two.
Types DiagonalTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int first, DimAttrOr(op, "dim1", type.ndim(), 0));
  TP_ASSIGN_OR_RETURN(int second, DimAttrOr(op, "dim2", type.ndim(), 1));
  TP_ASSIGN_OR_RETURN(int64_t offset, ConstIntAttrOr(op, "offset", 0));
  if (type.ndim() < 2 || first == second) {
    return OpError(op, "needs two different dims");
  }
  const SymExpr rows = type.dims[first] + SymExpr(std::min<int64_t>(offset, 0));
  const SymExpr columns =
      type.dims[second] - SymExpr(std::max<int64_t>(offset, 0));
  TP_ASSIGN_OR_RETURN(
      bool rows_end,
      assumptions.Decide(rows, Relation::kLe, columns,
                         "aten.diagonal: where it ends", op.location()));
  const SymExpr length = rows_end ? rows : columns;
  TP_RETURN_IF_ERROR(assumptions.Require(
      length, Relation::kGe, 0, "aten.diagonal: the offset", op.location()));
  Dims dims;
  for (int d = 0; d < type.ndim(); ++d)
    if (d != first && d != second) dims.push_back(type.dims[d]);
  dims.push_back(length);
  return std::vector<TensorType>{{type.dtype, dims}};
}

absl::StatusOr<OpRule> DiagonalRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  const TensorType& result = op.result()->type();
  TP_ASSIGN_OR_RETURN(int first, DimAttrOr(op, "dim1", type.ndim(), 0));
  TP_ASSIGN_OR_RETURN(int second, DimAttrOr(op, "dim2", type.ndim(), 1));
  if (result.ndim() + 1 != type.ndim() || result.ndim() < 1) {
    return OpError(op, "has a result of other dims");
  }
  RuleMaker rule(op);
  int next = 0;
  for (int d = 0; d < type.ndim(); ++d) {
    if (d == first || d == second) {
      rule.Operand(0, d, rule.Whole(type.dims[d]));
      continue;
    }
    const int factor = rule.Pass(type.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, next++, factor);
  }
  rule.Result(0, next, rule.Whole(result.dims[next]));
  rule.Partial("0");
  return std::move(rule).Build();
}

// How often the kernel fits along each of the two spatial dims.
absl::StatusOr<Dims> Steps(const Op& op, Assumptions& assumptions,
                           llvm::ArrayRef<SymExpr> sizes) {
  TP_ASSIGN_OR_RETURN(Dims kernel, PerDimAttr(op, "kernel_size", 2));
  TP_ASSIGN_OR_RETURN(Dims dilation, PerDimAttr(op, "dilation", 2));
  TP_ASSIGN_OR_RETURN(Dims padding, PerDimAttr(op, "padding", 2));
  TP_ASSIGN_OR_RETURN(Dims stride, PerDimAttr(op, "stride", 2));
  Dims steps;
  for (int i = 0; i < 2; ++i) {
    if (stride[i] == SymExpr(0)) return OpError(op, "stride must be positive");
    const SymExpr room = sizes[i] + SymExpr(2) * padding[i] -
                         dilation[i] * (kernel[i] - SymExpr(1)) - SymExpr(1);
    TP_RETURN_IF_ERROR(assumptions.Require(
        room, Relation::kGe, 0, op.name() + ": the kernel fits in the image",
        op.location()));
    steps.push_back(FloorDiv(room, stride[i]) + SymExpr(1));
  }
  return steps;
}

// im2col (F.unfold): [N, C, H, W] to columns [N, C kh kw, L].
Types Im2ColTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  if (type.ndim() != 3 && type.ndim() != 4) {
    return OpError(op, "needs 3 or 4 dims");
  }
  llvm::ArrayRef<SymExpr> dims = type.dims;
  TP_ASSIGN_OR_RETURN(Dims steps, Steps(op, assumptions, dims.take_back(2)));
  TP_ASSIGN_OR_RETURN(Dims kernel, PerDimAttr(op, "kernel_size", 2));
  Dims result(dims.begin(), dims.end() - 2);
  result.back() = result.back() * Product(kernel);
  result.push_back(Product(steps));
  return std::vector<TensorType>{{type.dtype, result}};
}

// col2im (F.fold): columns to [N, C, *output_size], adding what overlaps.
Types Col2ImTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  if (type.ndim() != 2 && type.ndim() != 3) {
    return OpError(op, "needs 2 or 3 dims");
  }
  TP_ASSIGN_OR_RETURN(Dims sizes, PerDimAttr(op, "output_size", 2));
  TP_ASSIGN_OR_RETURN(Dims kernel, PerDimAttr(op, "kernel_size", 2));
  TP_ASSIGN_OR_RETURN(Dims steps, Steps(op, assumptions, sizes));
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, type.dims.back(), Product(steps),
                              "columns and output_size")
                         .status());
  const SymExpr& rows = type.dims[type.ndim() - 2];
  std::optional<SymExpr> channels = ExactDiv(rows, Product(kernel));
  if (!channels) {
    return OpError(op, rows.ToString() + " rows are no multiple of a kernel");
  }
  Dims result(type.dims.begin(), type.dims.end() - 2);
  result.push_back(*channels);
  result.append(sizes.begin(), sizes.end());
  return std::vector<TensorType>{{type.dtype, result}};
}

// `n c h^ w^ -> n (c k^) l^`, and back for col2im.
absl::StatusOr<OpRule> ColumnRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const bool to_columns = op.Is("aten.im2col");
  const TensorType& operand = op.operand(0)->type();
  const TensorType& result = op.result()->type();
  const TensorType& image = to_columns ? operand : result;
  const TensorType& columns = to_columns ? result : operand;
  if (image.ndim() != columns.ndim() + 1 || columns.ndim() < 2) {
    return OpError(op, "has a result of other dims");
  }
  const int channel = columns.ndim() - 2;
  std::optional<SymExpr> kernel =
      ExactDiv(columns.dims[channel], image.dims[channel]);
  if (!kernel) return ReplicateRule(op);
  RuleMaker rule(op);
  auto on_image = [&](int dim, int factor) {
    to_columns ? rule.Operand(0, dim, factor) : rule.Result(0, dim, factor);
  };
  auto on_columns = [&](int dim, int factor) {
    to_columns ? rule.Result(0, dim, factor) : rule.Operand(0, dim, factor);
  };
  for (int d = 0; d <= channel; ++d) {
    const int factor = rule.Pass(image.dims[d]);
    on_image(d, factor);
    on_columns(d, factor);
  }
  on_columns(channel, rule.Whole(*kernel));
  on_columns(channel + 1, rule.Whole(columns.dims.back()));
  for (int d = channel + 1; d < image.ndim(); ++d)
    on_image(d, rule.Whole(image.dims[d]));
  rule.Partial("0");
  return std::move(rule).Build();
}

// unfold(self, dimension, size, step): windows along a dim; a new last dim.
Types UnfoldTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dimension", type.ndim()));
  TP_ASSIGN_OR_RETURN(SymExpr size, IntAttr(op, "size"));
  TP_ASSIGN_OR_RETURN(SymExpr step, IntAttr(op, "step"));
  if (type.ndim() == 0) return OpError(op, "a 0-dim tensor has no windows");
  if (step == SymExpr(0)) return OpError(op, "step must be positive");
  const SymExpr room = type.dims[dim] - size;
  TP_RETURN_IF_ERROR(assumptions.Require(
      room, Relation::kGe, 0, "aten.unfold: the window fits", op.location()));
  type.dims[dim] = FloorDiv(room, step) + SymExpr(1);
  type.dims.push_back(size);
  return std::vector<TensorType>{type};
}

// The windows' dim is whole, others pass.
absl::StatusOr<OpRule> UnfoldRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  const TensorType& result = op.result()->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dimension", type.ndim()));
  if (result.ndim() != type.ndim() + 1) {
    return OpError(op, "has a result of other dims");
  }
  RuleMaker rule(op);
  for (int d = 0; d < type.ndim(); ++d) {
    const int factor =
        d == dim ? rule.Whole(type.dims[d]) : rule.Pass(type.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, d, d == dim ? rule.Whole(result.dims[d]) : factor);
  }
  rule.Result(0, -1, rule.Whole(result.dims.back()));
  rule.Partial("0");
  return std::move(rule).Build();
}

}  // namespace

void AddRearrangeRows(OpRows& rows) {
  auto add = [&rows](const char* name, const char* notation, RuleFn rule,
                     ShapeFn shape) {
    rows.push_back(Row(name, rule, shape));
    rows.back().rule = notation;
    rows.back().partial = "0";
  };
  add("aten.pixel_shuffle", "... (c r^ q^) h w -> ... c (h r^) (w q^)",
      ShuffleRule, ShuffleTypes);
  add("aten.pixel_unshuffle", "... c (h r^) (w q^) -> ... (c r^ q^) h w",
      ShuffleRule, ShuffleTypes);
  add("aten.im2col", "... c h^ w^ -> ... (c k^) l^", ColumnRule, Im2ColTypes);
  add("aten.col2im", "... (c k^) l^ -> ... c h^ w^", ColumnRule, Col2ImTypes);
  add("aten.unfold", "... s^ ... -> ... n^ ... k^", UnfoldRule, UnfoldTypes);
  rows.back().traits = kView;
  add("aten.diagonal", "... a^ b^ -> ... l^", DiagonalRule, DiagonalTypes);
  rows.back().traits = kView;
  add("aten.channel_shuffle", "n (groups c) ... -> n (c groups) ...",
      ChannelShuffleRule, SameAsOperand0);
  rows.back().localize = LocalizeChannelShuffle;
}

}  // namespace tp
