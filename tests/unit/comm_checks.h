// Collective calls that check themselves against the reference, for the tests
// of communicators. Ranks may be processes: a rank tells what it found only by
// its status, and ranks share nothing but what was captured before they
// started.
#ifndef TP_TESTS_UNIT_COMM_CHECKS_H_
#define TP_TESTS_UNIT_COMM_CHECKS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ir/status.h"
#include "runtime/comm/communicator.h"
#include "tests/unit/comm_reference.h"

namespace tp {

// Runs `body` once per rank, in a fresh world with the given timeout, and
// returns what each returned, in rank order.
using RankBody = std::function<absl::Status(Communicator&)>;
struct CommBackend {
  const char* name;
  std::vector<absl::Status> (*run)(int world_size, absl::Duration timeout,
                                   const RankBody& body);
  // Divides the number of repetitions, for slow backends and sanitizers.
  int slowness = 1;
};

// A site with the next index. Every rank makes the same calls.
class Sites {
 public:
  CallSite Next() { return {{}, {}, {}, index_++}; }

 private:
  int64_t index_ = 0;
};

inline absl::Status Differs(const Communicator& comm, std::string what) {
  return absl::DataLossError(absl::StrCat("wrong result on rank ", comm.rank(),
                                          " of ", comm.size(), ": ", what));
}

// A buffer that shows writes outside [0, size): guard bytes on both sides. The
// data starts `misalignment` bytes after a multiple of 64.
class GuardedBuffer {
 public:
  GuardedBuffer(size_t size, size_t misalignment)
      : size_(size),
        storage_(size + 3 * kGuard, kFill),
        offset_(kGuard + misalignment +
                (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64) {
  }
  std::byte* data() { return storage_.data() + offset_; }
  void Set(const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), data());
  }
  bool Holds(const Bytes& expected) const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      const bool inside = i >= offset_ && i < offset_ + size_;
      if (storage_[i] != (inside ? expected[i - offset_] : kFill)) return false;
    }
    return expected.size() == size_;
  }

 private:
  static constexpr size_t kGuard = 128;
  static constexpr std::byte kFill{0xa5};
  size_t size_;
  Bytes storage_;
  size_t offset_;
};

// The i-th rank's input of a case.
inline std::vector<Bytes> InputsOfAllRanks(int size, CommDType dtype,
                                           int64_t count, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < size; ++rank) {
    inputs.push_back(RandomElements(dtype, count, seed * 64 + rank));
  }
  return inputs;
}

// Each Check function below makes one call and compares this rank's result
// with the reference, bit by bit: the reference is the same on all ranks, so
// all ranks hold the same bits.

inline absl::Status CheckAllReduce(Communicator& comm, Sites& sites,
                                   CommDType dtype, ReduceOp op, int64_t count,
                                   bool in_place, size_t misalignment) {
  const std::vector<Bytes> inputs =
      InputsOfAllRanks(comm.size(), dtype, count, 7 * count + 1);
  const Bytes& mine = inputs[comm.rank()];
  GuardedBuffer in(mine.size(), misalignment);
  GuardedBuffer out(mine.size(), 0);
  in.Set(mine);
  GuardedBuffer& result = in_place ? in : out;
  TP_RETURN_IF_ERROR(
      comm.AllReduce(in.data(), result.data(), count, dtype, op, sites.Next()));
  if (!in_place && !in.Holds(mine)) {
    return Differs(comm, "all_reduce changed its input");
  }
  if (result.Holds(ReduceReference(dtype, op, inputs))) {
    return absl::OkStatus();
  }
  return Differs(comm, absl::StrCat("all_reduce ", std::string(Name(op)), " ",
                                    std::string(Name(dtype)), "[", count, "]"));
}

// The layouts that gathers and scatters are tried with.
struct ShardCase {
  int64_t outer, factor, inner;
};
inline constexpr ShardCase kShardCases[] = {
    {1, 7, 3},   {2, 5, 1},   {3, 2, 4},    {4, 0, 3},  {0, 3, 2},
    {5, 8, 0},   {1, 64, 33}, {5, 3, 300},  {1, 1, 1},  {700, 6, 1},
    {31, 16, 8}, {1, 9, 700}, {3, 17, 129}, {200, 9, 2}};

// Uneven on purpose, with empty parts: rank r weighs (3r + seed) mod 4.
inline std::vector<int64_t> WeightedExtents(int64_t factor, int size,
                                            int seed) {
  std::vector<int64_t> extents(size, 0);
  int64_t left = factor;
  for (int rank = 0; rank + 1 < size; ++rank) {
    extents[rank] = std::min<int64_t>(left, (3 * rank + seed) % 4 * factor / 5);
    left -= extents[rank];
  }
  extents[size - 1] = left;
  return extents;
}

inline std::string ShardText(const char* op, const ShardCase& shard,
                             CommDType dtype, bool weighted) {
  return absl::StrCat(op, " ", std::string(Name(dtype)), "[", shard.outer, ",(",
                      shard.factor, "),", shard.inner, "]",
                      weighted ? " weighted" : "");
}

inline int64_t OffsetOf(const std::vector<int64_t>& extents, int rank) {
  int64_t offset = 0;
  for (int r = 0; r < rank; ++r) offset += extents[r];
  return offset;
}

inline absl::Status CheckAllGather(Communicator& comm, Sites& sites,
                                   const ShardCase& shard, CommDType dtype,
                                   bool weighted, bool in_place) {
  const std::vector<int64_t> extents =
      weighted ? WeightedExtents(shard.factor, comm.size(), 1)
               : DefaultExtents(shard.factor, comm.size());
  const int64_t count = shard.outer * shard.factor * shard.inner;
  const int64_t element_bytes = ByteSize(dtype);
  const Bytes expected = RandomElements(dtype, count, count + 3);
  const Bytes local = ShardReference(expected, shard.outer, shard.inner,
                                     element_bytes, extents, comm.rank());
  GuardedBuffer in(local.size(), element_bytes);
  GuardedBuffer out(expected.size(), 0);
  in.Set(local);
  const std::byte* from = in.data();
  if (in_place) {
    std::byte* mine = out.data() + OffsetOf(extents, comm.rank()) *
                                       shard.inner * element_bytes;
    std::copy(local.begin(), local.end(), mine);
    from = mine;
  }
  ShardLayout layout{shard.outer, shard.factor, shard.inner, {}};
  if (weighted) layout.extents = extents;
  TP_RETURN_IF_ERROR(
      comm.AllGather(layout, from, out.data(), dtype, sites.Next()));
  if (out.Holds(expected) && in.Holds(local)) return absl::OkStatus();
  return Differs(comm, ShardText("all_gather", shard, dtype, weighted));
}

inline absl::Status CheckReduceScatter(Communicator& comm, Sites& sites,
                                       const ShardCase& shard, CommDType dtype,
                                       ReduceOp op, bool weighted,
                                       bool in_place) {
  const std::vector<int64_t> extents =
      weighted ? WeightedExtents(shard.factor, comm.size(), 2)
               : DefaultExtents(shard.factor, comm.size());
  const int64_t count = shard.outer * shard.factor * shard.inner;
  const int64_t element_bytes = ByteSize(dtype);
  const std::vector<Bytes> inputs =
      InputsOfAllRanks(comm.size(), dtype, count, 5 * count + 2);
  const Bytes expected =
      ShardReference(ReduceReference(dtype, op, inputs), shard.outer,
                     shard.inner, element_bytes, extents, comm.rank());
  GuardedBuffer in(inputs[0].size(), 0);
  GuardedBuffer out(expected.size(), element_bytes);
  in.Set(inputs[comm.rank()]);
  std::byte* to = out.data();
  std::byte* const mine =
      in.data() + OffsetOf(extents, comm.rank()) * shard.inner * element_bytes;
  if (in_place) to = mine;
  ShardLayout layout{shard.outer, shard.factor, shard.inner, {}};
  if (weighted) layout.extents = extents;
  TP_RETURN_IF_ERROR(
      comm.ReduceScatter(layout, in.data(), to, dtype, op, sites.Next()));
  const bool right = in_place
                         ? std::equal(expected.begin(), expected.end(), mine)
                         : out.Holds(expected) && in.Holds(inputs[comm.rank()]);
  if (right) return absl::OkStatus();
  return Differs(comm, ShardText("reduce_scatter", shard, dtype, weighted));
}

struct AllToAllCase {
  int64_t outer, first, middle, second, inner;
};
inline constexpr AllToAllCase kAllToAllCases[] = {
    {1, 4, 1, 6, 1},    {2, 5, 3, 7, 2},  {3, 2, 1, 9, 5},   {1, 1, 1, 1, 1},
    {1, 0, 2, 3, 1},    {0, 3, 1, 4, 2},  {2, 3, 0, 4, 2},   {1, 12, 4, 8, 64},
    {4, 33, 1, 17, 16}, {3, 8, 5, 11, 1}, {1, 100, 1, 3, 40}};

inline absl::Status CheckAllToAll(Communicator& comm, Sites& sites,
                                  const AllToAllCase& sizes, CommDType dtype,
                                  AllToAllDirection direction, bool weighted) {
  const auto extents_of = [&](int64_t factor, int seed) {
    return weighted ? WeightedExtents(factor, comm.size(), seed)
                    : DefaultExtents(factor, comm.size());
  };
  const std::vector<int64_t> first = extents_of(sizes.first, 1);
  const std::vector<int64_t> second = extents_of(sizes.second, 2);
  const int64_t element_bytes = ByteSize(dtype);
  const Bytes global = RandomElements(
      dtype,
      sizes.outer * sizes.first * sizes.middle * sizes.second * sizes.inner,
      99);
  const Bytes on_first = ShardReference(
      global, sizes.outer, sizes.middle * sizes.second * sizes.inner,
      element_bytes, first, comm.rank());
  const Bytes on_second =
      ShardReference(global, sizes.outer * sizes.first * sizes.middle,
                     sizes.inner, element_bytes, second, comm.rank());
  const bool forward = direction == AllToAllDirection::kFirstToSecond;
  const Bytes& before = forward ? on_first : on_second;
  const Bytes& after = forward ? on_second : on_first;
  GuardedBuffer in(before.size(), element_bytes);
  GuardedBuffer out(after.size(), 0);
  in.Set(before);
  AllToAllLayout layout{sizes.outer, sizes.first, sizes.middle, sizes.second,
                        sizes.inner, direction,   {},           {}};
  if (weighted) {
    layout.first_extents = first;
    layout.second_extents = second;
  }
  TP_RETURN_IF_ERROR(
      comm.AllToAll(layout, in.data(), out.data(), dtype, sites.Next()));
  if (out.Holds(after) && in.Holds(before)) return absl::OkStatus();
  return Differs(
      comm, absl::StrCat("all_to_all [", sizes.outer, ",(", sizes.first, "),",
                         sizes.middle, ",(", sizes.second, "),", sizes.inner,
                         "] ", forward ? "forward" : "back"));
}

inline absl::Status CheckBroadcast(Communicator& comm, Sites& sites,
                                   int64_t bytes, int root) {
  GuardedBuffer data(bytes, 3);
  data.Set(RandomElements(CommDType::kU8, bytes, comm.rank()));
  TP_RETURN_IF_ERROR(comm.Broadcast(data.data(), bytes, root, sites.Next()));
  if (data.Holds(RandomElements(CommDType::kU8, bytes, root))) {
    return absl::OkStatus();
  }
  return Differs(comm, absl::StrCat("broadcast of ", bytes, " from ", root));
}

// One small call of each kind, and one large.
inline absl::Status CheckEveryKind(Communicator& comm, Sites& sites) {
  for (const int64_t count : {5, 3000}) {
    TP_RETURN_IF_ERROR(CheckAllReduce(comm, sites, CommDType::kF32,
                                      ReduceOp::kSum, count, true, 0));
    const ShardCase shard = {2, count, 3};
    TP_RETURN_IF_ERROR(
        CheckAllGather(comm, sites, shard, CommDType::kF16, false, false));
    TP_RETURN_IF_ERROR(CheckReduceScatter(comm, sites, shard, CommDType::kF32,
                                          ReduceOp::kSum, true, false));
    TP_RETURN_IF_ERROR(CheckAllToAll(comm, sites, {1, count, 2, 3, 1},
                                     CommDType::kF64,
                                     AllToAllDirection::kFirstToSecond, false));
    TP_RETURN_IF_ERROR(CheckBroadcast(comm, sites, count,
                                      static_cast<int>(count) % comm.size()));
    TP_RETURN_IF_ERROR(comm.Barrier(sites.Next()));
  }
  return absl::OkStatus();
}

// One call of any kind; `random` must be in the same state on all ranks.
inline absl::Status CheckRandomCall(Communicator& comm, Sites& sites,
                                    std::mt19937_64& random) {
  const auto pick = [&random](int64_t below) {
    return static_cast<int64_t>(random() % below);
  };
  const CommDType dtype = kAllCommDTypes[pick(10)];
  const ReduceOp op = kAllReduceOps[pick(3)];
  const bool flag = pick(2) == 1;
  const ShardCase shard = {1 + pick(5), pick(40), 1 + pick(60)};
  switch (pick(6)) {
    case 0:
      return CheckAllReduce(comm, sites, dtype, op, pick(5000), flag, 0);
    case 1:
      return CheckAllGather(comm, sites, shard, dtype, flag, false);
    case 2:
      return CheckReduceScatter(comm, sites, shard, dtype, op, flag, false);
    case 3:
      return CheckAllToAll(
          comm, sites, {1 + shard.outer % 3, shard.factor, 2, shard.inner, 4},
          dtype, AllToAllDirection::kSecondToFirst, flag);
    case 4: {
      const int64_t bytes = pick(6000);
      return CheckBroadcast(comm, sites, bytes,
                            static_cast<int>(pick(comm.size())));
    }
    default:
      return comm.Barrier(sites.Next());
  }
}

}  // namespace tp

#endif  // TP_TESTS_UNIT_COMM_CHECKS_H_
