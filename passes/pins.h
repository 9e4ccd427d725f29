// Placements of values that the user's rules state.
//
// A rule on the output of a module says how others see it, one on an input how
// the module does: a value that is pinned passes through an op that holds the
// placement, which whoever is meant uses instead:
//
//   %1 = aten.linear(%x, %w)
//   %2 = aten.alias(%1) {pin = "<R>"}     rule: {name: mlp, of: output, ...}
//   %3 = aten.add(%2, %y)
//
// `place_pins` gives it that placement when the search is done, insert_reshards
// what lies between, and `drop_pins` removes it. A line of a plan says how an
// op leaves its result, and is obeyed by `place_pins` alone.
#ifndef TP_PASSES_PINS_H_
#define TP_PASSES_PINS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/module.h"
#include "ir/user_rules.h"
#include "passes/candidates.h"

namespace tp {

struct PinnedValue {
  Value* value;
  ShardingSpec spec;
  const UserRule* rule;  // null for the op that holds a pin
};

// Puts the ops that hold pins where the rules say. kInvalidArgument for rules
// that name nothing or contradict each other.
absl::Status InsertPins(Module& module, const UserRules& rules);

// All values whose placement is stated: results of ops that hold pins, and
// what the lines of a plan name, in program order.
absl::StatusOr<std::vector<PinnedValue>> PinnedValues(const Module& module,
                                                      const UserRules& rules);

// Leaves of the strategies of each op those that give pinned results as they
// are pinned, adding the split that the pin means where propagation has not
// found it. For the search, after FindCandidates: it then plans around pins
// instead of being corrected afterwards. The first strategy left need not
// replicate.
absl::Status KeepPinned(const Module& module, const UserRules& rules, int axis,
                        Candidates& candidates);

}  // namespace tp

#endif  // TP_PASSES_PINS_H_
