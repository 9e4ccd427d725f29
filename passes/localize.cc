// The program of one rank: types become local, attributes that repeat sizes
// follow, and ops whose meaning depends on the split are rewritten by their
// row's hook.
//
//   %1 = aten.reshape(%0) {shape = [b, s, 8, 12]} : f32[b,s,8,12] <S(2)>
// on rank 0 of 3 (3 of 8 heads) becomes
//   %1 = aten.reshape(%0) {shape = [b, s, 3, 12]} : f32[b,s,3,12] <S(2)>
//
// Kernels do not run on empty parts (the mean of nothing is NaN): where the
// split leaves a rank nothing, its results are filled with the identity of
// the reduction that follows.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/schedule.h"
#include "ir/shard_extent.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/fuse_local.h"
#include "passes/pass.h"
#include "passes/strategy.h"

namespace tp {
namespace {

TensorType LocalType(const Value& value, const Mesh& mesh,
                     llvm::ArrayRef<int64_t> coordinates) {
  TensorType type = value.type();
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    const Placement placement = AxisPlacement(value, axis);
    if (!placement.is_shard()) continue;
    const DimFactor& factor = placement.factor();
    const SymExpr extent =
        ShardExtentOf(factor.size, mesh.axis(axis).size, coordinates[axis])
            .extent;
    type.dims[placement.dim()] = factor.left * extent * factor.right;
  }
  return type;
}

double IdentityOf(const Strategy& strategy) {
  for (const Placement& result : strategy.results) {
    if (!result.is_partial()) continue;
    if (result.reduce() == ReduceKind::kMax)
      return -std::numeric_limits<double>::infinity();
    if (result.reduce() == ReduceKind::kMin)
      return std::numeric_limits<double>::infinity();
  }
  return 0;
}

Attribute FillValue(double identity, DType dtype) {
  if (dtype == DType::kBool) return Attribute(false);
  if (IsFloatingPoint(dtype)) return Attribute(identity);
  if (std::isfinite(identity)) return Attribute(int64_t{0});
  if (dtype == DType::kU8) return Attribute(identity > 0 ? 255 : 0);
  const int64_t largest = std::numeric_limits<int64_t>::max() >>
                          (64 - 8 * static_cast<int>(ByteSize(dtype)));
  return Attribute(identity > 0 ? largest : -largest - 1);
}

class Localizer {
 public:
  Localizer(const Module& whole, Module& local, int64_t rank)
      : whole_(whole),
        local_(local),
        coordinates_(whole.mesh().Coordinates(rank)) {}

  absl::Status Run(const Function& whole, Function& local) {
    const Mesh& mesh = whole_.mesh();
    for (size_t i = 0; i < whole.arguments().size(); ++i)
      local.body().arguments()[i]->set_type(
          LocalType(*whole.body().arguments()[i], mesh, coordinates_));
    return LocalizeBlock(whole.body(), local.body());
  }

 private:
  absl::Status LocalizeBlock(const Block& whole, Block& local) {
    auto it = local.ops().begin();
    for (const auto& op : whole.ops()) {
      // Hooks may insert around `it` or erase it; step first.
      auto current = it++;
      for (int i = 0; i < op->num_results(); ++i)
        (*current)->result(i)->set_type(
            LocalType(*op->result(i), whole_.mesh(), coordinates_));
      // Their arguments are whole.
      for (size_t i = 0; i < op->regions().size(); ++i)
        TP_RETURN_IF_ERROR(
            LocalizeBlock(*op->regions()[i], *(*current)->regions()[i]));
      TP_RETURN_IF_ERROR(LocalizeOp(*op, local, current));
    }
    return absl::OkStatus();
  }

  absl::Status LocalizeOp(const Op& whole, Block& block,
                          OpList::iterator position) {
    const OpDef* def = FindOpDef(whole);
    if (def != nullptr && (def->traits & (kCollective | kBoundary | kRegions)))
      return absl::OkStatus();
    Op& op = **position;
    if (def != nullptr && !def->sizes_attribute.empty() &&
        op.attribute(def->sizes_attribute) != nullptr)
      op.SetAttribute(def->sizes_attribute,
                      Attribute::Ints(op.result()->type().dims));
    TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(whole));
    for (int axis = 0; axis < whole_.mesh().ndim(); ++axis) {
      TP_ASSIGN_OR_RETURN(Strategy strategy, DeriveStrategy(whole, rule, whole_,
                                                            axis, CostModel()));
      if (strategy.kind != Strategy::Kind::kSplit) continue;
      TP_ASSIGN_OR_RETURN(
          bool gone, LocalizeSplit(rule, strategy, def, axis, block, position));
      if (gone) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  // Returns whether the op at `position` was replaced.
  absl::StatusOr<bool> LocalizeSplit(const OpRule& rule,
                                     const Strategy& strategy, const OpDef* def,
                                     int axis, Block& block,
                                     OpList::iterator position) {
    Op& op = **position;
    const MeshAxis& mesh_axis = whole_.mesh().axis(axis);
    const SymExpr extent = ShardExtentOf(strategy.split.within.size,
                                         mesh_axis.size, coordinates_[axis])
                               .extent;
    Builder builder(local_, block, position);
    builder.set_location(op.location());
    const double identity = IdentityOf(strategy);
    if (extent.is_constant() && extent.constant() == 0) {
      for (int i = 0; i < op.num_results(); ++i) {
        const TensorType type = op.result(i)->type();
        Op* full = builder.CreateTyped(
            "aten.full", {},
            {{"size", Attribute::Ints(type.dims)},
             {"fill_value", FillValue(identity, type.dtype)},
             {"dtype", type.dtype}},
            {type});
        Replace(block, op.result(i), full->result());
      }
      block.ops().erase(position);
      return true;
    }
    if (!extent.is_constant()) AddEmpty(op, extent, identity);
    if (def == nullptr || def->localize == nullptr) return false;
    LocalizeContext context;
    context.rule = &rule;
    context.sharding = strategy.split;
    context.axis_name = mesh_axis.name;
    context.axis_size = mesh_axis.size;
    context.coordinate = coordinates_[axis];
    Value* old_result = op.result();
    TP_ASSIGN_OR_RETURN(Value * replacement,
                        def->localize(op, context, builder));
    if (replacement == nullptr || replacement == old_result) return false;
    Replace(block, old_result, replacement);
    block.ops().erase(position);
    return true;
  }

  // Nothing is left where the part of any axis is nothing.
  static void AddEmpty(Op& op, const SymExpr& extent, double identity) {
    const Attribute* other = op.attribute("empty_if");
    op.SetAttribute("empty_if",
                    other == nullptr ? extent : other->as_int() * extent);
    if (other == nullptr || identity != 0)
      op.SetAttribute("identity", identity);
  }

  void Replace(Block& block, Value* from, Value* to) {
    to->set_spec(ShardingSpec(from->spec().begin(), from->spec().end()));
    ReplaceAllUses(block, from, to);
  }

  const Module& whole_;
  Module& local_;
  const llvm::SmallVector<int64_t, 2> coordinates_;
};

absl::Status CheckSameSchedules(
    const std::vector<std::unique_ptr<Module>>& programs) {
  const Mesh& mesh = programs[0]->mesh();
  for (const auto& function : programs[0]->functions()) {
    std::vector<Schedule> schedules;
    for (const auto& program : programs) {
      TP_ASSIGN_OR_RETURN(Schedule schedule,
                          ScheduleOf(*program->function(function->name())));
      schedules.push_back(std::move(schedule));
    }
    for (int axis = 0; axis < mesh.ndim(); ++axis)
      for (size_t rank = 0; rank < programs.size(); ++rank) {
        const int64_t first = mesh.Group(axis, static_cast<int64_t>(rank))[0];
        if (SameSchedule(schedules[first], schedules[rank],
                         mesh.axis(axis).name))
          continue;
        return absl::InternalError(
            absl::StrCat("ranks ", first, " and ", rank,
                         " would issue different collectives in @",
                         function->name(), " (", CountCalls(schedules[first]),
                         " and ", CountCalls(schedules[rank]), " calls)"));
      }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> LocalizeForRank(const Module& module,
                                                        int64_t rank) {
  std::unique_ptr<Module> local = CloneModule(module);
  local->set_rank(rank);
  Localizer localizer(module, *local, rank);
  for (const auto& function : module.functions()) {
    Function* target = local->function(function->name());
    TP_RETURN_IF_ERROR(localizer.Run(*function, *target));
    FuseLocal(*local, *target);
  }
  if (absl::Status status = Verify(*local); !status.ok())
    return absl::InternalError(
        absl::StrCat("localize left an invalid module "
                     "for rank ",
                     rank, ": ", status.message()));
  return local;
}

absl::StatusOr<std::vector<std::unique_ptr<Module>>> MakeRankPrograms(
    const Module& module) {
  std::vector<std::unique_ptr<Module>> programs;
  for (int64_t rank = 0; rank < module.mesh().num_ranks(); ++rank) {
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> program,
                        LocalizeForRank(module, rank));
    programs.push_back(std::move(program));
  }
  TP_RETURN_IF_ERROR(CheckSameSchedules(programs));
  return programs;
}

}  // namespace tp
