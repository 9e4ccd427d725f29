// Runs a package: one thread per rank, all in this process.
//
//   TP_ASSIGN_OR_RETURN(auto session, Session::Open("gpt2.tp", {}));
//   TP_ASSIGN_OR_RETURN(auto outputs, session->Run({{"input_ids", ids}}));
#ifndef TP_RUNTIME_SESSION_H_
#define TP_RUNTIME_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/executor.h"
#include "runtime/package_reader.h"
#include "runtime/rank_threads.h"
#include "runtime/run_inputs.h"
#include "runtime/tensor_io.h"

namespace tp {

struct SessionOptions {
  OpenOptions package;
  ExecutorOptions executor;
  // Threads inside each rank's ATen ops; 0: cores / ranks, at least 1.
  int threads = 0;
  // How long a collective waits for the other ranks.
  absl::Duration timeout = absl::Seconds(60);
  // Runs in f64: weights are converted, and f32, f16 and bf16 in the programs
  // become f64.
  bool f64 = false;
  // After each run, compares all outputs of all ranks, bit for bit.
  bool check_replicas = false;
  int output_rank = 0;
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Open(
      const std::string& directory, const SessionOptions& options);
  // Over programs and local weights that are already there, by rank; weights
  // in the order of the function's weight arguments.
  static absl::StatusOr<std::unique_ptr<Session>> Create(
      std::vector<std::shared_ptr<const Module>> programs,
      std::vector<std::vector<at::Tensor>> weights,
      const SessionOptions& options);
  ~Session();

  // Inputs by name, whole (see BindRunInputs). Returns output_0, output_1, ...
  // of options.output_rank, whole; they must not be written. With `times`,
  // also where each rank's time went. An error of one rank ends the session:
  // later calls return it. Errors of inputs and guards do not.
  absl::StatusOr<std::vector<at::Tensor>> Run(
      const NamedTensors& inputs, std::vector<RankTimes>* times = nullptr);

  const Mesh& mesh() const { return mesh_; }
  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  int threads_per_rank() const { return threads_; }
  const std::vector<ProgramArgument>& inputs() const;
  const std::vector<std::string>& notes() const { return notes_; }
  // Bytes of the local weights of a rank.
  int64_t WeightBytes(int rank) const;

 private:
  struct Rank {
    std::unique_ptr<Communicator> world;
    std::vector<std::unique_ptr<Communicator>> groups;  // of 2 or more axes
    std::unique_ptr<Executor> executor;
    int64_t weight_bytes = 0;
    absl::StatusOr<std::vector<at::Tensor>> outputs = std::vector<at::Tensor>();
  };
  using WeightLoader = std::function<absl::StatusOr<std::vector<at::Tensor>>(
      int rank, const Program&)>;

  Session() = default;
  absl::Status Start(std::vector<std::shared_ptr<const Module>> programs,
                     const WeightLoader& load);
  absl::Status StartRank(int rank, std::shared_ptr<const Module> program,
                         const WeightLoader& load);
  absl::Status CompareReplicas() const;

  SessionOptions options_;
  Mesh mesh_;
  int threads_ = 1;
  std::vector<std::string> notes_;
  std::vector<Rank> ranks_;
  absl::Status broken_;
  std::unique_ptr<RankThreads> rank_threads_;  // last: joined first
};

}  // namespace tp

#endif  // TP_RUNTIME_SESSION_H_
