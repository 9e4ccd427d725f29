// Strategies: the ways one op can run on one mesh axis.
#ifndef TP_PASSES_STRATEGY_H_
#define TP_PASSES_STRATEGY_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "ir/sharding_rule.h"
#include "ir/value_placement.h"
#include "passes/cost_model.h"

namespace tp {

// What an op needs of each operand and gives as each result on one axis.
struct Strategy {
  enum class Kind : uint8_t {
    kReplicate,  // every rank computes the whole
    kSplit,      // one factor of the rule is split
    kPartial,    // sums that are due pass through
  };
  Kind kind = Kind::kReplicate;
  FactorSharding split;                      // of kSplit
  llvm::SmallVector<Placement, 4> operands;  // one per flattened operand
  llvm::SmallVector<Placement, 1> results;
};

Strategy ReplicateStrategy(const Op& op);
Strategy SplitStrategy(const Op& op, const OpRule& rule,
                       const FactorSharding& split);
// `operands` is one of rule.partial.
Strategy PartialStrategy(const Op& op, llvm::ArrayRef<int> operands);

// Whether a maximum or minimum over the ranks is due.
bool IsExtreme(const Placement& placement);

// Whether both ask and give the same bytes.
bool SameStrategy(const Strategy& a, const Strategy& b, int64_t axis_size);

// The split that a placement of one operand or result of the op means.
std::optional<FactorSharding> SplitOfOperand(const OpRule& rule, int operand,
                                             const Placement& placement,
                                             int64_t axis_size);
std::optional<FactorSharding> SplitOfResult(const OpRule& rule, int result,
                                            const Placement& placement,
                                            int64_t axis_size);

// Microseconds of the op run so on the busiest rank.
double StrategyMicroseconds(const CostModel& cost, const Op& op,
                            const Strategy& strategy, int64_t axis_size,
                            const Assumptions& assumptions);

// The strategy that gives the op's results the placements they have, and of
// several the one whose operands are cheapest to come by. kInternal if the
// rule allows none: a plan must be explained by the rules.
absl::StatusOr<Strategy> DeriveStrategy(const Op& op, const OpRule& rule,
                                        const Module& module, int axis,
                                        const CostModel& cost);

}  // namespace tp

#endif  // TP_PASSES_STRATEGY_H_
