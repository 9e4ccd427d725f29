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
  if (session.mesh().ndim() != 1) {
    return absl::UnimplementedError(absl::StrCat(
        "optimizers do not run on a mesh of several axes yet, and this "
        "package's is ",
        session.mesh().ToString(), "; compile for one axis, as --tp ",
        session.num_ranks()));
  }
  std::unique_ptr<Trainer> trainer(new Trainer(session, options));
  at::manual_seed(options.seed);
  trainer->optimizers_.resize(session.num_ranks());
  TP_RETURN_IF_ERROR(
      session.OnRanks([&](int rank, RankTraining& training) -> absl::Status {
        TP_ASSIGN_OR_RETURN(
            trainer->optimizers_[rank],
            MakeOptimizer(options.optimizer, training.parameters,
                          training.axes[0]));
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

// Each micro-batch of the whole training has its own random key.
void Trainer::set_steps_done(int64_t steps) {
  steps_ = steps;
  session_.set_random_key(static_cast<uint64_t>(steps) *
                          static_cast<uint64_t>(options_.accumulate));
}

absl::StatusOr<std::optional<StepReport>> Trainer::Step(const NextBatch& next) {
  const auto start = std::chrono::steady_clock::now();
  StepReport report;
  report.step = steps_ + 1;
  const double share = 1.0 / options_.accumulate;
  for (int i = 0; i < options_.accumulate; ++i) {
    TP_ASSIGN_OR_RETURN(std::optional<NamedTensors> batch, next());
    if (!batch) {
      TP_RETURN_IF_ERROR(session_.ClearGradients());
      set_steps_done(steps_);
      return std::nullopt;
    }
    absl::StatusOr<std::vector<at::Tensor>> outputs =
        session_.ForwardBackward(*batch, share * loss_scale_->scale());
    if (!outputs.ok()) {
      return Annotate(outputs.status(), absl::StrCat("step ", report.step,
                                                     ", micro-batch ", i + 1));
    }
    report.loss += share * (*outputs)[0].to(at::kDouble).item<double>();
    report.tokens += TokensOf(*batch);
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
                                        training.axes[0]));
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
  int64_t count = 0;
  while (true) {
    TP_ASSIGN_OR_RETURN(std::optional<NamedTensors> batch, next());
    if (!batch) break;
    TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs,
                        session_.Forward(*batch));
    sum += outputs[0].to(at::kDouble).item<double>();
    ++count;
  }
  if (count == 0) {
    return absl::InvalidArgumentError("there is no batch to evaluate");
  }
  return sum / static_cast<double>(count);
}

}  // namespace tp
