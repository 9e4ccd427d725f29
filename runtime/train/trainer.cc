#include "runtime/train/trainer.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/optimizer/gradient_clip.h"

namespace tp {
namespace {

int64_t TokensOf(const NamedTensors& batch) {
  int64_t tokens = 0;
  for (const auto& [name, tensor] : batch) {
    if (!at::isFloatingType(tensor.scalar_type()))
      tokens = std::max(tokens, tensor.numel());
  }
  return tokens;
}

constexpr int64_t kIgnoredLabel = -100;

// In f32: an f16 gradient would lose what the scale has kept.
void Unscale(std::vector<at::Tensor>& gradients, double scale) {
  for (at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    if (gradient.element_size() < 4) gradient = gradient.to(at::kFloat);
    gradient.mul_(1 / scale);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    TrainSession& session, const TrainerOptions& options) {
  if (options.accumulate < 1) {
    return absl::InvalidArgumentError("a step needs a micro-batch");
  }
  std::unique_ptr<Trainer> trainer(new Trainer(session, options));
  at::manual_seed(options.seed);
  trainer->optimizers_.resize(session.num_ranks());
  TP_RETURN_IF_ERROR(
      session.OnRanks([&](int rank, RankTraining& training) -> absl::Status {
        TP_ASSIGN_OR_RETURN(trainer->optimizers_[rank],
                            MakeOptimizer(options.optimizer,
                                          training.parameters, training.axes));
        return absl::OkStatus();
      }));
  bool has_f16 = false;
  for (const TrainableParameter& parameter : session.training(0).parameters) {
    has_f16 = has_f16 || parameter.type.dtype == DType::kF16;
  }
  trainer->loss_scale_.emplace(options.loss_scale, has_f16);
  trainer->set_steps_done(0);
  return trainer;
}

// Each micro-batch of the whole training has its own.
uint64_t Trainer::RandomKey(int micro_batch) const {
  return static_cast<uint64_t>(steps_) *
             static_cast<uint64_t>(options_.accumulate) +
         static_cast<uint64_t>(micro_batch);
}

void Trainer::set_steps_done(int64_t steps) {
  steps_ = steps;
  session_.set_random_key(RandomKey(0));
}

absl::StatusOr<double> Trainer::CountOf(const NamedTensors& batch) const {
  if (options_.weigh_by_labels.empty()) return 1;
  for (const auto& [name, tensor] : batch) {
    if (name != options_.weigh_by_labels) continue;
    const int64_t skipped =
        tensor.dim() == 0
            ? 0
            : std::min<int64_t>(options_.label_shift, tensor.size(-1));
    const at::Tensor counted =
        skipped == 0 ? tensor : tensor.slice(/*dim=*/-1, skipped);
    return counted.ne(kIgnoredLabel).sum().item<double>();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "micro-batches are to count by the labels in '", options_.weigh_by_labels,
      "', and this one has no such input"));
}

absl::StatusOr<std::optional<StepReport>> Trainer::Step(const NextBatch& next) {
  const auto start = std::chrono::steady_clock::now();
  StepReport report;
  report.step = steps_ + 1;
  std::vector<NamedTensors> batches;
  std::vector<double> counts;
  double total = 0;
  for (int i = 0; i < options_.accumulate; ++i) {
    TP_ASSIGN_OR_RETURN(std::optional<NamedTensors> batch, next());
    if (!batch) return std::nullopt;
    TP_ASSIGN_OR_RETURN(const double count, CountOf(*batch));
    total += count;
    report.tokens += TokensOf(*batch);
    counts.push_back(count);
    batches.push_back(*std::move(batch));
  }
  if (total == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", report.step,
                     ": its micro-batches have no label "
                     "that counts"));
  }
  for (int i = 0; i < options_.accumulate; ++i) {
    if (counts[i] == 0) continue;  // its mean loss would be no number
    const double share = counts[i] / total;
    session_.set_random_key(RandomKey(i));
    absl::StatusOr<std::vector<at::Tensor>> outputs =
        session_.ForwardBackward(batches[i], share * loss_scale_->scale());
    if (!outputs.ok()) {
      return Annotate(outputs.status(), absl::StrCat("step ", report.step,
                                                     ", micro-batch ", i + 1));
    }
    report.loss += share * (*outputs)[0].to(at::kDouble).item<double>();
    batches[i].clear();
  }
  TP_RETURN_IF_ERROR(Update(report));
  set_steps_done(steps_ + 1);
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return report;
}

absl::Status Trainer::Update(StepReport& report) {
  TP_RETURN_IF_ERROR(session_.FinishGradients());
  report.lr = options_.lr * LrFactor(options_.schedule, report.step);
  std::vector<double> norms(session_.num_ranks());
  const double scale = loss_scale_->scale();
  TP_RETURN_IF_ERROR(
      session_.OnRanks([&](int rank, RankTraining& training) -> absl::Status {
        if (loss_scale_->on()) Unscale(training.gradients, scale);
        TP_ASSIGN_OR_RETURN(
            norms[rank], GlobalGradNorm(training.parameters, training.gradients,
                                        training.axes));
        // The norm is the same on all ranks, and so is what follows from it.
        if (loss_scale_->on() && !std::isfinite(norms[rank])) {
          for (at::Tensor& gradient : training.gradients) gradient.reset();
          return absl::OkStatus();
        }
        if (options_.max_grad_norm > 0) {
          ClipGradients(training.gradients, norms[rank],
                        options_.max_grad_norm);
        }
        TP_RETURN_IF_ERROR(optimizers_[rank]->Step(report.step, report.lr,
                                                   training.gradients));
        for (at::Tensor& gradient : training.gradients) gradient.reset();
        return absl::OkStatus();
      }));
  report.grad_norm = norms[0];
  report.skipped = !loss_scale_->Update(std::isfinite(norms[0]));
  return absl::OkStatus();
}

absl::StatusOr<double> Trainer::Evaluate(const NextBatch& next) {
  double sum = 0;
  double total = 0;
  while (true) {
    TP_ASSIGN_OR_RETURN(std::optional<NamedTensors> batch, next());
    if (!batch) break;
    TP_ASSIGN_OR_RETURN(const double count, CountOf(*batch));
    if (count == 0) continue;
    TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs,
                        session_.Forward(*batch));
    sum += count * outputs[0].to(at::kDouble).item<double>();
    total += count;
  }
  if (total == 0) {
    return absl::InvalidArgumentError("there is no batch to evaluate");
  }
  return sum / total;
}

}  // namespace tp
