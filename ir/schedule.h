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

// A step of a schedule: a call, or a choice between schedules, or one repeated.
// Nothing is said where nothing communicates.
struct ScheduleStep {
  enum class Kind : uint8_t { kCall, kIf, kLoop };
  Kind kind = Kind::kCall;
  CollectiveCall call;
  // kIf: one or the other; kLoop: over and over.
  std::vector<std::vector<ScheduleStep>> branches;
  // Of a loop: how often at most ("3", "seq", "data"), and whether it may end
  // before ("3?").
  std::string count;

  // One line per call, indented in branches:
  //   loop data? {
  //     all_reduce tp f32[batch,16] sum
  //   }
  std::string ToString(int indent = 0) const;
};
using Schedule = std::vector<ScheduleStep>;

// The collectives of a function in execution order, as a grammar: which branch
// is taken and how often a loop runs is decided while it runs, by values that
// are equal on all ranks. kInvalidArgument names an op with missing or wrong
// attributes.
absl::StatusOr<Schedule> ScheduleOf(const Function& function);

// Whether two ranks of one group on `axis` that take equal decisions meet:
// their calls on the axis are equal, and those on others are of the same kinds
// at the same places (the groups there are others, of perhaps other sizes).
bool SameSchedule(const Schedule& a, const Schedule& b, llvm::StringRef axis);
// How many calls are written in it.
int64_t CountCalls(const Schedule& schedule);

// SHA-256 in hex over the schedules of all functions of all ranks, given in
// rank order.
absl::StatusOr<std::string> HashSchedules(
    llvm::ArrayRef<const Module*> rank_modules);

}  // namespace tp

#endif  // TP_IR_SCHEDULE_H_
