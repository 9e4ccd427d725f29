// Measures the `threads` all_reduce against a copy-through-buffer one-shot and
// prints the ratio. In every iteration each rank writes its tensor, reduces it
// in place and reads it, because moving the cache lines back and forth is what
// the two differ in; the time of writing and reading alone, measured the same
// way, is subtracted. The three variants run in short interleaved blocks, so
// that other load on the machine hits all alike; on a loaded machine the tenth
// percentile tells what the code does, the median what the load does.
//
//   bench_collectives --ranks=2 --max_bytes=33554432 --rounds=100
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/reduce_kernels.h"
#include "runtime/comm/threads_communicator.h"

ABSL_FLAG(int, ranks, 2, "number of ranks, one thread each");
ABSL_FLAG(bool, pin, true, "keep each rank on a core of its own");
ABSL_FLAG(int64_t, min_bytes, 1024, "smallest tensor");
ABSL_FLAG(int64_t, max_bytes, 32 << 20, "largest tensor");
ABSL_FLAG(int, rounds, 100, "interleaved blocks per variant");
ABSL_FLAG(double, block_us, 300, "about how long a block runs");

namespace tp {
namespace {

// The baseline: every rank copies its tensor into a shared buffer, raises a
// flag, waits for all flags, and sums all buffers for itself. Two buffers per
// rank, used in turn, spare the second wait.
class StagedOneShot {
 public:
  StagedOneShot(int ranks, int64_t bytes) : ranks_(ranks), flags_(ranks) {
    buffers_.resize(2 * ranks);
    for (auto& buffer : buffers_) buffer.resize(bytes);
  }

  void AllReduce(int rank, uint64_t round, float* data, int64_t count) {
    const int parity = round & 1;
    std::memcpy(buffers_[2 * rank + parity].data(), data, count * 4);
    flags_[rank].round.store(round, std::memory_order_release);
    std::vector<const std::byte*> sources(ranks_);
    for (int peer = 0; peer < ranks_; ++peer) {
      sources[peer] = buffers_[2 * peer + parity].data();
      for (int spins = 0;
           flags_[peer].round.load(std::memory_order_acquire) < round;
           ++spins) {
        if (spins < 2000) {
#if defined(__x86_64__)
          __builtin_ia32_pause();
#endif
        } else {
          std::this_thread::yield();
        }
      }
    }
    auto* out = reinterpret_cast<std::byte*>(data);
    FindReduceKernel(CommDType::kF32, ReduceOp::kSum)(sources, {&out, 1},
                                                      count);
  }

 private:
  struct alignas(128) Flag {
    std::atomic<uint64_t> round{0};
  };
  const int ranks_;
  std::vector<Flag> flags_;
  std::vector<std::vector<std::byte>> buffers_;
};

enum class Variant { kNone, kDirect, kStaged };

struct FreeDeleter {
  void operator()(float* p) const { std::free(p); }
};

// Without this a loaded machine may run both ranks on one core in turn, where
// no cache line has to move.
void PinTo(int rank) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank % std::thread::hardware_concurrency(), &core);
  sched_setaffinity(0, sizeof(core), &core);
}

class Bench {
 public:
  Bench(int ranks, int64_t bytes)
      : ranks_(ranks),
        count_(bytes / 4),
        communicators_(*MakeThreadsCommunicators(ranks, {})),
        staged_(ranks, bytes),
        rounds_(ranks, 0),
        sinks_(ranks, 0) {
    for (int rank = 0; rank < ranks; ++rank) {
      tensors_.emplace_back(static_cast<float*>(
          std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
    }
  }

  // Microseconds per iteration of every block, one vector per variant.
  std::vector<std::vector<double>> Run(int rounds, double block_us) {
    std::vector<std::vector<double>> times(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([this, rank, rounds, block_us, &times] {
        if (absl::GetFlag(FLAGS_pin)) PinTo(rank);
        RunRank(rank, rounds, block_us, rank == 0 ? &times : nullptr);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return times;
  }

 private:
  void RunRank(int rank, int rounds, double block_us,
               std::vector<std::vector<double>>* times) {
    constexpr Variant kVariants[] = {Variant::kNone, Variant::kDirect,
                                     Variant::kStaged};
    // Rank 0 says how many iterations make a block; all must agree.
    int64_t iterations = 3;
    const double once = Block(rank, Variant::kStaged, 3);
    if (rank == 0) {
      iterations = static_cast<int64_t>(
          std::clamp(block_us / std::max(once, 0.2), 3.0, 1000.0));
    }
    Check(communicators_[rank]->Broadcast(&iterations, 8, 0, {}));
    for (int round = 0; round < rounds; ++round) {
      for (const Variant variant : kVariants) {
        const double time = Block(rank, variant, iterations);
        if (times != nullptr) {
          (*times)[static_cast<int>(variant)].push_back(time);
        }
      }
    }
  }

  double Block(int rank, Variant variant, int64_t iterations) {
    Communicator& communicator = *communicators_[rank];
    Iterate(rank, variant, iterations / 10 + 1);  // Warms the caches.
    Check(communicator.Barrier({}));
    const auto start = std::chrono::steady_clock::now();
    Iterate(rank, variant, iterations);
    Check(communicator.Barrier({}));
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::micro>(end - start).count() /
           iterations;
  }

  void Iterate(int rank, Variant variant, int64_t iterations) {
    float* data = tensors_[rank].get();
    for (int64_t i = 0; i < iterations; ++i) {
      const int value = static_cast<int>(i % 7) + rank;
      std::fill_n(data, count_, static_cast<float>(value));
      asm volatile("" ::: "memory");
      if (variant == Variant::kDirect) {
        Check(communicators_[rank]->AllReduce(
            data, data, count_, CommDType::kF32, ReduceOp::kSum, {}));
      } else if (variant == Variant::kStaged) {
        staged_.AllReduce(rank, ++rounds_[rank], data, count_);
      }
      Consume(rank, data);
      if (variant != Variant::kNone) {
        const float expected =
            ranks_ * ((ranks_ - 1) / 2.0f + static_cast<float>(i % 7));
        if (data[0] != expected || data[count_ - 1] != expected) {
          std::cerr << "wrong sum\n";
          std::exit(1);
        }
      }
    }
  }

  // Reads one word of every cache line.
  void Consume(int rank, const float* data) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < count_; i += 16) {
      uint32_t bits;
      std::memcpy(&bits, data + i, 4);
      sum += bits;
    }
    sinks_[rank] += sum;
    asm volatile("" ::: "memory");
  }

  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::cerr << status << "\n";
    std::exit(1);
  }

  const int ranks_;
  const int64_t count_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  StagedOneShot staged_;
  std::vector<uint64_t> rounds_;
  std::vector<uint64_t> sinks_;
  std::vector<std::unique_ptr<float, FreeDeleter>> tensors_;
};

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * (values.size() - 1))];
}

void Measure(int ranks, int64_t bytes, int rounds, double block_us) {
  Bench bench(ranks, bytes);
  const std::vector<std::vector<double>> times = bench.Run(rounds, block_us);
  std::cout << absl::StreamFormat("%10d", bytes);
  for (const double share : {0.1, 0.5}) {
    const double base = Quantile(times[0], share);
    const double direct = Quantile(times[1], share) - base;
    const double staged = Quantile(times[2], share) - base;
    std::cout << absl::StreamFormat("   %10.2f %9.2f %9.2f %6.2f", base, direct,
                                    staged, staged / direct);
  }
  std::cout << std::endl;
}

void Main() {
  const int ranks = absl::GetFlag(FLAGS_ranks);
  std::cout << "all_reduce f32, " << ranks << " ranks, "
            << std::thread::hardware_concurrency() << " cores; microseconds\n"
            << "             quiet blocks (10th percentile)          "
               "medians\n     bytes";
  for (int i = 0; i < 2; ++i) {
    std::cout << absl::StreamFormat("   %10s %9s %9s %6s", "write+read",
                                    "in place", "one-shot", "ratio");
  }
  std::cout << std::endl;
  for (int64_t bytes = absl::GetFlag(FLAGS_min_bytes);
       bytes <= absl::GetFlag(FLAGS_max_bytes); bytes *= 4) {
    Measure(ranks, bytes, absl::GetFlag(FLAGS_rounds),
            absl::GetFlag(FLAGS_block_us));
  }
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Times the threads all_reduce against a staged one-shot.");
  absl::ParseCommandLine(argc, argv);
  tp::Main();
  return 0;
}
