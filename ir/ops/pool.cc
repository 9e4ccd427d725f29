// Pooling and resizing: batch and channels pass, spatial dims stay whole.
#include <cmath>

#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// The number of spatial dims, the digit in "aten.max_pool2d".
int SpatialDims(const Op& op) {
  for (char c : op.base_name()) {
    if (c >= '1' && c <= '3') return c - '0';
  }
  return 0;
}

Types PoolTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  int spatial = SpatialDims(op);
  if (type.ndim() < spatial + 1) return OpError(op, "has too few dims");
  TP_ASSIGN_OR_RETURN(Dims kernel, PerDimAttr(op, "kernel_size", spatial));
  TP_ASSIGN_OR_RETURN(Dims stride, PerDimAttrOr(op, "stride", spatial, kernel));
  TP_ASSIGN_OR_RETURN(Dims padding, PerDimAttrOr(op, "padding", spatial,
                                                 Dims(spatial, SymExpr(0))));
  TP_ASSIGN_OR_RETURN(Dims dilation, PerDimAttrOr(op, "dilation", spatial,
                                                  Dims(spatial, SymExpr(1))));
  TP_ASSIGN_OR_RETURN(bool ceil_mode, BoolAttrOr(op, "ceil_mode", false));
  for (int i = 0; i < spatial; ++i) {
    SymExpr& size = type.dims[type.ndim() - spatial + i];
    if (stride[i] == SymExpr(0)) {
      return OpError(op, "stride must be positive");
    }
    SymExpr whole = size;
    SymExpr steps = size + SymExpr(2) * padding[i] -
                    dilation[i] * (kernel[i] - SymExpr(1)) - SymExpr(1);
    TP_RETURN_IF_ERROR(assumptions.Require(
        steps, Relation::kGe, 0, op.name() + ": the kernel fits in the input",
        op.location()));
    if (!ceil_mode) {
      size = FloorDiv(steps, stride[i]) + SymExpr(1);
      continue;
    }
    size = CeilDiv(steps, stride[i]) + SymExpr(1);
    // The last window must start inside the input or its left padding.
    TP_ASSIGN_OR_RETURN(
        bool outside,
        assumptions.Decide((size - SymExpr(1)) * stride[i], Relation::kGe,
                           whole + padding[i], op.name() + ": the last window",
                           op.location()));
    if (outside) size = size - SymExpr(1);
  }
  return std::vector<TensorType>{type};
}

Types PoolWithIndicesTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(std::vector<TensorType> types,
                      PoolTypes(op, assumptions));
  types.push_back(types[0]);
  types[1].dtype = DType::kI64;
  return types;
}

// upsample_*.vec with scale_factors.
Types ScaledTypes(const Op& op, TensorType type, int spatial) {
  const Attribute* factors = op.attribute("scale_factors");
  if (factors == nullptr || !factors->is_list() ||
      static_cast<int>(factors->as_list().size()) != spatial) {
    return OpError(op, "needs output_size or a scale factor per spatial dim");
  }
  for (int i = 0; i < spatial; ++i) {
    SymExpr& size = type.dims[type.ndim() - spatial + i];
    std::optional<double> factor = factors->as_list()[i].AsNumber();
    if (!factor || !(*factor > 0 && *factor < 1e9)) {
      return OpError(op, "scale factors must be positive numbers");
    }
    if (*factor == std::floor(*factor)) {
      size = size * SymExpr(static_cast<int64_t>(*factor));
    } else if (std::optional<int64_t> constant = size.AsConstant()) {
      size = static_cast<int64_t>(static_cast<double>(*constant) * *factor);
    } else {
      return OpUnsupported(op,
                           "a scale factor that is not whole needs a "
                           "constant size");
    }
  }
  return std::vector<TensorType>{type};
}

// adaptive_*_pool, upsample_* with output_size.
Types OutputSizeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  int spatial = SpatialDims(op);
  if (type.ndim() < spatial + 1) return OpError(op, "has too few dims");
  if (IsNone(op, "output_size")) return ScaledTypes(op, type, spatial);
  TP_ASSIGN_OR_RETURN(Dims sizes, PerDimAttr(op, "output_size", spatial));
  for (int i = 0; i < spatial; ++i) {
    type.dims[type.ndim() - spatial + i] = sizes[i];
  }
  return std::vector<TensorType>{type};
}

Types OutputSizeWithIndices(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(std::vector<TensorType> types,
                      OutputSizeTypes(op, assumptions));
  types.push_back(types[0]);
  types[1].dtype = DType::kI64;
  return types;
}

// grid_sampler(input [N, C, H, W], grid [N, P, Q, 2]): the input at points
// that the grid names, also with a third spatial dim.
Types GridTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType grid, TypeOf(op, 1));
  if ((type.ndim() != 4 && type.ndim() != 5) || grid.ndim() != type.ndim()) {
    return OpError(op, "input and grid must both have 4 or 5 dims");
  }
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, type.dims[0], grid.dims[0],
                              "the batches of input and grid")
                         .status());
  for (int d = 2; d < type.ndim(); ++d) type.dims[d] = grid.dims[d - 1];
  return std::vector<TensorType>{type};
}

absl::StatusOr<OpRule> GridRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  return ParseRule(op.operand(0)->type().ndim() == 5
                       ? "n c x^ y^ z^, n p q r t^ -> n c p q r"
                       : "n c x^ y^, n p q t^ -> n c p q",
                   "0", op);
}

absl::StatusOr<OpRule> SpatialRule(const Op& op, llvm::StringRef partial) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  int ndim = op.operand(0)->type().ndim();
  std::vector<int> whole;
  for (int d = ndim - SpatialDims(op); d < ndim; ++d) whole.push_back(d);
  return RuleExcept(op, whole, partial);
}

absl::StatusOr<OpRule> MaxRule(const Op& op) { return SpatialRule(op, "-"); }
absl::StatusOr<OpRule> MeanRule(const Op& op) { return SpatialRule(op, "0"); }

}  // namespace

void AddPoolRows(OpRows& rows) {
  for (const char* digit : {"1", "2", "3"}) {
    std::string suffix = std::string("pool") + digit + "d";
    rows.push_back(Row("aten.max_" + suffix, MaxRule, PoolTypes));
    rows.back().saves = "0,result";
    rows.push_back(Row("aten.max_" + suffix + "_with_indices", MaxRule,
                       PoolWithIndicesTypes));
    rows.back().saves = "0,result";
    rows.push_back(Row("aten.avg_" + suffix, MeanRule, PoolTypes));
    rows.push_back(
        Row("aten.adaptive_avg_" + suffix, MeanRule, OutputSizeTypes));
    rows.push_back(
        Row("aten.adaptive_max_" + suffix, MaxRule, OutputSizeWithIndices));
    rows.back().saves = "0,result";
  }
  for (const char* name :
       {"aten.upsample_nearest1d", "aten.upsample_nearest2d",
        "aten.upsample_nearest3d", "aten._upsample_nearest_exact1d",
        "aten._upsample_nearest_exact2d", "aten._upsample_nearest_exact3d",
        "aten.upsample_linear1d", "aten.upsample_bilinear2d",
        "aten.upsample_trilinear3d", "aten.upsample_bicubic2d",
        "aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa"}) {
    rows.push_back(Row(name, MeanRule, OutputSizeTypes));
  }
  rows.push_back(Row("aten.grid_sampler", GridRule, GridTypes));
  rows.back().saves = "0,1";
}

}  // namespace tp
