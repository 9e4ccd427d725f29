#include "runtime/train/train_session.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/shard_block.h"
#include "ir/status.h"
#include "runtime/default_dtype.h"
#include "runtime/run_inputs.h"
#include "runtime/shard_tensor.h"
#include "runtime/to_f64.h"
#include "runtime/train/tape.h"

namespace tp {
namespace {

absl::Status NotATrainingPackage() {
  return absl::FailedPreconditionError(
      "the package has no backward pass; compile the model with "
      "tp-compile --train");
}

// Of what a call of @forward gives, the model's outputs.
std::vector<at::Tensor> OutputsOf(const Program& program,
                                  const std::vector<at::Tensor>& results) {
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    if (program.results()[i].is_output) outputs.push_back(results[i]);
  }
  return outputs;
}

}  // namespace

struct TrainSession::Rank {
  std::unique_ptr<Executor> forward;
  std::unique_ptr<Executor> backward;
  std::unique_ptr<Executor> reduce;
  std::vector<size_t> slots;  // by result of @backward: its parameter
  RankTraining training;
  std::vector<at::Tensor> terms;    // by slot: gradients not yet reduced
  std::vector<at::Tensor> results;  // of this call of @forward
};

TrainSession::TrainSession() = default;
TrainSession::~TrainSession() = default;

const RankTraining& TrainSession::training(int rank) const {
  return ranks_[rank]->training;
}

const std::vector<ProgramArgument>& TrainSession::inputs() const {
  return ranks_[0]->forward->program().inputs();
}

absl::StatusOr<std::unique_ptr<TrainSession>> TrainSession::Open(
    const std::string& directory, const TrainOptions& options) {
  TP_ASSIGN_OR_RETURN(Package package, OpenPackage(directory, options.package));
  std::unique_ptr<TrainSession> session(new TrainSession());
  session->options_ = options;
  session->notes_ = package.notes;
  TP_ASSIGN_OR_RETURN(WeightLoader load, WeightsFrom(package, options.weights));
  TP_RETURN_IF_ERROR(session->Start(package.programs, load));
  return session;
}

absl::StatusOr<std::unique_ptr<TrainSession>> TrainSession::Create(
    std::vector<std::shared_ptr<const Module>> programs,
    std::vector<std::vector<at::Tensor>> weights, const TrainOptions& options) {
  std::unique_ptr<TrainSession> session(new TrainSession());
  session->options_ = options;
  TP_RETURN_IF_ERROR(
      session->Start(std::move(programs), GivenWeights(weights)));
  return session;
}

absl::Status TrainSession::Start(
    std::vector<std::shared_ptr<const Module>> programs,
    const WeightLoader& load) {
  if (programs.empty()) return absl::InvalidArgumentError("there are no ranks");
  const int ranks = static_cast<int>(programs.size());
  if (options_.output_rank < 0 || options_.output_rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("output rank ", options_.output_rank,
                     " is not one of the ", ranks, " ranks of the package"));
  }
  TP_ASSIGN_OR_RETURN(group_,
                      RankGroup::Create(programs[0]->mesh(), options_.group));
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(std::make_unique<Rank>());
  }
  return group_->Run(
      [&](int rank) { return StartRank(rank, programs[rank], load); });
}

absl::Status TrainSession::StartRank(int rank,
                                     std::shared_ptr<const Module> module,
                                     const WeightLoader& load) {
  if (module->function("backward") == nullptr ||
      module->function("reduce_gradients") == nullptr) {
    return NotATrainingPackage();
  }
  if (options_.f64) {
    std::unique_ptr<Module> promoted = CloneModule(*module);
    PromoteToF64(*promoted);
    module = std::move(promoted);
  }
  Rank& state = *ranks_[rank];
  ExecutorOptions options;
  options.pack_weights = false;
  const auto make = [&](const std::string& function,
                        const std::map<std::string, at::Tensor>& by_name)
      -> absl::StatusOr<std::unique_ptr<Executor>> {
    TP_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program,
                        Program::Compile(module, function, at::kCPU));
    std::vector<at::Tensor> weights;
    for (const ProgramArgument& weight : program->weights()) {
      auto found = by_name.find(weight.info.name);
      if (found == by_name.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("@", function, " uses a weight '", weight.info.name,
                         "' that @forward has not"));
      }
      weights.push_back(found->second);
    }
    return Executor::Create(std::move(program), std::move(weights),
                            group_->axes(rank), options);
  };
  TP_ASSIGN_OR_RETURN(std::shared_ptr<const Program> forward,
                      Program::Compile(module, "forward", at::kCPU));
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> weights, load(rank, *forward));
  TP_RETURN_IF_ERROR(CheckWeights(*forward, weights, options_.f64));
  state.training.axes = group_->axes(rank);
  for (size_t i = 0; i < weights.size(); ++i) {
    const ProgramArgument& weight = forward->weights()[i];
    if (!weight.info.is_trainable() && !weight.carried) continue;
    // Files are mapped; what is trained is memory of our own.
    weights[i] = weights[i].clone(at::MemoryFormat::Contiguous);
    TrainableParameter parameter;
    parameter.name = weight.info.name;
    parameter.aliases = weight.info.aliases;
    parameter.value = weights[i];
    parameter.type = weight.type;
    parameter.spec = weight.spec;
    for (const Placement& placement : parameter.spec) {
      if (!placement.is_shard()) continue;
      parameter.type.dims[placement.dim()] = placement.factor().dim_size();
    }
    llvm::SmallVector<int64_t, 4> sizes;
    for (const SymExpr& dim : parameter.type.dims) {
      sizes.push_back(dim.constant());
    }
    TP_ASSIGN_OR_RETURN(parameter.block,
                        BlockOf(sizes, parameter.spec, module->mesh(), rank));
    auto& list =
        weight.carried ? state.training.buffers : state.training.parameters;
    list.push_back(std::move(parameter));
  }
  state.training.gradients.resize(state.training.parameters.size());
  std::map<std::string, at::Tensor> by_name;
  for (size_t i = 0; i < weights.size(); ++i) {
    by_name[forward->weights()[i].info.name] = weights[i];
  }
  TP_ASSIGN_OR_RETURN(state.forward,
                      Executor::Create(std::move(forward), std::move(weights),
                                       group_->axes(rank), options));
  TP_ASSIGN_OR_RETURN(state.backward, make("backward", by_name));
  TP_ASSIGN_OR_RETURN(state.reduce, make("reduce_gradients", {}));
  for (const ProgramArgument& input : state.reduce->program().inputs()) {
    size_t slot = 0;
    while (slot < state.training.parameters.size() &&
           state.training.parameters[slot].name != input.info.name) {
      ++slot;
    }
    if (slot == state.training.parameters.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("@reduce_gradients names '", input.info.name,
                       "', which is no trainable parameter of @forward"));
    }
    state.slots.push_back(slot);
  }
  if (state.slots.size() != state.backward->program().results().size()) {
    return absl::InvalidArgumentError(
        "@backward and @reduce_gradients disagree about the parameters");
  }
  state.terms.resize(state.slots.size());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<at::Tensor>> TrainSession::Run(
    const NamedTensors& inputs, bool backward, double seed) {
  TP_ASSIGN_OR_RETURN(
      BoundInputs bound,
      BindRunInputs(ranks_[0]->forward->program(), inputs, options_.f64));
  const DefaultDType default_dtype(options_.f64);
  TP_RETURN_IF_ERROR(group_->Run([&](int rank) -> absl::Status {
    Rank& state = *ranks_[rank];
    RunOptions run;
    run.random_key = random_key_;
    run.evaluate = !backward;
    if (!backward) {
      at::NoGradGuard no_grad;
      TP_ASSIGN_OR_RETURN(state.results,
                          state.forward->Run(bound.tensors, bound.sizes, run));
      return absl::OkStatus();
    }
    Tape tape;
    run.tape = &tape;
    run.recompute = options_.recompute;
    {
      at::AutoGradMode recording(!options_.recompute);
      TP_ASSIGN_OR_RETURN(state.results,
                          state.forward->Run(bound.tensors, bound.sizes, run));
    }
    at::NoGradGuard no_grad;
    run.recompute = false;  // of @forward alone
    const at::Tensor one = at::full_like(state.results[0], seed);
    TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> gradients,
                        state.backward->Run({one}, bound.sizes, run));
    for (size_t i = 0; i < gradients.size(); ++i) {
      at::Tensor& sum = state.terms[i];
      if (!sum.defined()) {
        sum = std::move(gradients[i]);
      } else if (OwnsMemory(sum) && sum.is_non_overlapping_and_dense()) {
        sum.add_(gradients[i]);
      } else {
        sum = sum + gradients[i];
      }
    }
    return absl::OkStatus();
  }));
  const Rank& shown = *ranks_[options_.output_rank];
  std::vector<at::Tensor> outputs =
      OutputsOf(shown.forward->program(), shown.results);
  for (auto& rank : ranks_) {
    // An evaluation leaves the model as it is.
    if (backward) KeepState(*rank);
    rank->results.clear();
  }
  if (backward) ++random_key_;
  return outputs;
}

// What the model writes to its buffers stays for the next call.
void TrainSession::KeepState(Rank& rank) {
  at::NoGradGuard no_grad;
  const std::vector<ProgramResult>& results = rank.forward->program().results();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].weight < 0) continue;
    const std::string& name =
        rank.forward->program().weights()[results[i].weight].info.name;
    auto buffer = std::find_if(
        rank.training.buffers.begin(), rank.training.buffers.end(),
        [&](const TrainableParameter& each) { return each.name == name; });
    // In place: checkpoints read and write the same memory.
    buffer->value.copy_(rank.results[i].detach());
  }
}

absl::StatusOr<std::vector<at::Tensor>> TrainSession::ForwardBackward(
    const NamedTensors& inputs, double seed) {
  return Run(inputs, /*backward=*/true, seed);
}

absl::StatusOr<std::vector<at::Tensor>> TrainSession::Forward(
    const NamedTensors& inputs) {
  return Run(inputs, /*backward=*/false, 1);
}

absl::Status TrainSession::FinishGradients() {
  return group_->Run([&](int rank) -> absl::Status {
    at::NoGradGuard no_grad;
    Rank& state = *ranks_[rank];
    for (const at::Tensor& term : state.terms) {
      if (!term.defined()) {
        return absl::FailedPreconditionError("no backward pass came before");
      }
    }
    std::vector<at::Tensor> terms = std::exchange(state.terms, {});
    state.terms.resize(terms.size());
    TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> gradients,
                        state.reduce->Run(terms, Sizes()));
    terms.clear();
    for (size_t i = 0; i < gradients.size(); ++i) {
      state.training.gradients[state.slots[i]] = gradients[i].contiguous();
    }
    return absl::OkStatus();
  });
}

absl::Status TrainSession::ClearGradients() {
  return group_->Run([&](int rank) {
    Rank& state = *ranks_[rank];
    for (at::Tensor& term : state.terms) term.reset();
    for (at::Tensor& gradient : state.training.gradients) gradient.reset();
    return absl::OkStatus();
  });
}

absl::Status TrainSession::OnRanks(
    const std::function<absl::Status(int rank, RankTraining&)>& work) {
  return group_->Run([&](int rank) {
    at::NoGradGuard no_grad;
    return work(rank, ranks_[rank]->training);
  });
}

absl::StatusOr<NamedTensors> TrainSession::WholeTensors(
    const std::function<at::Tensor(const RankTraining&, size_t)>& pick) {
  at::NoGradGuard no_grad;
  NamedTensors tensors;
  const RankTraining& first = ranks_[0]->training;
  for (size_t i = 0; i < first.parameters.size(); ++i) {
    const TrainableParameter& parameter = first.parameters[i];
    const at::Tensor part = pick(first, i);
    if (!part.defined()) continue;
    TP_ASSIGN_OR_RETURN(
        at::Tensor whole,
        Assemble(parameter.type, parameter.spec, mesh(), {},
                 [&](int rank) { return pick(ranks_[rank]->training, i); }));
    if (IsWhole(parameter.spec)) whole = whole.contiguous();
    tensors.push_back({parameter.name, std::move(whole)});
  }
  return tensors;
}

absl::StatusOr<NamedTensors> TrainSession::WholeGradients() {
  return WholeTensors([](const RankTraining& training, size_t i) {
    return training.gradients[i];
  });
}

absl::StatusOr<NamedTensors> TrainSession::WholeParameters() {
  return WholeTensors([](const RankTraining& training, size_t i) {
    return training.parameters[i].value;
  });
}

}  // namespace tp
