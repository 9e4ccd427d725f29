// The training loop: micro-batches in, optimizer steps out.
//
// One step runs `accumulate` micro-batches, adds up the share of each
// gradient, sums over ranks once, clips by the global norm and lets the
// optimizer update. What it does equals one device's run of the same loop,
// whatever the number of ranks.
#ifndef TP_RUNTIME_TRAIN_TRAINER_H_
#define TP_RUNTIME_TRAIN_TRAINER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/optimizer/loss_scale.h"
#include "runtime/optimizer/lr_schedule.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/train/train_session.h"

namespace tp {

struct TrainerOptions {
  OptimizerOptions optimizer;
  LrScheduleOptions schedule;
  LossScaleOptions loss_scale;
  double lr = 1e-3;          // at the top of the schedule
  double max_grad_norm = 1;  // 0: no clipping
  int accumulate = 1;        // micro-batches per step
  // Of these micro-batches each counts 1 / accumulate; or, where this names
  // the input with the labels, by how many labels it has that are not -100,
  // so that a step is the mean over all its labels.
  std::string weigh_by_labels;
  // Labels of the first positions that the loss leaves out, as one that
  // predicts the next token leaves out the first.
  int label_shift = 0;
  uint64_t seed = 42;  // of dropout and stochastic rounding
};

// What one optimizer step did.
struct StepReport {
  int64_t step = 0;  // from 1
  double loss = 0;   // of the micro-batches, each by its share
  double lr = 0;
  double grad_norm = 0;  // before clipping
  bool skipped = false;  // a scaled f16 gradient overflowed
  int64_t tokens = 0;    // elements of the largest integer input, added up
  double seconds = 0;
};

// Gives the next micro-batch; nothing at the end of the data.
using NextBatch = std::function<absl::StatusOr<std::optional<NamedTensors>>()>;

class Trainer {
 public:
  // The session must outlive the trainer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      TrainSession& session, const TrainerOptions& options);

  // One step. Nothing: the data ended before a whole step; its micro-batches
  // are dropped.
  absl::StatusOr<std::optional<StepReport>> Step(const NextBatch& next);
  // Mean loss over micro-batches, by the same shares, without dropout.
  absl::StatusOr<double> Evaluate(const NextBatch& next);

  const TrainerOptions& options() const { return options_; }
  int64_t steps_done() const { return steps_; }
  void set_steps_done(int64_t steps);
  LossScale& loss_scale() { return *loss_scale_; }
  const LossScale& loss_scale() const { return *loss_scale_; }
  // By rank; for checkpoints.
  const std::vector<std::unique_ptr<Optimizer>>& optimizers() const {
    return optimizers_;
  }

 private:
  Trainer(TrainSession& session, TrainerOptions options)
      : session_(session), options_(std::move(options)) {}
  // What a micro-batch counts against others: 1, or its labels.
  absl::StatusOr<double> CountOf(const NamedTensors& batch) const;
  uint64_t RandomKey(int micro_batch) const;
  absl::Status Update(StepReport& report);

  TrainSession& session_;
  const TrainerOptions options_;
  std::vector<std::unique_ptr<Optimizer>> optimizers_;
  std::optional<LossScale> loss_scale_;
  int64_t steps_ = 0;
};

}  // namespace tp

#endif  // TP_RUNTIME_TRAIN_TRAINER_H_
