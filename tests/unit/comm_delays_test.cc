// The threads communicator under random delays, between calls and between the
// steps of its protocol: ranks run ahead, fall asleep just when they are woken,
// and abort at any point.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/comm/threads_communicator.h"
#include "tests/unit/comm_checks.h"
#include "tests/unit/comm_run_threads.h"

namespace tp {
namespace {

// Mostly nothing, often a yield, sometimes a sleep.
void RandomDelay() {
  static std::atomic<uint32_t> seeds{0};
  thread_local std::mt19937 random(seeds++);
  const uint32_t draw = random() % 1000;
  if (draw < 200) {
    std::this_thread::yield();
  } else if (draw < 210) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
}

ThreadsOptions Delayed(absl::Duration spin) {
  ThreadsOptions options;
  // A lost wake-up shows as a timeout.
  options.timeout = absl::Seconds(30);
  options.spin = spin;
  options.delay_for_tests = &RandomDelay;
  return options;
}

constexpr int kRepeats = kSlowness > 1 ? 1 : 3;

TEST(CommDelays, ResultsStayRight) {
  for (const absl::Duration spin :
       {absl::ZeroDuration(), absl::Microseconds(20)}) {
    for (const int world_size : {2, 3, 4, 8}) {
      const auto body = [world_size](Communicator& comm) -> absl::Status {
        // Half of the calls go to a subgroup: even and odd ranks.
        std::vector<int> members;
        for (int r = comm.rank() % 2; r < world_size; r += 2) {
          members.push_back(r);
        }
        TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> half,
                            comm.MakeSubgroup(members));
        Sites sites, half_sites;
        std::mt19937_64 random(world_size);
        std::mt19937_64 half_random(world_size);
        for (int i = 0; i < 100 * kRepeats; ++i) {
          RandomDelay();
          TP_RETURN_IF_ERROR(CheckRandomCall(comm, sites, random));
          TP_RETURN_IF_ERROR(CheckRandomCall(*half, half_sites, half_random));
        }
        return absl::OkStatus();
      };
      for (const absl::Status& status :
           RunThreads(Delayed(spin), world_size, body)) {
        ASSERT_TRUE(status.ok()) << world_size << " ranks: " << status;
      }
    }
  }
}

// Messages carried in the post let a rank run one call ahead of its peers.
TEST(CommDelays, RunningAheadOverwritesNothing) {
  const auto body = [](Communicator& comm) -> absl::Status {
    Sites sites;
    for (int32_t i = 0; i < 1000 * kRepeats; ++i) {
      if (i % 97 == comm.rank()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      int32_t values[3] = {i, comm.rank(), 1};
      TP_RETURN_IF_ERROR(comm.AllReduce(values, values, 3, CommDType::kI32,
                                        ReduceOp::kSum, sites.Next()));
      if (values[0] != 4 * i || values[1] != 6 || values[2] != 4) {
        return Differs(comm, "a small sum");
      }
    }
    return absl::OkStatus();
  };
  for (const absl::Status& status :
       RunThreads(Delayed(absl::ZeroDuration()), 4, body)) {
    ASSERT_TRUE(status.ok()) << status;
  }
}

// Every rank frees its buffers as soon as its call fails, wherever the abort
// met it. The address sanitizer and the thread sanitizer see a late access.
TEST(CommDelays, AbortsAtAnyPoint) {
  for (int repeat = 0; repeat < 100 * kRepeats; ++repeat) {
    const auto body = [repeat](Communicator& comm) -> absl::Status {
      Sites sites;
      std::mt19937_64 random(repeat);
      const int aborter = static_cast<int>(random() % 4);
      const int last = static_cast<int>(random() % 6);
      for (int call = 0;; ++call) {
        const int64_t count = 1 + random() % 20000;
        auto data = std::make_unique<std::vector<float>>(count, 1.0f);
        if (comm.rank() == aborter && call == last) {
          RandomDelay();
          comm.Abort(absl::CancelledError("enough"));
        }
        const absl::Status status =
            comm.AllReduce(data->data(), data->data(), count, CommDType::kF32,
                           ReduceOp::kSum, sites.Next());
        if (!status.ok()) {
          data->assign(count, -1.0f);
          return status;
        }
        if (data->back() != 4.0f) return Differs(comm, "sum");
      }
    };
    for (const absl::Status& status :
         RunThreads(Delayed(absl::Microseconds(repeat % 2 * 20)), 4, body)) {
      ASSERT_EQ(status, absl::CancelledError("enough"));
    }
  }
}

// As a watchdog would: from a thread that is no rank, so that ranks are found
// in every step of a round, some moving data while others give up.
TEST(CommDelays, AbortsFromOutside) {
  for (int repeat = 0; repeat < 100 * kRepeats; ++repeat) {
    auto communicators =
        *MakeThreadsCommunicators(3, Delayed(absl::ZeroDuration()));
    std::vector<std::thread> threads;
    std::vector<absl::Status> statuses(3);
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        for (int64_t call = 0; statuses[rank].ok(); ++call) {
          std::vector<float> data(50000, 1.0f);
          statuses[rank] = communicators[rank]->AllReduce(
              data.data(), data.data(), 50000, CommDType::kF32, ReduceOp::kSum,
              {{}, {}, {}, call});
          if (statuses[rank].ok()) continue;
          data.assign(50000, -1.0f);
          for (int look = 0; look < 10; ++look) {
            std::this_thread::yield();
            if (data != std::vector<float>(50000, -1.0f)) {
              statuses[rank] = absl::DataLossError("written after the abort");
            }
          }
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300 + repeat * 7));
    communicators[0]->Abort(absl::CancelledError("enough"));
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      ASSERT_EQ(status, absl::CancelledError("enough"));
    }
  }
}

// A late rank and the deadline race; whoever wins, all end alike or well.
TEST(CommDelays, ArrivingAtTheDeadline) {
  for (int repeat = 0; repeat < 20 * kRepeats; ++repeat) {
    ThreadsOptions options = Delayed(absl::ZeroDuration());
    options.timeout = absl::Milliseconds(5);
    const auto body = [](Communicator& comm) -> absl::Status {
      std::vector<float> data(5000, 1.0f);
      if (comm.rank() == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(4950));
      }
      const absl::Status status = comm.AllReduce(
          data.data(), data.data(), 5000, CommDType::kF32, ReduceOp::kSum, {});
      if (status.ok() && data != std::vector<float>(5000, 3.0f)) {
        return Differs(comm, "sum");
      }
      return status;
    };
    for (const absl::Status& status : RunThreads(options, 3, body)) {
      EXPECT_TRUE(status.ok() || absl::IsDeadlineExceeded(status) ||
                  absl::IsAborted(status))
          << status;
    }
  }
}

}  // namespace
}  // namespace tp
