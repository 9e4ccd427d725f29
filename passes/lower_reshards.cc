// Turns each tp.reshard into the collective the reshard table names:
//
//   %2 = tp.reshard(%1) : f32[8,16] <R>          (%1 is <P(sum)>)
// becomes
//   %2 = tp.all_reduce(%1) {axis = "tp", reduce = "sum"} : f32[8,16] <R>
#include "absl/strings/str_cat.h"
#include "ir/builder.h"
#include "ir/collectives.h"
#include "ir/replacements.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "passes/strategy.h"

namespace tp {
namespace {

std::string ReduceName(ReduceKind reduce) {
  switch (reduce) {
    case ReduceKind::kSum:
      return "sum";
    case ReduceKind::kMax:
      return "max";
    case ReduceKind::kMin:
      return "min";
  }
  return "sum";
}

Attribute FactorAttribute(const DimFactor& factor) {
  return Attribute::Ints(
      llvm::ArrayRef<SymExpr>{factor.left, factor.size, factor.right});
}

std::vector<NamedAttribute> AttributesOf(CollectiveKind kind,
                                         const std::string& axis,
                                         const Placement& from,
                                         const Placement& to) {
  std::vector<NamedAttribute> attributes = {{"axis", axis}};
  if (from.is_partial())
    attributes.push_back({"reduce", ReduceName(from.reduce())});
  const Placement& shard = from.is_shard() ? from : to;
  if (shard.is_shard()) {
    attributes.push_back({"dim", int64_t{shard.dim()}});
    attributes.push_back({"factor", FactorAttribute(shard.factor())});
  }
  if (kind == CollectiveKind::kAllToAll) {
    attributes.push_back({"to_dim", int64_t{to.dim()}});
    attributes.push_back({"to_factor", FactorAttribute(to.factor())});
  }
  return attributes;
}

// The axes on which the operand and the result differ, those that make the
// value whole first: a dim may be given up by one axis and taken by another.
std::vector<int> ChangedAxes(const Op& op, const Module& module) {
  std::vector<int> changed;
  for (const bool whole : {true, false})
    for (int axis = 0; axis < module.mesh().ndim(); ++axis) {
      const Placement to = AxisPlacement(*op.result(), axis);
      if (to.is_replicate() == whole &&
          !SameLayout(AxisPlacement(*op.operand(0), axis), to,
                      module.mesh().axis(axis).size))
        changed.push_back(axis);
    }
  return changed;
}

absl::Status LowerBlock(Module& module, Block& block, Replacements& replaced,
                        OpList& gone) {
  for (auto it = block.ops().begin(); it != block.ops().end();) {
    auto current = it++;
    Op& op = **current;
    replaced.ApplyTo(op);
    for (const auto& region : op.regions())
      TP_RETURN_IF_ERROR(LowerBlock(module, *region, replaced, gone));
    if (!op.Is("tp.reshard")) continue;
    Value* replacement = op.operand(0);
    Builder builder(module, block, current);
    builder.set_location(op.location());
    for (int axis : ChangedAxes(op, module)) {
      const MeshAxis& mesh_axis = module.mesh().axis(axis);
      const Placement from = AxisPlacement(*replacement, axis);
      const Placement to = AxisPlacement(*op.result(), axis);
      const CollectiveKind kind = Transition(from, to, mesh_axis.size);
      if (kind == CollectiveKind::kImpossible)
        return absl::InternalError(
            absl::StrCat("an impossible reshard: ", Print(op)));
      Op* lowered = builder.CreateTyped(
          OpNameOf(kind), {replacement},
          AttributesOf(kind, mesh_axis.name, from, to), {op.result()->type()});
      ShardingSpec spec(replacement->spec().begin(), replacement->spec().end());
      spec.resize(module.mesh().ndim());
      spec[axis] = to;
      lowered->result()->set_spec(std::move(spec));
      replacement = lowered->result();
    }
    replaced.Set(op.result(), replacement);
    gone.splice(gone.end(), block.ops(), current);
  }
  replaced.ApplyToResults(block);
  return absl::OkStatus();
}

}  // namespace

absl::Status LowerReshards(Module& module, const PassContext&) {
  for (const auto& function : module.functions()) {
    Replacements replaced;
    OpList gone;
    TP_RETURN_IF_ERROR(LowerBlock(module, function->body(), replaced, gone));
  }
  return absl::OkStatus();
}

}  // namespace tp
