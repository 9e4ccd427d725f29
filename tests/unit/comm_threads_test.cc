#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/comm/threads_communicator.h"
#include "tests/unit/comm_conformance.h"
#include "tests/unit/comm_run_threads.h"

namespace tp {
namespace {

constexpr CommBackend kThreads = {
    "threads",
    [](int world_size, absl::Duration timeout, const RankBody& body) {
      ThreadsOptions options;
      options.timeout = timeout;
      return RunThreads(options, world_size, body);
    },
    kSlowness};

// Always sleeps, whatever the machine.
constexpr CommBackend kSleepingThreads = {
    "sleeping threads",
    [](int world_size, absl::Duration timeout, const RankBody& body) {
      ThreadsOptions options;
      options.timeout = timeout;
      options.spin = absl::ZeroDuration();
      return RunThreads(options, world_size, body);
    },
    kSlowness};

INSTANTIATE_TEST_SUITE_P(Threads, CommConformance, testing::Values(&kThreads));
INSTANTIATE_TEST_SUITE_P(SleepingThreads, CommConformance,
                         testing::Values(&kSleepingThreads));

TEST(ThreadsCommunicator, RefusesImpossibleWorlds) {
  for (const int world_size : {-1, 0, 100000}) {
    EXPECT_EQ(MakeThreadsCommunicators(world_size, {}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// Ranks of one process can mix up their buffers.
TEST(ThreadsCommunicator, RanksMustNotShareOutputs) {
  std::vector<float> shared(10000);
  const std::vector<absl::Status> statuses =
      RunThreads({}, 2, [&shared](Communicator& comm) {
        return comm.AllReduce(shared.data(), shared.data(), 10000,
                              CommDType::kF32, ReduceOp::kSum,
                              {"tp.all_reduce", "block.1", "model.py:4", 0});
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "overlaps a buffer of"))
        << status;
  }
}

// Inputs that nobody writes may be shared.
TEST(ThreadsCommunicator, RanksMayShareInputs) {
  const std::vector<float> shared(10000, 1.5f);
  const std::vector<absl::Status> statuses =
      RunThreads({}, 3, [&shared](Communicator& comm) {
        std::vector<float> out(10000);
        TP_RETURN_IF_ERROR(comm.AllReduce(shared.data(), out.data(), 10000,
                                          CommDType::kF32, ReduceOp::kSum, {}));
        return out == std::vector<float>(10000, 4.5f)
                   ? absl::OkStatus()
                   : absl::DataLossError("wrong sum");
      });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok());
}

// The abort itself wakes sleepers, not the aborting rank's end.
TEST(ThreadsCommunicator, AbortWakesWhileTheAborterStays) {
  std::atomic<int> ended{0};
  const std::vector<absl::Status> statuses =
      RunThreads({}, 3, [&ended](Communicator& comm) {
        if (comm.rank() != 0) {
          const absl::Status status = comm.Barrier({});
          ++ended;
          return status;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        comm.Abort(absl::CancelledError("enough"));
        const absl::Time limit = absl::Now() + absl::Seconds(20);
        while (ended < 2 && absl::Now() < limit) std::this_thread::yield();
        return ended == 2 ? comm.Barrier({})
                          : absl::InternalError("nobody woke up");
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, absl::CancelledError("enough"));
  }
}

}  // namespace
}  // namespace tp
