#include "runtime/comm/threads_group.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tp {
namespace {

constexpr absl::Duration kDefaultSpin = absl::Microseconds(40);
constexpr absl::Duration kLeastSpin = absl::Microseconds(4);
// Waking a sleeper takes tens of microseconds on an idle core. So a wait that
// has spun goes on looking, giving its core away in between, for this many
// times the spin. A yield that takes long shows that others want the core:
// then this wait and the next few sleep early.
constexpr int kYieldFactor = 12;
constexpr absl::Duration kLongYield = absl::Microseconds(20);
// Looks at the steps between two looks at the clock.
constexpr int kSpinsPerClockRead = 64;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
    return CPU_COUNT(&cores);
  }
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

// Time since some fixed moment; setting the wall clock does not move it.
absl::Duration Monotonic() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

// Returns when woken, when `word` is not `expected`, or after `longest`.
void FutexWait(std::atomic<uint32_t>& word, uint32_t expected,
               absl::Duration longest) {
  static_assert(sizeof(word) == 4);
  const timespec timeout = absl::ToTimespec(longest);
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool Overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && a_begin < b_begin + b_bytes &&
         b_begin < a_begin + a_bytes;
}

// Kinds whose call is told by the first size alone leave the rest of the post,
// a second cache line, unwritten and unread.
bool UsesOneSize(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce ||
         kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kBarrier;
}

void PostCall(const Call& call, Call* posted) {
  if (!UsesOneSize(call.kind)) {
    *posted = call;
    return;
  }
  posted->kind = call.kind;
  posted->dtype = call.dtype;
  posted->op = call.op;
  posted->direction = call.direction;
  posted->root = call.root;
  posted->index = call.index;
  posted->sizes[0] = call.sizes[0];
}

bool SameCall(const Call& a, const Call& b) {
  if (a.kind != b.kind || !UsesOneSize(a.kind)) return a == b;
  return a.dtype == b.dtype && a.op == b.op && a.direction == b.direction &&
         a.root == b.root && a.index == b.index && a.sizes[0] == b.sizes[0];
}

}  // namespace

ThreadsWorld::ThreadsWorld(int world_size, const ThreadsOptions& options)
    : timeout_(options.timeout),
      spin_(options.spin),
      delay_for_tests_(options.delay_for_tests) {
  if (spin_ < absl::ZeroDuration()) {
    // A spinning thread would only keep the awaited one from its core.
    spin_ = world_size > UsableCores() ? absl::ZeroDuration() : kDefaultSpin;
  }
  std::vector<int> all(world_size);
  for (int rank = 0; rank < world_size; ++rank) all[rank] = rank;
  std::lock_guard<std::mutex> lock(mutex_);
  root_group_ = AddGroup(all);
}

ThreadsWorld::~ThreadsWorld() = default;

absl::Status ThreadsWorld::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

absl::Status ThreadsWorld::Abort(absl::Status why) {
  if (why.ok()) why = absl::AbortedError("a rank aborted, giving no reason");
  std::lock_guard<std::mutex> lock(mutex_);
  if (!status_.ok()) return status_;
  status_ = std::move(why);
  aborted_.store(true, std::memory_order_seq_cst);
  for (const std::unique_ptr<ThreadsGroup>& group : groups_) group->WakeAll();
  return status_;
}

ThreadsGroup* ThreadsWorld::GroupFor(const std::vector<int>& world_ranks,
                                     int member) {
  std::lock_guard<std::mutex> lock(mutex_);
  Requests& requests = requests_[world_ranks];
  const size_t index = requests.next_of_rank[member]++;
  if (index == requests.groups.size()) {
    requests.groups.push_back(AddGroup(world_ranks));
  }
  return requests.groups[index];
}

ThreadsGroup* ThreadsWorld::AddGroup(const std::vector<int>& world_ranks) {
  groups_.push_back(std::make_unique<ThreadsGroup>(this, world_ranks));
  return groups_.back().get();
}

ThreadsGroup::ThreadsGroup(ThreadsWorld* world, std::vector<int> world_ranks)
    : world_(world),
      world_ranks_(std::move(world_ranks)),
      slots_(std::make_unique<Slot[]>(world_ranks_.size())) {
  for (int rank = 0; rank < size(); ++rank) slots_[rank].spin = world->spin();
}

absl::Status ThreadsGroup::Enter(int rank, uint64_t round, const Call& call,
                                 const CallSite& site,
                                 const RoundBuffers& buffers) {
  if (world_->aborted()) return world_->status();
  Post& post = PostOf(rank, round);
  post.in = buffers.in;
  if (buffers.staged) {
    std::byte* staged = slots_[rank].staged[round & 1];
    if (buffers.in_bytes > 0) {
      std::memcpy(staged, buffers.in, buffers.in_bytes);
    }
    post.in = staged;
  } else {
    post.in_bytes = buffers.in_bytes;
    post.out_bytes = buffers.out_bytes;
  }
  post.out = buffers.out;
  post.site = &site;
  PostCall(call, &post.call);
  const uint64_t step = 2 * round + 1;
  world_->DelayForTests();
  Signal(post, round, step);
  absl::Status status = WaitForAll(rank, round, step, call, site);
  world_->DelayForTests();
  if (status.ok()) status = CheckPosts(rank, round, buffers.staged);
  if (status.ok()) return status;
  return GiveUp(rank, round, std::move(status));
}

absl::Status ThreadsGroup::Leave(int rank, uint64_t round, const Call& call,
                                 const CallSite& site, WaitFor wait) {
  Post& post = PostOf(rank, round);
  const uint64_t step = 2 * round + 2;
  world_->DelayForTests();
  if (wait == WaitFor::kNobody) {
    post.step.store(step, std::memory_order_release);
    return absl::OkStatus();
  }
  Signal(post, round, step);
  if (wait == WaitFor::kSignal) return absl::OkStatus();
  absl::Status status = WaitForAll(rank, round, step, call, site);
  if (status.ok()) return status;
  return GiveUp(rank, round, std::move(status));
}

void ThreadsGroup::MarkLeft(int rank) {
  slots_[rank].left.store(true, std::memory_order_seq_cst);
  WakeAll();
}

void ThreadsGroup::WakeAll() {
  bed_.epoch.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(bed_.epoch);
}

std::string ThreadsGroup::RankName(int rank) const {
  return absl::StrCat("rank ", world_ranks_[rank]);
}

bool ThreadsGroup::AllReached(uint64_t round, uint64_t step) const {
  for (int peer = 0; peer < size(); ++peer) {
    if (PostOf(peer, round).step.load(std::memory_order_seq_cst) < step) {
      return false;
    }
  }
  return true;
}

// Stores `step` and wakes the sleepers if it was the last one missing.
void ThreadsGroup::Signal(Post& post, uint64_t round, uint64_t step) {
  post.step.store(step, std::memory_order_seq_cst);
  world_->DelayForTests();
  if (bed_.sleepers.load(std::memory_order_seq_cst) > 0 &&
      AllReached(round, step)) {
    WakeAll();
  }
}

absl::Status ThreadsGroup::WaitForAll(int rank, uint64_t round, uint64_t step,
                                      const Call& call, const CallSite& site) {
  int reached = 0;  // Steps only grow: ranks before this one are done.
  const auto all_reached = [&] {
    while (reached < size() &&
           PostOf(reached, round).step.load(std::memory_order_acquire) >=
               step) {
      ++reached;
    }
    return reached == size();
  };
  bool done = all_reached();
  if (!done) {
    const absl::Duration start = Monotonic();
    absl::Duration& spin = slots_[rank].spin;
    absl::Duration now = start;
    while (!done && now < start + spin && !world_->aborted()) {
      for (int i = 0; i < kSpinsPerClockRead && !done; ++i) {
        Pause();
        done = all_reached();
      }
      now = Monotonic();
    }
    const absl::Duration stop_yielding = start + kYieldFactor * world_->spin();
    bool core_wanted = false;
    while (!done && !core_wanted && spin == world_->spin() &&
           now < stop_yielding && !world_->aborted()) {
      sched_yield();
      done = all_reached();
      const absl::Duration after = Monotonic();
      core_wanted = after - now > kLongYield;
      now = after;
    }
    spin = std::min(core_wanted ? kLeastSpin : 2 * spin, world_->spin());
    if (!done) {
      absl::Status status = Sleep(rank, round, step, call, site, start);
      if (!status.ok()) return status;
    }
  }
  return world_->aborted() ? world_->status() : absl::OkStatus();
}

absl::Status ThreadsGroup::Sleep(int rank, uint64_t round, uint64_t step,
                                 const Call& call, const CallSite& site,
                                 absl::Duration start) {
  const absl::Duration deadline = start + world_->timeout();
  bool done = false;
  while (!done) {
    const uint32_t epoch = bed_.epoch.load(std::memory_order_seq_cst);
    world_->DelayForTests();
    // Whatever happens from here on changes the epoch.
    if (world_->aborted()) return world_->status();
    bool left = false;
    for (int peer = 0; peer < size() && !left; ++peer) {
      left = slots_[peer].left.load(std::memory_order_seq_cst) &&
             PostOf(peer, round).step.load(std::memory_order_seq_cst) < step;
    }
    const absl::Duration now = Monotonic();
    if (left || now >= deadline) {
      if (AllReached(round, step)) return absl::OkStatus();
      return MissingRanks(rank, round, step, call, site, left);
    }
    world_->DelayForTests();
    bed_.sleepers.fetch_add(1, std::memory_order_seq_cst);
    world_->DelayForTests();
    done = AllReached(round, step);
    world_->DelayForTests();
    if (!done) FutexWait(bed_.epoch, epoch, deadline - now);
    bed_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    done = done || AllReached(round, step);
  }
  return absl::OkStatus();
}

// Every rank compares all posts with rank 0's, so all find the same fault.
absl::Status ThreadsGroup::CheckPosts(int rank, uint64_t round,
                                      bool staged) const {
  const Post& first = PostOf(0, round);
  for (int peer = 1; peer < size(); ++peer) {
    const Post& other = PostOf(peer, round);
    if (!SameCall(first.call, other.call)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "ranks issued different collectives: ", RankName(0), " calls ",
          CallToString(first.call, *first.site), ", ", RankName(peer),
          " calls ", CallToString(other.call, *other.site),
          "; the ranks' programs do not belong together or took different "
          "branches"));
    }
  }
  if (staged) return absl::OkStatus();
  const Post& mine = PostOf(rank, round);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank) continue;
    const Post& other = PostOf(peer, round);
    if (Overlap(mine.out, mine.out_bytes, other.in, other.in_bytes) ||
        Overlap(mine.out, mine.out_bytes, other.out, other.out_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "in ", CallToString(mine.call, *mine.site), ": the output of ",
          RankName(rank), " overlaps a buffer of ", RankName(peer),
          "; every rank needs memory of its own"));
    }
  }
  return absl::OkStatus();
}

// Aborts the world with `why` (unless it is aborted already) and returns its
// status once no peer touches this rank's buffers, call or site any more.
absl::Status ThreadsGroup::GiveUp(int rank, uint64_t round, absl::Status why) {
  const absl::Status status = world_->Abort(std::move(why));
  world_->DelayForTests();
  PostOf(rank, round).step.store(2 * round + 2, std::memory_order_seq_cst);
  for (int peer = 0; peer < size(); ++peer) {
    for (const Post& post : slots_[peer].posts) {
      while (post.step.load(std::memory_order_seq_cst) % 2 == 1) {
        absl::SleepFor(absl::Microseconds(20));
      }
    }
  }
  return status;
}

absl::Status ThreadsGroup::MissingRanks(int rank, uint64_t round, uint64_t step,
                                        const Call& call, const CallSite& site,
                                        bool left) const {
  std::vector<std::string> missing;
  for (int peer = 0; peer < size(); ++peer) {
    const Slot& slot = slots_[peer];
    if (PostOf(peer, round).step.load(std::memory_order_seq_cst) >= step) {
      continue;
    }
    if (left && !slot.left.load(std::memory_order_seq_cst)) continue;
    const uint64_t entered =
        (std::max(slot.posts[0].step.load(std::memory_order_seq_cst),
                  slot.posts[1].step.load(std::memory_order_seq_cst)) +
         1) /
        2;
    missing.push_back(absl::StrCat(RankName(peer), " (entered ", entered,
                                   " of ", round + 1,
                                   " collectives of this group)"));
  }
  const std::string group =
      absl::StrCat("group {", absl::StrJoin(world_ranks_, ","), "}");
  const std::string what = absl::StrCat(
      RankName(rank), " of ", group, ", in ", CallToString(call, site),
      ", waited for ", absl::StrJoin(missing, ", "));
  if (left) {
    return absl::AbortedError(
        absl::StrCat(what, ", which ended without it; see that rank's error"));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      what, " for ", absl::FormatDuration(world_->timeout()),
      "; it crashed, hangs, or is slower than the timeout allows"));
}

}  // namespace tp
