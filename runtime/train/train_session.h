// Runs forward and backward passes of a package made with --train, one thread
// per rank, all in this process.
//
//   TP_ASSIGN_OR_RETURN(auto session, TrainSession::Open("t5.tp", {}));
//   TP_ASSIGN_OR_RETURN(auto outputs, session->ForwardBackward(batch));
//   status = session->OnRanks([](int rank, RankTraining& training) {
//     ... update training.parameters by training.gradients ...
//   });
//
// Gradients of several micro-batches add up until ClearGradients; they are
// summed over ranks once, by FinishGradients.
#ifndef TP_RUNTIME_TRAIN_TRAIN_SESSION_H_
#define TP_RUNTIME_TRAIN_TRAIN_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/executor.h"
#include "runtime/local_weights.h"
#include "runtime/package_reader.h"
#include "runtime/rank_group.h"
#include "runtime/tensor_io.h"
#include "runtime/train/parameter.h"

namespace tp {

struct TrainOptions {
  OpenOptions package;
  // Weights by original name instead of the package's: see WeightsFrom.
  std::string weights;
  RankGroupOptions group;
  // Runs in f64, for verification.
  bool f64 = false;
  int output_rank = 0;
  // Keeps only what enters each segment between two collectives, and runs the
  // segment again in the backward pass: less memory, a forward pass more.
  bool recompute = false;
};

// What the code that runs on a rank's thread works on.
struct RankTraining {
  std::vector<TrainableParameter> parameters;
  // One per parameter, local, of the parameter's layout once finished;
  // undefined before the first backward pass and where no gradient flows.
  std::vector<at::Tensor> gradients;
  // Those that @forward writes, as it left them; never trained.
  std::vector<TrainableParameter> buffers;
  std::vector<Communicator*> axes;  // one per mesh axis
};

class TrainSession {
 public:
  // kFailedPrecondition: the package was not made with --train.
  static absl::StatusOr<std::unique_ptr<TrainSession>> Open(
      const std::string& directory, const TrainOptions& options);
  // Over programs and local weights that are already there, by rank.
  static absl::StatusOr<std::unique_ptr<TrainSession>> Create(
      std::vector<std::shared_ptr<const Module>> programs,
      std::vector<std::vector<at::Tensor>> weights,
      const TrainOptions& options);
  ~TrainSession();

  // Adds `seed` times the gradients of output_0 to the gradients; returns the
  // whole outputs of one rank.
  absl::StatusOr<std::vector<at::Tensor>> ForwardBackward(
      const NamedTensors& inputs, double seed = 1);
  // What dropout depends on besides the seed, for the next passes: a number
  // that no other micro-batch of the training has. Set to one more by each
  // ForwardBackward.
  void set_random_key(uint64_t key) { random_key_ = key; }
  // The forward pass alone.
  absl::StatusOr<std::vector<at::Tensor>> Forward(const NamedTensors& inputs);
  // Sums over ranks what they hold terms of.
  absl::Status FinishGradients();
  absl::Status ClearGradients();
  // Runs on every rank's thread, without recording.
  absl::Status OnRanks(
      const std::function<absl::Status(int rank, RankTraining&)>& work);
  // Whole tensors by original name (a tied one once), put together from the
  // parts of the ranks; gradients must be finished.
  absl::StatusOr<NamedTensors> WholeGradients();
  absl::StatusOr<NamedTensors> WholeParameters();

  const std::vector<ProgramArgument>& inputs() const;
  int num_ranks() const { return group_->num_ranks(); }
  const Mesh& mesh() const { return group_->mesh(); }
  const std::vector<std::string>& notes() const { return notes_; }
  // Of one rank; not while a call runs.
  const RankTraining& training(int rank) const;

 private:
  struct Rank;
  static void KeepState(Rank& rank);

  TrainSession();
  absl::Status Start(std::vector<std::shared_ptr<const Module>> programs,
                     const WeightLoader& load);
  absl::Status StartRank(int rank, std::shared_ptr<const Module> program,
                         const WeightLoader& load);
  absl::StatusOr<std::vector<at::Tensor>> Run(const NamedTensors& inputs,
                                              bool backward, double seed);
  absl::StatusOr<NamedTensors> WholeTensors(
      const std::function<at::Tensor(const RankTraining&, size_t)>& pick);

  TrainOptions options_;
  std::vector<std::string> notes_;
  uint64_t random_key_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<RankGroup> group_;  // last: joined first
};

}  // namespace tp

#endif  // TP_RUNTIME_TRAIN_TRAIN_SESSION_H_
