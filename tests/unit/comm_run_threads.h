// Runs a test's body on the ranks of a `threads` world.
#ifndef TP_TESTS_UNIT_COMM_RUN_THREADS_H_
#define TP_TESTS_UNIT_COMM_RUN_THREADS_H_

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/comm/threads_communicator.h"
#include "tests/unit/comm_checks.h"

namespace tp {

inline std::vector<absl::Status> RunThreads(const ThreadsOptions& options,
                                            int world_size,
                                            const RankBody& body) {
  auto communicators = MakeThreadsCommunicators(world_size, options);
  if (!communicators.ok()) return {communicators.status()};
  std::vector<absl::Status> statuses(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> mine = std::move((*communicators)[rank]);
      statuses[rank] = body(*mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int kSlowness = 10;
#else
inline constexpr int kSlowness = 1;
#endif

}  // namespace tp

#endif  // TP_TESTS_UNIT_COMM_RUN_THREADS_H_
