// Runs a package: one thread per rank, all in this process.
//
//   TP_ASSIGN_OR_RETURN(auto session, Session::Open("gpt2.tp", {}));
//   TP_ASSIGN_OR_RETURN(auto outputs, session->Run({{"input_ids", ids}}));
#ifndef TP_RUNTIME_SESSION_H_
#define TP_RUNTIME_SESSION_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/executor.h"
#include "runtime/local_weights.h"
#include "runtime/package_reader.h"
#include "runtime/rank_group.h"
#include "runtime/run_inputs.h"
#include "runtime/tensor_io.h"

namespace tp {

struct SessionOptions {
  OpenOptions package;
  // Weights by original name instead of the package's: see WeightsFrom.
  std::string weights;
  ExecutorOptions executor;
  RankGroupOptions group;
  // Runs in f64: weights are converted, and f32, f16 and bf16 in the programs
  // become f64.
  bool f64 = false;
  // After each run, compares all outputs of all ranks, bit for bit.
  bool check_replicas = false;
  int output_rank = 0;
  // The entry that Run runs; empty: the package's only one, or @forward. `all`
  // also readies the others, over the same weights.
  std::string entry;
  bool all_entries = false;
};

// What a call gives besides the outputs.
struct CallReport {
  // Asks for times, which makes the call slower (see RunOptions::times).
  bool measure = false;
  std::vector<RankTimes> times;  // by rank, where the time went, added up
  // What the model leaves in inputs that it writes in place, whole.
  NamedTensors written;
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
  // of options.output_rank, whole; they must not be written. Buffers that the
  // model writes keep their content for the next call. An error of one rank
  // ends the session: later calls return it. Errors of inputs and guards do
  // not; after either, buffers are as before the call.
  absl::StatusOr<std::vector<at::Tensor>> Run(const NamedTensors& inputs,
                                              CallReport* report = nullptr);

  // The buffers that the model writes, whole, by name.
  absl::StatusOr<NamedTensors> State() const;
  // Sets them. kInvalidArgument, with nothing changed, if one is missing, not
  // known or of another shape or dtype.
  absl::Status SetState(const NamedTensors& state);

  // Names of the entries that are ready; Run runs the first.
  const std::vector<std::string>& entries() const { return entries_; }
  // -1: not ready or not there.
  int FindEntry(const std::string& name) const;
  const Program& program(int entry) const {
    return ranks_[0].executors[entry]->program();
  }
  // For callers that keep what calls return on the ranks.
  Executor& executor(int rank, int entry) {
    return *ranks_[rank].executors[entry];
  }
  // Runs work(rank) on every rank's thread (see RankGroup::Run).
  absl::Status OnRanks(const std::function<absl::Status(int rank)>& work) {
    return group_->Run(work);
  }
  const SessionOptions& options() const { return options_; }

  const Mesh& mesh() const { return group_->mesh(); }
  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  int threads_per_rank() const { return group_->threads_per_rank(); }
  const std::vector<ProgramArgument>& inputs() const;
  const std::vector<std::string>& notes() const { return notes_; }
  // Bytes of the local weights of a rank.
  int64_t WeightBytes(int rank) const;

 private:
  struct Rank {
    std::vector<std::unique_ptr<Executor>> executors;  // by entry
    int64_t weight_bytes = 0;
    std::vector<at::Tensor> inputs;   // of this call, as the program takes them
    std::vector<at::Tensor> results;  // of this call
  };
  Session() = default;
  absl::Status Start(std::vector<std::shared_ptr<const Module>> programs,
                     const WeightLoader& load);
  absl::Status StartRank(int rank, std::shared_ptr<const Module> program,
                         const WeightLoader& load);
  absl::Status ChooseEntries(const Module& module);
  absl::Status AddEntry(int rank, std::shared_ptr<const Module> program,
                        const std::string& entry, const WeightLoader& load,
                        std::map<std::string, at::Tensor>& weights,
                        PackedWeights& packed);
  const Program& program() const { return program(0); }
  absl::StatusOr<at::Tensor> WholeResult(size_t index,
                                         const SymbolValues& sizes) const;
  absl::Status CompareReplicas() const;
  void KeepState();

  SessionOptions options_;
  std::vector<std::string> notes_;
  std::vector<std::string> entries_;
  std::vector<Rank> ranks_;
  uint64_t runs_ = 0;
  std::unique_ptr<RankGroup> group_;  // last: joined first
};

}  // namespace tp

#endif  // TP_RUNTIME_SESSION_H_
