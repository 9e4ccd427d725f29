// Propagation: which placements come into question at all.
//
// Starting from every factor of every op, a placement of a value is a split
// of its producer and of each consumer wherever their rules allow it, which
// places their other operands and results in turn, to a fixed point. What
// results are families of splits that fit together without communication
// (column-split, heads, row-split). Of these an axis called "dp" keeps those
// that split the first dim of an input, the batch; any other axis those that
// reach a parameter, since splitting a batch saves no weights. Sums that are
// due (Partial) are then followed through linear ops.
#ifndef TP_PASSES_CANDIDATES_H_
#define TP_PASSES_CANDIDATES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "passes/strategy.h"

namespace tp {

// The axis that splits the batch.
inline constexpr char kBatchAxis[] = "dp";

struct OpCandidates {
  const Op* op = nullptr;
  OpRule rule;
  std::vector<Strategy> strategies;  // the first one replicates
};

struct Candidates {
  std::vector<OpCandidates> ops;  // in program order
  llvm::DenseMap<const Op*, int> index_of;
  // Per argument of the function: placements at rest. Inputs: Replicate only;
  // a pinned weight: that one only.
  std::vector<std::vector<Placement>> arguments;
};

// `pinned`: arguments whose spec is the user's; others' specs are what the
// search decided on other axes.
absl::StatusOr<Candidates> FindCandidates(
    const Module& module, const Function& function, int axis,
    const llvm::DenseSet<const Value*>& pinned);

}  // namespace tp

#endif  // TP_PASSES_CANDIDATES_H_
