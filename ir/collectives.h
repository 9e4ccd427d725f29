// The reshard table: the only place that says how a value gets from one
// placement to another, what it moves and what its adjoint is. It prices
// (passes/cost_model) and lowers (passes/lower_reshards) reshards.
#ifndef TP_IR_COLLECTIVES_H_
#define TP_IR_COLLECTIVES_H_

#include <string>

#include "absl/status/statusor.h"
#include "ir/placement.h"
#include "ir/type.h"

namespace tp {

enum class CollectiveKind : uint8_t {
  kNone,           // nothing to do
  kSlice,          // local: keep the own part
  kAllReduce,      // Partial -> Replicate
  kAllGather,      // Shard -> Replicate
  kReduceScatter,  // Partial -> Shard
  kAllToAll,       // Shard -> another Shard
  kBroadcast,      // Replicate -> Replicate: the first rank's word counts
  kImpossible,     // anything -> Partial
};

// "tp.all_reduce", ...; "" for kNone.
std::string OpNameOf(CollectiveKind kind);

// The step that takes a value from one placement to another on one axis.
CollectiveKind Transition(const Placement& from, const Placement& to,
                          int64_t axis_size);

// Whether ranks talk to each other.
bool Communicates(CollectiveKind kind);

// Bytes that leave one rank (the largest), for a whole tensor of that many
// bytes: all_gather and reduce_scatter B(n-1)/n, all_reduce twice that,
// all_to_all B(n-1)/n^2, broadcast B(n-1)/n.
double BytesMoved(CollectiveKind kind, double whole_bytes, int64_t axis_size);

// What a gradient goes through where the value went through `kind`.
CollectiveKind Adjoint(CollectiveKind kind);

}  // namespace tp

#endif  // TP_IR_COLLECTIVES_H_
