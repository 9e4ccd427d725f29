#include "runtime/session.h"

#include <c10/core/InferenceMode.h>

#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "runtime/default_dtype.h"
#include "runtime/shard_tensor.h"
#include "runtime/to_f64.h"

namespace tp {
namespace {

constexpr char kForward[] = "forward";

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
    return false;
  }
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace

Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Open(
    const std::string& directory, const SessionOptions& options) {
  TP_ASSIGN_OR_RETURN(Package package, OpenPackage(directory, options.package));
  std::unique_ptr<Session> session(new Session());
  session->options_ = options;
  session->notes_ = package.notes;
  TP_ASSIGN_OR_RETURN(WeightLoader load, WeightsFrom(package, options.weights));
  TP_RETURN_IF_ERROR(session->Start(package.programs, load));
  return session;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(
    std::vector<std::shared_ptr<const Module>> programs,
    std::vector<std::vector<at::Tensor>> weights,
    const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session());
  session->options_ = options;
  TP_RETURN_IF_ERROR(
      session->Start(std::move(programs), GivenWeights(weights)));
  return session;
}

absl::Status Session::Start(std::vector<std::shared_ptr<const Module>> programs,
                            const WeightLoader& load) {
  const int ranks = static_cast<int>(programs.size());
  if (ranks == 0) return absl::InvalidArgumentError("there are no ranks");
  if (options_.output_rank < 0 || options_.output_rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("output rank ", options_.output_rank,
                     " is not one of the ", ranks, " ranks of the package"));
  }
  TP_ASSIGN_OR_RETURN(group_,
                      RankGroup::Create(programs[0]->mesh(), options_.group));
  ranks_.resize(ranks);
  return group_->Run([&](int rank) {
    absl::Status status = StartRank(rank, programs[rank], load);
    return absl::IsResourceExhausted(status) ? Annotate(status, "while loading")
                                             : status;
  });
}

absl::Status Session::StartRank(int rank, std::shared_ptr<const Module> program,
                                const WeightLoader& load) {
  c10::InferenceMode inference;
  if (options_.f64) {
    std::unique_ptr<Module> promoted = CloneModule(*program);
    PromoteToF64(*promoted);
    program = std::move(promoted);
  }
  Rank& state = ranks_[rank];
  TP_ASSIGN_OR_RETURN(std::shared_ptr<const Program> compiled,
                      Program::Compile(program, kForward, at::kCPU));
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> weights, load(rank, *compiled));
  TP_RETURN_IF_ERROR(CheckWeights(*compiled, weights, options_.f64));
  for (const at::Tensor& weight : weights) {
    state.weight_bytes += static_cast<int64_t>(weight.nbytes());
  }
  TP_ASSIGN_OR_RETURN(state.executor,
                      Executor::Create(std::move(compiled), std::move(weights),
                                       group_->axes(rank), options_.executor));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<at::Tensor>> Session::Run(const NamedTensors& inputs,
                                                     CallReport* report) {
  TP_ASSIGN_OR_RETURN(BoundInputs bound,
                      BindRunInputs(program(), inputs, options_.f64));
  const SymbolValues& sizes = bound.sizes.values;
  const bool measure = report != nullptr && report->measure;
  if (measure) report->times.resize(ranks_.size());
  if (report != nullptr) report->written.clear();
  const DefaultDType default_dtype(options_.f64);
  TP_RETURN_IF_ERROR(group_->Run([&](int rank) {
    c10::InferenceMode inference;
    Rank& state = ranks_[rank];
    state.inputs = bound.tensors;
    for (size_t i = 0; i < state.inputs.size(); ++i) {
      const ProgramArgument& input = state.executor->program().inputs()[i];
      if (IsWhole(input.spec)) continue;
      TP_ASSIGN_OR_RETURN(state.inputs[i], ShardOf(state.inputs[i], input.spec,
                                                   mesh(), rank, sizes));
    }
    RunOptions options;
    options.times = measure ? &report->times[rank] : nullptr;
    options.random_key = runs_;
    options.evaluate = true;
    TP_ASSIGN_OR_RETURN(
        state.results, state.executor->Run(state.inputs, bound.sizes, options));
    return absl::OkStatus();
  }));
  ++runs_;
  if (options_.check_replicas) TP_RETURN_IF_ERROR(CompareReplicas());
  std::vector<at::Tensor> outputs;
  for (size_t i = 0; i < program().results().size(); ++i) {
    const ProgramResult& result = program().results()[i];
    if (!result.is_output && (result.input < 0 || report == nullptr)) continue;
    TP_ASSIGN_OR_RETURN(at::Tensor whole, WholeResult(i, sizes));
    if (result.is_output) {
      outputs.push_back(std::move(whole));
    } else {
      report->written.emplace_back(program().inputs()[result.input].info.name,
                                   std::move(whole));
    }
  }
  KeepState();
  for (Rank& rank : ranks_) {
    rank.inputs.clear();
    rank.results.clear();
  }
  return outputs;
}

absl::StatusOr<at::Tensor> Session::WholeResult(
    size_t index, const SymbolValues& sizes) const {
  const ProgramResult& result = program().results()[index];
  if (IsWhole(result.spec)) return ranks_[options_.output_rank].results[index];
  return Assemble(result.type, result.spec, mesh(), sizes,
                  [&](int rank) { return ranks_[rank].results[index]; });
}

void Session::KeepState() {
  c10::InferenceMode inference;
  for (Rank& rank : ranks_) {
    const std::vector<ProgramResult>& results =
        rank.executor->program().results();
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].weight < 0) continue;
      at::Tensor value = rank.results[i].contiguous();
      // The caller may write to its own tensors.
      for (const at::Tensor& input : rank.inputs) {
        if (value.is_alias_of(input)) value = value.clone();
      }
      rank.executor->SetWeight(results[i].weight, std::move(value));
    }
  }
}

absl::StatusOr<NamedTensors> Session::State() const {
  NamedTensors state;
  const std::vector<ProgramArgument>& weights = program().weights();
  for (const ProgramResult& result : program().results()) {
    if (result.weight < 0) continue;
    TP_ASSIGN_OR_RETURN(
        at::Tensor whole,
        Assemble(result.type, result.spec, mesh(), {}, [&](int rank) {
          return ranks_[rank].executor->weight(result.weight);
        }));
    state.emplace_back(weights[result.weight].info.name, std::move(whole));
  }
  return state;
}

absl::Status Session::SetState(const NamedTensors& state) {
  TP_ASSIGN_OR_RETURN(NamedTensors now, State());
  std::map<std::string, at::Tensor> given(state.begin(), state.end());
  for (auto& [name, tensor] : now) {
    auto found = given.find(name);
    if (found == given.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the state lacks '", name, "'"));
    }
    at::Tensor value = found->second;
    if (options_.f64 && value.is_floating_point())
      value = value.to(at::kDouble);
    if (value.sizes() != tensor.sizes() ||
        value.scalar_type() != tensor.scalar_type()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the state's '", name, "' is ", toString(value.scalar_type()), "[",
          absl::StrJoin(value.sizes(), ","), "], the model's ",
          toString(tensor.scalar_type()), "[",
          absl::StrJoin(tensor.sizes(), ","), "]"));
    }
    tensor = value.clone();
    given.erase(found);
  }
  if (!given.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model keeps no state '", given.begin()->first, "'"));
  }
  size_t next = 0;
  for (const ProgramResult& result : program().results()) {
    if (result.weight < 0) continue;
    const at::Tensor& whole = now[next++].second;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      TP_ASSIGN_OR_RETURN(at::Tensor part,
                          ShardOf(whole, result.spec, mesh(), rank, {}));
      ranks_[rank].executor->SetWeight(result.weight, std::move(part));
    }
  }
  return absl::OkStatus();
}

absl::Status Session::CompareReplicas() const {
  const std::vector<at::Tensor>& expected =
      ranks_[options_.output_rank].results;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::vector<at::Tensor>& results = ranks_[rank].results;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (!IsWhole(program().results()[i].spec)) continue;
      if (SameBits(expected[i], results[i])) continue;
      return absl::InternalError(absl::StrCat(
          "output_", i, " of rank ", rank, " differs from that of rank ",
          options_.output_rank,
          ", though outputs are equal on all ranks; please report this"));
    }
  }
  return absl::OkStatus();
}

const std::vector<ProgramArgument>& Session::inputs() const {
  return program().inputs();
}

int64_t Session::WeightBytes(int rank) const {
  return ranks_[rank].weight_bytes;
}

}  // namespace tp
