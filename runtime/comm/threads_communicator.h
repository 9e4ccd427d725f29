// The `threads` communicator: one rank per thread of one process. Ranks read
// each other's buffers through published pointers; nothing is copied into a
// buffer of the communicator except messages of at most a few KiB.
#ifndef TP_RUNTIME_COMM_THREADS_COMMUNICATOR_H_
#define TP_RUNTIME_COMM_THREADS_COMMUNICATOR_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/comm/communicator.h"

namespace tp {

struct ThreadsOptions {
  // How long one collective waits for other ranks before it fails.
  absl::Duration timeout = absl::Seconds(60);
  // How long a wait spins before it starts to yield, and then to sleep.
  // Negative: chosen here; zero, which means to sleep at once, when there are
  // more ranks than cores this process may run on.
  absl::Duration spin = absl::Microseconds(-1);
  // Called by every rank between the steps of the protocol, for tests that
  // look for orders of events that seldom happen.
  std::function<void()> delay_for_tests;
};

// The ends of a new group of `world_size` ranks, in rank order. They share
// their state; it lives as long as any of them. Destroying one tells ranks
// that still wait for it. InvalidArgument if world_size is not in [1, 1024].
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>
MakeThreadsCommunicators(int world_size, const ThreadsOptions& options);

}  // namespace tp

#endif  // TP_RUNTIME_COMM_THREADS_COMMUNICATOR_H_
