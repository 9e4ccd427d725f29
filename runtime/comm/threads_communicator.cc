#include "runtime/comm/threads_communicator.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "runtime/comm/call.h"
#include "runtime/comm/part.h"
#include "runtime/comm/reduce_kernels.h"
#include "runtime/comm/threads_group.h"

namespace tp {
namespace {

constexpr int kMaxWorldSize = 1024;
// all_reduce slices start on whole cache lines, so that two ranks never write
// to one line if the buffers are aligned.
constexpr int64_t kSliceAlignment = 64;
// Interleaved rows from several ranks are copied in blocks of about this many
// bytes, so that a line is completed while it is in the cache.
constexpr int64_t kCopyBlockBytes = 128 << 10;

template <class T>
using PerRank = absl::InlinedVector<T, 8>;

// True if the buffers overlap and are not the same.
bool PartlyOverlap(const void* a, int64_t a_bytes, const void* b,
                   int64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_begin != b_begin && a_bytes > 0 && b_bytes > 0 &&
         a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

// What all_gather and reduce_scatter have in common: this rank's shard and
// the whole it is a part of.
struct ShardCall {
  Call call;
  Part mine;
  int64_t inner_bytes = 0;
  int64_t shard_bytes = 0;
  int64_t whole_bytes = 0;
  bool in_place = false;  // the shard is this rank's part of the whole
};

class ThreadsCommunicator : public Communicator {
 public:
  ThreadsCommunicator(std::shared_ptr<ThreadsWorld> world, ThreadsGroup* group,
                      int rank)
      : world_(std::move(world)), group_(group), rank_(rank) {}
  ~ThreadsCommunicator() override { group_->MarkLeft(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  absl::Status AllReduce(const void* in, void* out, int64_t count,
                         CommDType dtype, ReduceOp op,
                         const CallSite& site) override;
  absl::Status AllGather(const ShardLayout& layout, const void* local,
                         void* global, CommDType dtype,
                         const CallSite& site) override;
  absl::Status ReduceScatter(const ShardLayout& layout,
                             const void* partial_global, void* local,
                             CommDType dtype, ReduceOp op,
                             const CallSite& site) override;
  absl::Status AllToAll(const AllToAllLayout& layout, const void* local_in,
                        void* local_out, CommDType dtype,
                        const CallSite& site) override;
  absl::Status Broadcast(void* data, int64_t bytes, int root,
                         const CallSite& site) override;
  absl::Status Barrier(const CallSite& site) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeSubgroup(
      absl::Span<const int> ranks) override;
  void Abort(absl::Status why) override;

 private:
  const std::byte* In(int peer) const { return group_->In(peer, round_); }
  absl::Status Refuse(const Call& call, const CallSite& site,
                      const absl::Status& why);
  absl::StatusOr<ShardCall> MakeShardCall(Call call, const ShardLayout& layout,
                                          const void* shard, const void* whole,
                                          const CallSite& site);
  absl::Status Enter(const Call& call, const CallSite& site,
                     const RoundBuffers& buffers) {
    return group_->Enter(rank_, round_, call, site, buffers);
  }
  absl::Status Leave(const Call& call, const CallSite& site,
                     ThreadsGroup::WaitFor wait) {
    return group_->Leave(rank_, round_++, call, site, wait);
  }
  static ThreadsGroup::WaitFor WaitAfter(const RoundBuffers& buffers) {
    return buffers.staged ? ThreadsGroup::WaitFor::kNobody
                          : ThreadsGroup::WaitFor::kOthers;
  }

  const std::shared_ptr<ThreadsWorld> world_;
  ThreadsGroup* const group_;
  const int rank_;
  uint64_t round_ = 0;
};

absl::Status ThreadsCommunicator::AllReduce(const void* in, void* out,
                                            int64_t count, CommDType dtype,
                                            ReduceOp op, const CallSite& site) {
  const int64_t element_bytes = ByteSize(dtype);
  Call call;
  call.kind = CollectiveKind::kAllReduce;
  call.dtype = dtype;
  call.op = op;
  call.index = site.index;
  call.sizes[0] = count;
  int64_t bytes = 0;
  absl::Status status = CheckedProduct({count, element_bytes}, &bytes);
  if (status.ok() && bytes > 0 && (in == nullptr || out == nullptr)) {
    status = absl::InvalidArgumentError("a buffer is null");
  }
  if (status.ok() && PartlyOverlap(in, bytes, out, bytes)) {
    status = absl::InvalidArgumentError("in and out overlap without being one");
  }
  if (!status.ok()) return Refuse(call, site, status);

  const RoundBuffers buffers = {in, bytes, out, bytes,
                                bytes <= kMaxStagedBytes};
  TP_RETURN_IF_ERROR(Enter(call, site, buffers));
  // Staged: every rank reduces everything for itself. Otherwise every rank
  // reduces its slice and writes it to all ranks' outputs.
  int64_t begin = 0;
  int64_t end = count;
  if (!buffers.staged) {
    const int64_t unit = kSliceAlignment / element_bytes;
    const Part part = PartOf((count + unit - 1) / unit, {}, rank_, size());
    begin = std::min(part.offset * unit, count);
    end = std::min((part.offset + part.extent) * unit, count);
  }
  if (end > begin) {
    PerRank<const std::byte*> sources(size());
    PerRank<std::byte*> targets;
    for (int peer = 0; peer < size(); ++peer) {
      sources[peer] = In(peer) + begin * element_bytes;
      if (buffers.staged && peer != rank_) continue;
      targets.push_back(group_->Out(peer, round_) + begin * element_bytes);
    }
    FindReduceKernel(dtype, op)(sources, absl::MakeSpan(targets), end - begin);
  }
  return Leave(call, site, WaitAfter(buffers));
}

// `call` says kind, dtype and reduction. Refuses bad arguments, which ends
// the world.
absl::StatusOr<ShardCall> ThreadsCommunicator::MakeShardCall(
    Call call, const ShardLayout& layout, const void* shard, const void* whole,
    const CallSite& site) {
  ShardCall result;
  const int64_t element_bytes = ByteSize(call.dtype);
  call.index = site.index;
  call.sizes[0] = layout.outer;
  call.sizes[1] = layout.factor;
  call.sizes[2] = layout.inner;
  absl::Status status =
      CheckedProduct({layout.outer, layout.factor, layout.inner, element_bytes},
                     &result.whole_bytes);
  if (status.ok()) status = CheckExtents(layout.factor, layout.extents, size());
  if (!status.ok()) return Refuse(call, site, status);
  call.extents = ExtentsFingerprint(layout.factor, layout.extents, size());
  result.mine = PartOf(layout.factor, layout.extents, rank_, size());
  result.inner_bytes = layout.inner * element_bytes;
  result.shard_bytes = layout.outer * result.mine.extent * result.inner_bytes;
  const std::byte* const my_place = static_cast<const std::byte*>(whole) +
                                    result.mine.offset * result.inner_bytes;
  result.in_place = layout.outer == 1 && shard == my_place;
  if ((result.whole_bytes > 0 && whole == nullptr) ||
      (result.shard_bytes > 0 && shard == nullptr)) {
    status = absl::InvalidArgumentError("a buffer is null");
  } else if (!result.in_place && result.shard_bytes > 0 &&
             (shard == whole || PartlyOverlap(shard, result.shard_bytes, whole,
                                              result.whole_bytes))) {
    status = absl::InvalidArgumentError(
        "the shard overlaps the whole and is not this rank's part of it");
  }
  if (!status.ok()) return Refuse(call, site, status);
  result.call = call;
  return result;
}

absl::Status ThreadsCommunicator::AllGather(const ShardLayout& layout,
                                            const void* local, void* global,
                                            CommDType dtype,
                                            const CallSite& site) {
  Call call;
  call.kind = CollectiveKind::kAllGather;
  call.dtype = dtype;
  TP_ASSIGN_OR_RETURN(const ShardCall shard,
                      MakeShardCall(call, layout, local, global, site));
  call = shard.call;
  const int64_t inner_bytes = shard.inner_bytes;
  const int64_t largest = LargestExtent(layout.factor, layout.extents, size()) *
                          layout.outer * inner_bytes;
  const RoundBuffers buffers = {local, shard.shard_bytes, global,
                                shard.whole_bytes, largest <= kMaxStagedBytes};
  TP_RETURN_IF_ERROR(Enter(call, site, buffers));
  const int64_t row_bytes = layout.factor * inner_bytes;
  const int64_t block_rows =
      std::max<int64_t>(1, kCopyBlockBytes / std::max<int64_t>(1, row_bytes));
  std::byte* const to = static_cast<std::byte*>(global);
  for (int64_t row = 0; shard.whole_bytes > 0 && row < layout.outer;
       row += block_rows) {
    const int64_t rows = std::min(block_rows, layout.outer - row);
    for (int i = 0; i < size(); ++i) {
      const int peer = (rank_ + i) % size();
      if (peer == rank_ && shard.in_place) continue;
      const Part part = PartOf(layout.factor, layout.extents, peer, size());
      const int64_t part_bytes = part.extent * inner_bytes;
      CopyRows(to + row * row_bytes + part.offset * inner_bytes, row_bytes,
               In(peer) + row * part_bytes, part_bytes, part_bytes, rows);
    }
  }
  return Leave(call, site, WaitAfter(buffers));
}

absl::Status ThreadsCommunicator::ReduceScatter(const ShardLayout& layout,
                                                const void* partial_global,
                                                void* local, CommDType dtype,
                                                ReduceOp op,
                                                const CallSite& site) {
  Call call;
  call.kind = CollectiveKind::kReduceScatter;
  call.dtype = dtype;
  call.op = op;
  TP_ASSIGN_OR_RETURN(const ShardCall shard,
                      MakeShardCall(call, layout, local, partial_global, site));
  call = shard.call;
  const Part mine = shard.mine;
  const int64_t inner_bytes = shard.inner_bytes;
  const int64_t part_bytes = mine.extent * inner_bytes;

  const RoundBuffers buffers = {partial_global, shard.whole_bytes, local,
                                shard.shard_bytes,
                                shard.whole_bytes <= kMaxStagedBytes};
  TP_RETURN_IF_ERROR(Enter(call, site, buffers));
  if (shard.shard_bytes > 0) {
    const ReduceKernel reduce = FindReduceKernel(dtype, op);
    const int64_t row_bytes = layout.factor * inner_bytes;
    PerRank<const std::byte*> sources(size());
    for (int64_t row = 0; row < layout.outer; ++row) {
      for (int peer = 0; peer < size(); ++peer) {
        sources[peer] = In(peer) + row * row_bytes + mine.offset * inner_bytes;
      }
      std::byte* const to = static_cast<std::byte*>(local) + row * part_bytes;
      reduce(sources, {&to, 1}, mine.extent * layout.inner);
    }
  }
  return Leave(call, site, WaitAfter(buffers));
}

absl::Status ThreadsCommunicator::AllToAll(const AllToAllLayout& layout,
                                           const void* local_in,
                                           void* local_out, CommDType dtype,
                                           const CallSite& site) {
  const bool forward = layout.direction == AllToAllDirection::kFirstToSecond;
  Call call;
  call.kind = CollectiveKind::kAllToAll;
  call.dtype = dtype;
  call.direction = layout.direction;
  call.index = site.index;
  call.sizes[0] = layout.outer;
  call.sizes[1] = layout.first;
  call.sizes[2] = layout.middle;
  call.sizes[3] = layout.second;
  call.sizes[4] = layout.inner;
  int64_t bytes = 0;
  absl::Status status =
      CheckedProduct({layout.outer, layout.first, layout.middle, layout.second,
                      layout.inner, ByteSize(dtype)},
                     &bytes);
  if (status.ok()) {
    status = CheckExtents(layout.first, layout.first_extents, size());
  }
  if (status.ok()) {
    status = CheckExtents(layout.second, layout.second_extents, size());
  }
  if (!status.ok()) return Refuse(call, site, status);
  call.extents =
      ExtentsFingerprint(layout.first, layout.first_extents, size()) * 31 +
      ExtentsFingerprint(layout.second, layout.second_extents, size());
  const auto first_part = [&](int peer) {
    return PartOf(layout.first, layout.first_extents, peer, size());
  };
  const auto second_part = [&](int peer) {
    return PartOf(layout.second, layout.second_extents, peer, size());
  };
  const int64_t inner_bytes = layout.inner * ByteSize(dtype);
  const int64_t rest_bytes = layout.outer * layout.middle * inner_bytes;
  const int64_t first_bytes =  // Of a buffer that is sharded on `first`.
      rest_bytes * first_part(rank_).extent * layout.second;
  const int64_t second_bytes =
      rest_bytes * layout.first * second_part(rank_).extent;
  const int64_t in_bytes = forward ? first_bytes : second_bytes;
  const int64_t out_bytes = forward ? second_bytes : first_bytes;
  if ((in_bytes > 0 && local_in == nullptr) ||
      (out_bytes > 0 && local_out == nullptr)) {
    status = absl::InvalidArgumentError("a buffer is null");
  } else if (in_bytes > 0 && out_bytes > 0 &&
             (local_in == local_out ||
              PartlyOverlap(local_in, in_bytes, local_out, out_bytes))) {
    status = absl::InvalidArgumentError("local_in and local_out overlap");
  }
  if (!status.ok()) return Refuse(call, site, status);

  const int64_t largest =
      forward ? rest_bytes * layout.second *
                    LargestExtent(layout.first, layout.first_extents, size())
              : rest_bytes * layout.first *
                    LargestExtent(layout.second, layout.second_extents, size());
  const RoundBuffers buffers = {local_in, in_bytes, local_out, out_bytes,
                                largest <= kMaxStagedBytes};
  TP_RETURN_IF_ERROR(Enter(call, site, buffers));
  const Part my_first = first_part(rank_);
  const Part my_second = second_part(rank_);
  std::byte* const to = static_cast<std::byte*>(local_out);
  for (int i = 0; out_bytes > 0 && i < size(); ++i) {
    const int peer = (rank_ + i) % size();
    // What moves is [outer, first, middle, row]: the peer's indices of the
    // factor its input is sharded on, this rank's of the other.
    const Part first = forward ? first_part(peer) : my_first;
    const Part second = forward ? my_second : second_part(peer);
    const int64_t in_row = (forward ? layout.second : second.extent);
    const int64_t out_row = (forward ? second.extent : layout.second);
    const int64_t in_first = (forward ? first.extent : layout.first);
    const int64_t out_first = (forward ? layout.first : first.extent);
    const int64_t in_first_offset = forward ? 0 : first.offset;
    const int64_t out_first_offset = forward ? first.offset : 0;
    const int64_t in_row_offset = forward ? second.offset : 0;
    const int64_t out_row_offset = forward ? 0 : second.offset;
    for (int64_t outer = 0; outer < layout.outer; ++outer) {
      const int64_t in_index =
          (outer * in_first + in_first_offset) * layout.middle * in_row +
          in_row_offset;
      const int64_t out_index =
          (outer * out_first + out_first_offset) * layout.middle * out_row +
          out_row_offset;
      CopyRows(to + out_index * inner_bytes, out_row * inner_bytes,
               In(peer) + in_index * inner_bytes, in_row * inner_bytes,
               second.extent * inner_bytes, first.extent * layout.middle);
    }
  }
  return Leave(call, site, WaitAfter(buffers));
}

absl::Status ThreadsCommunicator::Broadcast(void* data, int64_t bytes, int root,
                                            const CallSite& site) {
  Call call;
  call.kind = CollectiveKind::kBroadcast;
  call.index = site.index;
  call.root = root;
  call.sizes[0] = bytes;
  absl::Status status;
  if (root < 0 || root >= size()) {
    status = absl::InvalidArgumentError(
        absl::StrCat("there is no rank ", root, " in a group of ", size()));
  } else if (bytes < 0 || (bytes > 0 && data == nullptr)) {
    status = absl::InvalidArgumentError("a negative size or a null buffer");
  }
  if (!status.ok()) return Refuse(call, site, status);

  RoundBuffers buffers;
  buffers.staged = bytes <= kMaxStagedBytes;
  if (rank_ == root) {
    buffers.in = data;
    buffers.in_bytes = bytes;
  } else {
    buffers.out = data;
    buffers.out_bytes = bytes;
  }
  TP_RETURN_IF_ERROR(Enter(call, site, buffers));
  if (rank_ != root && bytes > 0) std::memcpy(data, In(root), bytes);
  ThreadsGroup::WaitFor wait = WaitAfter(buffers);
  if (!buffers.staged && rank_ != root) wait = ThreadsGroup::WaitFor::kSignal;
  return Leave(call, site, wait);
}

absl::Status ThreadsCommunicator::Barrier(const CallSite& site) {
  Call call;
  call.index = site.index;
  RoundBuffers buffers;
  buffers.staged = true;
  TP_RETURN_IF_ERROR(Enter(call, site, buffers));
  return Leave(call, site, WaitAfter(buffers));
}

absl::StatusOr<std::unique_ptr<Communicator>> ThreadsCommunicator::MakeSubgroup(
    absl::Span<const int> ranks) {
  if (world_->aborted()) return world_->status();
  std::vector<int> world_ranks;
  std::vector<bool> seen(size(), false);
  int my_rank = -1;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size() || seen[rank]) {
      return absl::InvalidArgumentError(
          absl::StrCat("subgroup {", absl::StrJoin(ranks, ","),
                       "}: needs distinct ranks of a group of ", size()));
    }
    seen[rank] = true;
    if (rank == rank_) my_rank = static_cast<int>(world_ranks.size());
    world_ranks.push_back(group_->world_ranks()[rank]);
  }
  if (my_rank < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("subgroup {", absl::StrJoin(ranks, ","),
                     "} is asked for by rank ", rank_, ", which is not in it"));
  }
  ThreadsGroup* const group =
      world_->GroupFor(world_ranks, group_->world_ranks()[rank_]);
  return std::make_unique<ThreadsCommunicator>(world_, group, my_rank);
}

void ThreadsCommunicator::Abort(absl::Status why) {
  world_->Abort(std::move(why)).IgnoreError();
}

// A call with bad arguments would leave the other ranks waiting: it ends the
// world.
absl::Status ThreadsCommunicator::Refuse(const Call& call, const CallSite& site,
                                         const absl::Status& why) {
  return world_->Abort(absl::Status(
      why.code(), absl::StrCat(group_->RankName(rank_), ", ",
                               CallToString(call, site), ": ", why.message())));
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>
MakeThreadsCommunicators(int world_size, const ThreadsOptions& options) {
  if (world_size < 1 || world_size > kMaxWorldSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("a world of ", world_size, " ranks; 1 to ", kMaxWorldSize,
                     " are possible"));
  }
  const auto world = std::make_shared<ThreadsWorld>(world_size, options);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(std::make_unique<ThreadsCommunicator>(
        world, world->root_group(), rank));
  }
  return communicators;
}

}  // namespace tp
