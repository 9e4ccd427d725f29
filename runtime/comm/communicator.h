// The seam between the executor and whatever carries bytes between ranks.
//
// This file defines
//   CommDType, ReduceOp     of what elements, and how they are reduced
//   ShardLayout             a sharded dim of a global tensor
//   AllToAllLayout          two sharded dims of one global tensor
//   CallSite                where in the user's model a collective comes from
//   Communicator            one rank's end of a group of ranks
//
// A collective is called by every rank of the group, in the same order, with
// the same arguments apart from the data. A communicator checks that: a
// difference is an error that names both calls, never a wrong number.
//
//   auto ranks = MakeThreadsCommunicators(/*world_size=*/2, {});
//   // On rank r's thread; `ffn` holds this rank's partial sums:
//   status = (*ranks)[r]->AllReduce(ffn, ffn, count, CommDType::kF32,
//                                   ReduceOp::kSum, site);
#ifndef TP_RUNTIME_COMM_COMMUNICATOR_H_
#define TP_RUNTIME_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/dtype.h"

namespace tp {

using CommDType = DType;

// kMax and kMin propagate NaN. Integer sums wrap. On kBool, kSum and kMax are
// "or" and kMin is "and"; any non-zero byte counts as true, results are 0 or 1.
enum class ReduceOp : uint8_t { kSum, kMax, kMin };

// "sum", "max", "min".
std::string_view Name(ReduceOp op);

// A sharded dim. The row-major global tensor is seen as [outer, factor, inner]
// (elements); rank r holds the indices [offset_r, offset_r + extent_r) of
// `factor` for every outer index, as a contiguous [outer, extent_r, inner].
// Without `extents` the first (factor mod size) ranks hold one index more than
// the others. With `extents` (one per rank, summing to factor) they say it.
// Empty parts are legal. The span must live as long as the call.
struct ShardLayout {
  int64_t outer = 1;
  int64_t factor = 0;
  int64_t inner = 1;
  absl::Span<const int64_t> extents = {};
};

// Two sharded dims. The row-major global tensor is seen as
// [outer, first, middle, second, inner]. kFirstToSecond: the input is sharded
// on `first`, the output on `second`; kSecondToFirst: the reverse. Extents as
// in ShardLayout.
enum class AllToAllDirection : uint8_t { kFirstToSecond, kSecondToFirst };
struct AllToAllLayout {
  int64_t outer = 1;
  int64_t first = 0;
  int64_t middle = 1;
  int64_t second = 0;
  int64_t inner = 1;
  AllToAllDirection direction = AllToAllDirection::kFirstToSecond;
  absl::Span<const int64_t> first_extents = {};
  absl::Span<const int64_t> second_extents = {};
};

// Names a call in messages. `index` is the position in the collective schedule
// and must be equal on all ranks of the group. The strings must live as long
// as the call.
struct CallSite {
  std::string_view op = {};      // "tp.all_reduce"
  std::string_view module = {};  // "block.0.mlp"
  std::string_view source = {};  // "mlp.py:12"
  int64_t index = 0;
};

// One rank's end of a group. Used by one thread at a time; only Abort may be
// called from any thread at any time.
//
// Every collective blocks until this rank's buffers may be reused. Results are
// bitwise equal on all ranks and repeatable for a given group size: sums run in
// rank order, f16 and bf16 accumulate in f32 and round once. Zero elements are
// legal, need no pointer and still count as a call of the schedule.
//
// Errors are for good: after the first one in any group of the same world, all
// current and later calls on all its communicators return that status.
//   InvalidArgument     a bad size, pointer or overlap on one rank
//   FailedPrecondition  ranks issued different calls
//   DeadlineExceeded    a rank did not come in time
//   Aborted, others     a rank called Abort, or left the group
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // This rank's index in the group, and the number of ranks in the group.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // out = reduction over all ranks of in; `count` elements each. in == out is
  // allowed, other overlap is not.
  virtual absl::Status AllReduce(const void* in, void* out, int64_t count,
                                 CommDType dtype, ReduceOp op,
                                 const CallSite& site) = 0;

  // local: [outer, extent_r, inner] -> global: [outer, factor, inner]. With
  // outer == 1, `local` may be this rank's part of `global`.
  virtual absl::Status AllGather(const ShardLayout& layout, const void* local,
                                 void* global, CommDType dtype,
                                 const CallSite& site) = 0;

  // partial_global: [outer, factor, inner], one summand per rank ->
  // local: [outer, extent_r, inner], reduced. With outer == 1, `local` may be
  // this rank's part of `partial_global`.
  virtual absl::Status ReduceScatter(const ShardLayout& layout,
                                     const void* partial_global, void* local,
                                     CommDType dtype, ReduceOp op,
                                     const CallSite& site) = 0;

  // local_in: this rank's part on one dim -> local_out: its part on the other.
  // The buffers must not overlap.
  virtual absl::Status AllToAll(const AllToAllLayout& layout,
                                const void* local_in, void* local_out,
                                CommDType dtype, const CallSite& site) = 0;

  // Rank `root`'s bytes into `data` on all ranks.
  virtual absl::Status Broadcast(void* data, int64_t bytes, int root,
                                 const CallSite& site) = 0;

  virtual absl::Status Barrier(const CallSite& site) = 0;

  // A communicator for the given ranks of this group, in that order: the n-th
  // of `ranks` becomes rank n. Called by every rank in `ranks`, and by no
  // other, with the same list; calls with equal lists pair up in order. The
  // new group and this one fail together.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeSubgroup(
      absl::Span<const int> ranks) = 0;

  // Ends this world for everyone. The first reason given wins; an OK `why`
  // becomes Aborted.
  virtual void Abort(absl::Status why) = 0;

 protected:
  Communicator() = default;
};

}  // namespace tp

#endif  // TP_RUNTIME_COMM_COMMUNICATOR_H_
