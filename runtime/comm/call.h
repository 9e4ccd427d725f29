// A collective call as one rank publishes it: what the other ranks need to
// take part, to check that all agree, and to say so when they do not.
#ifndef TP_RUNTIME_COMM_CALL_H_
#define TP_RUNTIME_COMM_CALL_H_

#include <cstdint>
#include <string>

#include "runtime/comm/communicator.h"

namespace tp {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kBarrier,
};

// Unused fields keep their defaults, so that calls compare field by field.
struct Call {
  CollectiveKind kind = CollectiveKind::kBarrier;
  CommDType dtype = CommDType::kU8;
  ReduceOp op = ReduceOp::kSum;
  AllToAllDirection direction = AllToAllDirection::kFirstToSecond;
  int32_t root = 0;
  int64_t index = 0;  // CallSite::index
  // all_reduce, broadcast: [count]; all_gather, reduce_scatter: [outer, factor,
  // inner]; all_to_all: [outer, first, middle, second, inner].
  int64_t sizes[5] = {};
  uint64_t extents = 0;  // Fingerprint of explicit extents, else 0.

  friend bool operator==(const Call&, const Call&) = default;
};

// "all_reduce sum f32[4096]", "all_gather f16[2, (3), 64]": the sharded factor
// in parentheses.
std::string CallToString(const Call& call);

// CallToString plus what the site adds, as far as it is known:
// "tp.all_reduce sum f32[4096] (collective 12, in block.0.mlp, at mlp.py:12)".
std::string CallToString(const Call& call, const CallSite& site);

}  // namespace tp

#endif  // TP_RUNTIME_COMM_CALL_H_
