// The collective schedule: what the ranks of a program say to each other, in
// order. Compile proves that all ranks agree on it (passes/check_schedule);
// its hash goes into the manifest and tp-run recomputes it from the programs
// it is about to run.
#ifndef TP_IR_SCHEDULE_H_
#define TP_IR_SCHEDULE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/collectives.h"
#include "ir/module.h"

namespace tp {

// The kind of a tp.* op; kNone for every other op.
CollectiveKind KindOf(const Op& op);

// One call in which ranks talk to each other. All that is here has to be
// equal on the ranks of a group.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kNone;
  std::string axis;
  std::string reduce;  // "sum", ...; "" where nothing is reduced
  DType dtype = DType::kF32;
  // What the group moves as a whole along this axis: the shape of the
  // gathered, or of the not yet scattered tensor.
  Dims dims;
  int dim = -1;  // split dim before (all_gather, all_to_all) or after
  DimFactor factor;
  int to_dim = -1;  // of an all_to_all
  DimFactor to_factor;
  const Op* op = nullptr;  // where it stands; not part of the comparison

  // "all_gather tp f32[batch,seq,96] dim 2 1x[8]x12".
  std::string ToString() const;
};

// Whether two ranks of a group may meet in these calls.
bool SameCall(const CollectiveCall& a, const CollectiveCall& b);

// The collectives of a function in execution order; those of a region stand
// where its op stands. kInvalidArgument names an op with missing or wrong
// attributes.
absl::StatusOr<std::vector<CollectiveCall>> ScheduleOf(
    const Function& function);

// SHA-256 in hex over the schedules of all functions of all ranks, given in
// rank order.
absl::StatusOr<std::string> HashSchedules(
    llvm::ArrayRef<const Module*> rank_modules);

}  // namespace tp

#endif  // TP_IR_SCHEDULE_H_
