// Proves that a lowered module computes what the unsharded one does: every
// op's placements are one strategy of its rule (so a sum that is due is
// carried only through linear ops and reduced exactly once), every collective
// is a transition of the reshard table, and every result is whole or lies as
// the argument that it becomes.
#include <map>

#include "absl/strings/str_cat.h"
#include "ir/collectives.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/deciders.h"
#include "passes/gradients.h"
#include "passes/pass.h"
#include "passes/strategy.h"

namespace tp {
namespace {

absl::Status CheckCollective(const Op& op, const Module& module, int axis) {
  const MeshAxis& mesh_axis = module.mesh().axis(axis);
  const Placement from = AxisPlacement(*op.operand(0), axis);
  const Placement to = AxisPlacement(*op.result(), axis);
  const Attribute* named = op.attribute("axis");
  const bool own = named != nullptr && named->is_string() &&
                   named->as_string() == mesh_axis.name;
  const CollectiveKind kind = Transition(from, to, mesh_axis.size);
  if (op.Is("tp.broadcast") && from.is_replicate() && to.is_replicate())
    return absl::OkStatus();
  if (op.Is("tp.copy") && kind == CollectiveKind::kNone &&
      (!own || from.is_replicate()))
    return absl::OkStatus();
  if (own ? op.name() == OpNameOf(kind) : kind == CollectiveKind::kNone)
    return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "the reshard table takes ", from.ToString(), " to ", to.ToString(),
      " by \"", OpNameOf(kind), "\", not by ", Print(op)));
}

// Of an operand that has a gradient: a copy if and only if the op gives each
// rank a term of its gradient.
absl::Status CheckCopy(const Op& op, int index, const Strategy& strategy,
                       const std::string& axis) {
  const bool needed = NeedsCopy(strategy, index);
  if (IsCopyOn(op.operand(index), axis) == needed) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "the gradient of operand ", index, needed ? " needs" : " would get",
      " a sum over the axis ", axis, needed ? "" : " that it does not need",
      ": ", Print(op)));
}

absl::Status CheckOp(const Op& op, const Module& module, int axis,
                     const CostModel& cost,
                     const llvm::DenseSet<const Value*>& has_gradient) {
  if (HasTrait(op, kCollective)) return CheckCollective(op, module, axis);
  if (HasTrait(op, kBoundary)) return absl::OkStatus();  // see check_gradients
  TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(op));
  TP_ASSIGN_OR_RETURN(Strategy strategy,
                      DeriveStrategy(op, rule, module, axis, cost));
  for (int i = 0; i < op.num_results(); ++i) {
    if (IsExtreme(AxisPlacement(*op.result(i), axis)) &&
        has_gradient.contains(op.result(i)))
      return absl::InternalError(absl::StrCat(
          "no rank knows whether the gradient of result ", i,
          ", a largest or least value over ranks, is its own: ", Print(op)));
  }
  for (int i = 0; i < op.num_operands(); ++i) {
    if (op.operand(i) == nullptr) continue;
    const Placement given = AxisPlacement(*op.operand(i), axis);
    if (!SameLayout(given, strategy.operands[i], module.mesh().axis(axis).size))
      return absl::InternalError(
          absl::StrCat("operand ", i, " is ", given.ToString(),
                       " but the rule \"", rule.ToString(), "\" wants ",
                       strategy.operands[i].ToString(), ": ", Print(op)));
    if (has_gradient.contains(op.operand(i)))
      TP_RETURN_IF_ERROR(
          CheckCopy(op, i, strategy, module.mesh().axis(axis).name));
  }
  return absl::OkStatus();
}

// A weight that several functions use is stored once.
absl::Status CheckSharedWeights(const Module& module, int axis) {
  std::map<std::string, const Value*> weights;
  for (const auto& function : module.functions()) {
    for (size_t i = 0; i < function->arguments().size(); ++i) {
      const ArgumentInfo& info = function->arguments()[i];
      const Value* value = function->body().arguments()[i].get();
      if (!info.is_weight()) continue;
      const Value* first = weights.try_emplace(info.name, value).first->second;
      const Placement given = AxisPlacement(*value, axis);
      const Placement wanted = AxisPlacement(*first, axis);
      if (first->type() == value->type() &&
          SameLayout(given, wanted, module.mesh().axis(axis).size))
        continue;
      return absl::InternalError(
          absl::StrCat("the weight \"", info.name, "\" is ", given.ToString(),
                       " in @", function->name(), " and ", wanted.ToString(),
                       " in another function"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const Value& value, int axis, const std::string& what) {
  const Placement placement = AxisPlacement(value, axis);
  if (placement.is_replicate()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, " is ", placement.ToString(), ", not whole"));
}

// What goes into regions and out of them is whole, and what decides comes from
// the first rank.
absl::Status CheckRegions(const Op& op, const Module& module, int axis) {
  for (const auto& region : op.regions()) {
    for (const auto& argument : region->arguments())
      TP_RETURN_IF_ERROR(CheckWhole(
          *argument, axis, "what a region of " + op.name() + " takes"));
    for (const Value* result : region->results())
      TP_RETURN_IF_ERROR(CheckWhole(
          *result, axis, "what a region of " + op.name() + " yields"));
  }
  if (module.mesh().axis(axis).size == 1) return absl::OkStatus();
  for (const Value* decider : DecidersOf(op))
    if (!IsDecided(decider, module.mesh().axis(axis).name))
      return absl::InternalError(
          absl::StrCat("the ranks may decide differently: ", Print(op)));
  return absl::OkStatus();
}

absl::Status CheckBlock(const Block& block, const Module& module, int axis,
                        const PassContext& context,
                        const llvm::DenseSet<const Value*>& has_gradient) {
  for (const auto& op : block.ops()) {
    TP_RETURN_IF_ERROR(CheckOp(*op, module, axis, context.cost, has_gradient));
    if (HasTrait(*op, kRegions))
      TP_RETURN_IF_ERROR(CheckRegions(*op, module, axis));
    for (const auto& region : op->regions())
      TP_RETURN_IF_ERROR(
          CheckBlock(*region, module, axis, context, has_gradient));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlacements(Module& module, const PassContext& context) {
  for (int axis = 0; axis < module.mesh().ndim(); ++axis) {
    TP_RETURN_IF_ERROR(CheckSharedWeights(module, axis));
    for (const auto& function : module.functions()) {
      llvm::DenseSet<const Value*> has_gradient;
      if (context.train) has_gradient = ValuesWithGradients(*function);
      TP_RETURN_IF_ERROR(
          CheckBlock(function->body(), module, axis, context, has_gradient));
      // What @backward and @reduce_gradients return lies like parameters.
      if (function->name() == "backward" ||
          function->name() == "reduce_gradients")
        continue;
      for (size_t i = 0; i < function->arguments().size(); ++i) {
        const Value& argument = *function->body().arguments()[i];
        if (!function->arguments()[i].is_weight() &&
            !function->IsCarried(static_cast<int>(i)) &&
            !AxisPlacement(argument, axis).is_replicate())
          return absl::InternalError(absl::StrCat(
              "the input \"", function->arguments()[i].name, "\" of @",
              function->name(), " is ",
              AxisPlacement(argument, axis).ToString(), ", not whole"));
      }
      for (size_t i = 0; i < function->body().results().size(); ++i) {
        const Placement given =
            AxisPlacement(*function->body().results()[i], axis);
        const Placement wanted = ResultPlacement(module, *function, i, axis);
        if (!SameLayout(given, wanted, module.mesh().axis(axis).size))
          return absl::InternalError(
              absl::StrCat("result ", i, " of @", function->name(), " is ",
                           given.ToString(), ", not ", wanted.ToString()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tp
