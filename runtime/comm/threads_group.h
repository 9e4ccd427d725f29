// How ranks that are threads of one process meet: the state behind the
// `threads` communicator. ThreadsWorld is what all groups share (the abort
// word, options, the groups themselves); ThreadsGroup is one group's posts.
//
// A collective is a round. Each rank posts its call and its pointers, waits
// until all have posted, checks that all posted the same call, moves data, and
// (unless nobody reads its buffers) waits until all have moved theirs:
//
//   rank 0   post 2k+1 | wait all >= 2k+1 | move | 2k+2 | wait all >= 2k+2
//   rank 1      post 2k+1 | wait ...      | move    | 2k+2 | wait ...
//
// Each rank has two posts, for even and odd rounds. A rank may be one round
// ahead of a peer that still reads its post, never two: to enter round k+2 it
// has waited for that peer's post of round k+1. So messages small enough to be
// carried in the post need no second wait.
//
// An odd step means "this rank may touch its peers' buffers". A rank that gives
// up because of an abort first makes its own step even and then waits until
// every peer's is: nobody waits inside the odd part without seeing the abort,
// so that ends soon, and only then may the caller free its buffers. Why no
// rank slips through: a rank stores its odd step before it loads the abort
// word, and the one that gives up has loaded the abort word as set before it
// loads the steps, all sequentially consistent. Either the first sees the
// abort, or the second sees the odd step.
#ifndef TP_RUNTIME_COMM_THREADS_GROUP_H_
#define TP_RUNTIME_COMM_THREADS_GROUP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/comm/call.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/threads_communicator.h"

namespace tp {

class ThreadsGroup;

// Thread-safe.
class ThreadsWorld {
 public:
  ThreadsWorld(int world_size, const ThreadsOptions& options);
  ~ThreadsWorld();

  absl::Duration timeout() const { return timeout_; }
  absl::Duration spin() const { return spin_; }
  void DelayForTests() const {
    if (delay_for_tests_) delay_for_tests_();
  }

  // Sequentially consistent, see above.
  bool aborted() const { return aborted_.load(std::memory_order_seq_cst); }
  // The reason of the first abort; OK if there was none.
  absl::Status status() const;
  // Keeps the first reason, wakes everyone, returns status().
  absl::Status Abort(absl::Status why);

  // The group of all ranks.
  ThreadsGroup* root_group() { return root_group_; }
  // The group that world rank `member` gets when it asks for `world_ranks`: its
  // n-th call with this list gives the same group as every other member's n-th.
  ThreadsGroup* GroupFor(const std::vector<int>& world_ranks, int member);

 private:
  ThreadsGroup* AddGroup(const std::vector<int>& world_ranks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration timeout_;
  absl::Duration spin_;
  const std::function<void()> delay_for_tests_;
  std::atomic<bool> aborted_{false};
  ThreadsGroup* root_group_ = nullptr;

  mutable std::mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<ThreadsGroup>> groups_ ABSL_GUARDED_BY(mutex_);
  struct Requests {
    std::vector<ThreadsGroup*> groups;   // In the order they were asked for.
    std::map<int, size_t> next_of_rank;  // Which one a rank gets next.
  };
  std::map<std::vector<int>, Requests> requests_ ABSL_GUARDED_BY(mutex_);
};

// Messages up to this size are carried in the post.
inline constexpr int64_t kMaxStagedBytes = 2048;

// The buffers one rank brings to a round; sizes in bytes.
struct RoundBuffers {
  const void* in = nullptr;
  int64_t in_bytes = 0;
  void* out = nullptr;
  int64_t out_bytes = 0;
  // Copy `in` into the post, where peers read it, so that the round needs no
  // second wait. At most kMaxStagedBytes; equal on all ranks.
  bool staged = false;
};

// Methods are called by the thread of the rank they name.
class ThreadsGroup {
 public:
  ThreadsGroup(ThreadsWorld* world, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(world_ranks_.size()); }
  const std::vector<int>& world_ranks() const { return world_ranks_; }

  // Posts the call and waits for the same call of every rank. Between an OK
  // Enter and Leave, In and Out give every rank's buffers for this round.
  absl::Status Enter(int rank, uint64_t round, const Call& call,
                     const CallSite& site, const RoundBuffers& buffers);
  const std::byte* In(int rank, uint64_t round) const {
    return static_cast<const std::byte*>(PostOf(rank, round).in);
  }
  std::byte* Out(int rank, uint64_t round) const {
    return static_cast<std::byte*>(PostOf(rank, round).out);
  }
  // Ends the round. kOthers: returns when no rank touches this one's buffers
  // any more; kNobody: none does after Enter; kSignal: as kNobody, but some
  // rank waits for this one.
  enum class WaitFor { kOthers, kNobody, kSignal };
  absl::Status Leave(int rank, uint64_t round, const Call& call,
                     const CallSite& site, WaitFor wait);

  // This rank will not call again.
  void MarkLeft(int rank);
  // Wakes every sleeper, to look at the abort word.
  void WakeAll();

  // "rank 3", by its number in the world.
  std::string RankName(int rank) const;

 private:
  // The first 64 bytes are all that peers read of most calls.
  struct alignas(128) Post {
    std::atomic<uint64_t> step{0};
    const void* in = nullptr;
    void* out = nullptr;
    const CallSite* site = nullptr;
    Call call;
    int64_t in_bytes = 0;
    int64_t out_bytes = 0;
  };
  struct alignas(128) Slot {
    Post posts[2];
    std::atomic<bool> left{false};
    // How long this rank spins next; only its own thread uses it. Least when
    // others wanted the core, then doubling with every wait.
    alignas(128) absl::Duration spin;
    alignas(128) std::byte staged[2][kMaxStagedBytes];
  };

  Post& PostOf(int rank, uint64_t round) const {
    return slots_[rank].posts[round & 1];
  }
  bool AllReached(uint64_t round, uint64_t step) const;
  void Signal(Post& post, uint64_t round, uint64_t step);
  absl::Status WaitForAll(int rank, uint64_t round, uint64_t step,
                          const Call& call, const CallSite& site);
  absl::Status Sleep(int rank, uint64_t round, uint64_t step, const Call& call,
                     const CallSite& site, absl::Duration start);
  absl::Status CheckPosts(int rank, uint64_t round, bool staged) const;
  absl::Status GiveUp(int rank, uint64_t round, absl::Status why);
  absl::Status MissingRanks(int rank, uint64_t round, uint64_t step,
                            const Call& call, const CallSite& site,
                            bool left) const;

  ThreadsWorld* const world_;
  const std::vector<int> world_ranks_;
  const std::unique_ptr<Slot[]> slots_;

  // Sleepers wait for epoch_ to change. A rank counts itself as a sleeper
  // before it looks at the steps a last time; a rank that stores a step looks
  // at the count after. The last to store sees all steps, and wakes all.
  struct alignas(128) Bed {
    std::atomic<uint32_t> epoch{0};
    std::atomic<uint32_t> sleepers{0};
  };
  Bed bed_;
};

}  // namespace tp

#endif  // TP_RUNTIME_COMM_THREADS_GROUP_H_
