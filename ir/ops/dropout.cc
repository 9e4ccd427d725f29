// Dropout that does not depend on the number of ranks.
//
//   %1 = aten.dropout(%0) {p = 0.1, train = true}
// is spelled out when training as
//   %2 = tp.dropout_mask() {size = [b,s,96], of = [b,s,96], p = 0.1,
//                           number = 3, dtype = f32}
//   %1 = aten.mul.Tensor(%0, %2)
//
// The mask holds 0, or 1 / (1 - p) where the value stays. Each element is
// decided by a counter: the seed, the step, `number` (which dropout of the
// source this is) and the element's index in the whole mask, `of`. A rank
// makes its part of it, which `parts` describes: [dim, left, size, right,
// offset, extent] per split dim.
#include "ir/builder.h"
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"
#include "ir/shard_extent.h"

namespace tp {
namespace {

Types MaskTypes(const Op& op, Assumptions&) {
  TensorType type;
  const Attribute* size = op.attribute("size");
  auto dims = size ? size->AsInts() : std::nullopt;
  if (!dims) return OpError(op, "attribute size is missing");
  type.dims.assign(dims->begin(), dims->end());
  TP_ASSIGN_OR_RETURN(type.dtype, DTypeAttrOr(op, "dtype", DType::kF32));
  return std::vector<TensorType>{type};
}

absl::StatusOr<OpRule> MaskRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 0));
  RuleMaker rule(op);
  const Dims& dims = op.result()->type().dims;
  for (size_t i = 0; i < dims.size(); ++i)
    rule.Result(0, static_cast<int>(i), rule.Pass(dims[i]));
  return std::move(rule).Build();
}

absl::StatusOr<Value*> LocalizeMask(Op& op, const LocalizeContext& context,
                                    Builder&) {
  const TensorFactors& dims = context.rule->results[0];
  std::vector<Attribute> parts;
  if (const Attribute* known = op.attribute("parts"))
    parts = known->as_list();
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dims[dim].empty() || dims[dim][0] != context.sharding.factor) continue;
    const DimFactor& box = context.sharding.within;
    const ShardExtent part =
        ShardExtentOf(box.size, context.axis_size, context.coordinate);
    parts.push_back(Attribute::Ints(llvm::ArrayRef<SymExpr>{
        static_cast<int64_t>(dim), box.left, box.size, box.right, part.offset,
        part.extent}));
  }
  op.SetAttribute("parts", Attribute(std::move(parts)));
  return op.result();
}

}  // namespace

void AddDropoutRows(OpRows& rows) {
  rows.push_back(Row("tp.dropout_mask", MaskRule, MaskTypes));
  rows.back().sizes_attribute = "size";
  rows.back().localize = LocalizeMask;
  rows.back().traits = kRandom;
}

}  // namespace tp
