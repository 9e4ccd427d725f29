#include "tools/tp_run_calibrate.h"

#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ir/file_digest.h"
#include "ir/machine.h"
#include "ir/status.h"
#include "runtime/comm/threads_communicator.h"
#include "tools/command_line.h"

namespace tp {
namespace {

constexpr char kUsage[] =
    R"(usage: tp-run calibrate [-o FILE] [--ranks N]

Measures this machine, in about five seconds, and writes a machine file for
tp-compile --machine: f32 products, memory, the smallest op, and collectives
between threads. Leave the machine alone meanwhile.

  -o FILE     where to write it (default: standard output)
  --ranks N   how many ranks share the machine (default 2); each gets
              cores / N threads
  --help

Exit codes: 0 ok, 1 error, 2 usage.
)";

constexpr ToolText kTool = {"tp-run calibrate", kUsage, TP_VERSION};

constexpr int64_t kMatrix = 768;               // products of kMatrix^3
constexpr int64_t kStream = 16 << 20;          // elements of a sum
constexpr int64_t kSmallMessage = 256;         // bytes
constexpr int64_t kLargeMessage = 16ll << 20;  // bytes
constexpr int kRounds = 9;

// What one rank measures; all ranks measure together, and the slowest counts.
class Bench {
 public:
  Bench(Communicator& comm, int threads) : comm_(comm) {
    at::set_num_threads(threads);
  }

  absl::StatusOr<Machine> Run() {
    at::NoGradGuard no_grad;
    Machine machine;
    TP_RETURN_IF_ERROR(Compute(machine));
    TP_RETURN_IF_ERROR(Collectives(machine));
    return machine;
  }

 private:
  // Median microseconds of one of `repeats` calls, on the slowest rank.
  absl::StatusOr<double> Time(int repeats,
                              const std::function<absl::Status()>& call) {
    std::vector<double> times;
    TP_RETURN_IF_ERROR(call());
    for (int round = 0; round < kRounds; ++round) {
      TP_RETURN_IF_ERROR(comm_.Barrier({}));
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < repeats; ++i) TP_RETURN_IF_ERROR(call());
      times.push_back(std::chrono::duration<double, std::micro>(
                          std::chrono::steady_clock::now() - start)
                          .count() /
                      repeats);
    }
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    double median = times[kRounds / 2];
    TP_RETURN_IF_ERROR(comm_.AllReduce(&median, &median, 1, CommDType::kF64,
                                       ReduceOp::kMax, {}));
    return median;
  }

  absl::Status Compute(Machine& machine) {
    const at::Tensor a = at::ones({kMatrix, kMatrix});
    const at::Tensor b = at::ones({kMatrix, kMatrix});
    at::Tensor c = at::empty({kMatrix, kMatrix});
    TP_ASSIGN_OR_RETURN(double product, Time(4, [&] {
                          at::mm_out(c, a, b);
                          return absl::OkStatus();
                        }));
    machine.flops_per_us =
        2.0 * static_cast<double>(kMatrix * kMatrix * kMatrix) / product;
    const at::Tensor x = at::ones({kStream});
    at::Tensor y = at::ones({kStream});
    TP_ASSIGN_OR_RETURN(double sum, Time(1, [&] {
                          y.add_(x);
                          return absl::OkStatus();
                        }));
    machine.memory_bytes_per_us = 12.0 * static_cast<double>(kStream) / sum;
    at::Tensor small = at::ones({16});
    TP_ASSIGN_OR_RETURN(machine.kernel_us, Time(2000, [&] {
                          small.add_(1);
                          return absl::OkStatus();
                        }));
    return absl::OkStatus();
  }

  absl::Status Collectives(Machine& machine) {
    const auto reduce = [&](int64_t bytes) {
      std::vector<float> data(bytes / sizeof(float), 1);
      return Time(bytes == kSmallMessage ? 2000 : 20, [this, data]() mutable {
        return comm_.AllReduce(data.data(), data.data(),
                               static_cast<int64_t>(data.size()),
                               CommDType::kF32, ReduceOp::kMax, {});
      });
    };
    TP_ASSIGN_OR_RETURN(double small, reduce(kSmallMessage));
    TP_ASSIGN_OR_RETURN(double large, reduce(kLargeMessage));
    machine.link.latency_us = small;
    const double n = comm_.size();
    if (n > 1)
      machine.link.bytes_per_us =
          2 * (n - 1) / n * static_cast<double>(kLargeMessage - kSmallMessage) /
          std::max(large - small, 1e-3);
    return absl::OkStatus();
  }

  Communicator& comm_;
};

absl::StatusOr<Machine> Measure(int ranks) {
  TP_ASSIGN_OR_RETURN(auto communicators, MakeThreadsCommunicators(ranks, {}));
  const int cores =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<absl::StatusOr<Machine>> results(
      ranks, absl::InternalError("nothing was measured"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        results[rank] =
            Bench(*communicators[rank], std::max(1, cores / ranks)).Run();
      } catch (const std::exception& error) {
        results[rank] = absl::InternalError(error.what());
      }
      if (!results[rank].ok())
        communicators[rank]->Abort(results[rank].status());
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) TP_RETURN_IF_ERROR(result.status());
  Machine machine = *results[0];
  machine.name = "this machine";
  machine.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                         sysconf(_SC_PAGESIZE) / ranks;
  return machine;
}

absl::Status Calibrate(int ranks, const std::string& output) {
  TP_ASSIGN_OR_RETURN(Machine machine, Measure(ranks));
  const std::string text = absl::StrCat(
      "# Measured by tp-run calibrate: ", ranks,
      " ranks as threads that share ", std::thread::hardware_concurrency(),
      " cores.\n# f32 products of ", kMatrix, " x ", kMatrix, "; sums of ",
      kStream, " f32; all_reduce of ", kSmallMessage, " and ", kLargeMessage,
      " bytes; an even part of the memory.\n", MachineYaml(machine));
  if (!output.empty()) return WriteTextFile(output, text);
  std::cout << text;
  return absl::OkStatus();
}

}  // namespace

int CalibrateMain(int argc, char** argv) {
  CommandLine line;
  std::string output;
  int ranks = 2;
  line.String("-o", &output);
  line.Int("--ranks", &ranks);
  CommonOptions common;
  absl::Status status = line.ParseCommon(argc, argv, "argument",
                                         /*required=*/false, common);
  if (status.ok() && !common.positional.empty())
    status = absl::InvalidArgumentError(
        absl::StrCat("\"", common.positional, "\" is not expected"));
  if (status.ok() && (ranks < 1 || ranks > 1024))
    status = absl::InvalidArgumentError("--ranks is a number from 1 to 1024");
  if (std::optional<int> code = AnswerCommon(kTool, status, common))
    return *code;
  status = Calibrate(ranks, output);
  return status.ok() ? 0 : Fail(kTool, status);
}

}  // namespace tp
