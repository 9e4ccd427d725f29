#include "passes/strategy.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/text.h"

namespace tp {
namespace {

// Splits of a summed factor that could have made Partial results: those that
// operands already lie by, and each such factor split plainly.
void AddReducingSplits(const Op& op, const OpRule& rule, int axis,
                       int64_t axis_size, std::vector<Strategy>& candidates) {
  const auto add = [&](const FactorSharding& split) {
    if (rule.factors[split.factor].kind != FactorKind::kReduce) return;
    candidates.push_back(SplitStrategy(op, rule, split));
  };
  for (int i = 0; i < op.num_operands(); ++i) {
    if (op.operand(i) == nullptr) continue;
    const Placement placement = AxisPlacement(*op.operand(i), axis);
    if (!placement.is_shard()) continue;
    if (auto split = SplitOfOperand(rule, i, placement, axis_size)) add(*split);
  }
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f)
    add(FactorSharding{f, DimFactor{1, rule.factors[f].size, 1}});
}

bool ResultsMatch(const Op& op, const Strategy& strategy, int axis,
                  int64_t axis_size) {
  for (int i = 0; i < op.num_results(); ++i)
    if (!SameLayout(AxisPlacement(*op.result(i), axis), strategy.results[i],
                    axis_size))
      return false;
  return true;
}

}  // namespace

Strategy ReplicateStrategy(const Op& op) {
  Strategy strategy;
  strategy.operands.resize(op.num_operands());
  strategy.results.resize(op.num_results());
  return strategy;
}

Strategy SplitStrategy(const Op& op, const OpRule& rule,
                       const FactorSharding& split) {
  Strategy strategy = ReplicateStrategy(op);
  strategy.kind = Strategy::Kind::kSplit;
  strategy.split = split;
  for (int i = 0; i < op.num_operands(); ++i)
    if (op.operand(i) != nullptr)
      strategy.operands[i] = OperandPlacement(rule, rule.operands[i], split);
  for (int i = 0; i < op.num_results(); ++i)
    strategy.results[i] = ResultPlacement(rule, rule.results[i], split);
  return strategy;
}

Strategy PartialStrategy(const Op& op, llvm::ArrayRef<int> operands) {
  Strategy strategy = ReplicateStrategy(op);
  strategy.kind = Strategy::Kind::kPartial;
  for (int operand : operands)
    strategy.operands[operand] = Placement::Partial();
  for (Placement& result : strategy.results) result = Placement::Partial();
  return strategy;
}

bool IsExtreme(const Placement& placement) {
  return placement.is_partial() && placement.reduce() != ReduceKind::kSum;
}

bool SameStrategy(const Strategy& a, const Strategy& b, int64_t axis_size) {
  for (size_t i = 0; i < a.operands.size(); ++i)
    if (!SameLayout(a.operands[i], b.operands[i], axis_size)) return false;
  for (size_t i = 0; i < a.results.size(); ++i)
    if (!SameLayout(a.results[i], b.results[i], axis_size)) return false;
  return true;
}

std::optional<FactorSharding> SplitOfOperand(const OpRule& rule, int operand,
                                             const Placement& placement,
                                             int64_t axis_size) {
  return ToFactorSharding(rule, rule.operands[operand], placement, axis_size);
}

std::optional<FactorSharding> SplitOfResult(const OpRule& rule, int result,
                                            const Placement& placement,
                                            int64_t axis_size) {
  return ToFactorSharding(rule, rule.results[result], placement, axis_size);
}

double StrategyMicroseconds(const CostModel& cost, const Op& op,
                            const Strategy& strategy, int64_t axis_size,
                            const Assumptions& assumptions) {
  double share = 1;
  if (strategy.kind == Strategy::Kind::kSplit)
    share = LargestShare(strategy.split.within.size, axis_size, assumptions);
  double bytes = 0;
  const auto add = [&](const Value& value, const Placement& placement) {
    bytes += HintBytes(value.type(), assumptions) *
             (placement.is_shard() ? share : 1);
  };
  for (int i = 0; i < op.num_operands(); ++i)
    if (op.operand(i) != nullptr) add(*op.operand(i), strategy.operands[i]);
  for (int i = 0; i < op.num_results(); ++i)
    add(*op.result(i), strategy.results[i]);
  return OpMicroseconds(cost, op, share, bytes, assumptions);
}

absl::StatusOr<Strategy> DeriveStrategy(const Op& op, const OpRule& rule,
                                        const Module& module, int axis,
                                        const CostModel& cost) {
  const int64_t axis_size = module.mesh().axis(axis).size;
  std::vector<Strategy> candidates = {ReplicateStrategy(op)};
  for (int i = 0; i < op.num_results(); ++i) {
    const Placement placement = AxisPlacement(*op.result(i), axis);
    if (!placement.is_shard()) continue;
    if (auto split = SplitOfResult(rule, i, placement, axis_size))
      candidates.push_back(SplitStrategy(op, rule, *split));
    break;
  }
  AddReducingSplits(op, rule, axis, axis_size, candidates);
  for (const auto& operands : rule.partial)
    candidates.push_back(PartialStrategy(op, operands));

  const Strategy* best = nullptr;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const Strategy& candidate : candidates) {
    if (!ResultsMatch(op, candidate, axis, axis_size)) continue;
    double sum = 0;
    for (int i = 0; i < op.num_operands(); ++i) {
      if (op.operand(i) == nullptr) continue;
      sum += ReshardMicroseconds(
          cost, op.operand(i)->type(), AxisPlacement(*op.operand(i), axis),
          candidate.operands[i], axis_size, module.assumptions());
    }
    if (sum < best_cost) {
      best_cost = sum;
      best = &candidate;
    }
  }
  if (best == nullptr)
    return absl::InternalError(
        absl::StrCat("no strategy of the rule \"", rule.ToString(),
                     "\" gives these placements: ", Print(op)));
  return *best;
}

}  // namespace tp
