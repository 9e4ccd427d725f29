#include "runtime/session.h"

#include <c10/core/InferenceMode.h>

#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/default_dtype.h"
#include "runtime/shard_tensor.h"
#include "runtime/to_f64.h"

namespace tp {
namespace {

constexpr char kForward[] = "forward";

// Functions of a training package that no caller starts with.
bool IsEntry(const Function& function) {
  return function.name() != "backward" && function.name() != "reduce_gradients";
}

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
  TP_RETURN_IF_ERROR(ChooseEntries(*programs[0]));
  ranks_.resize(ranks);
  return group_->Run([&](int rank) {
    absl::Status status = StartRank(rank, programs[rank], load);
    return absl::IsResourceExhausted(status) ? Annotate(status, "while loading")
                                             : status;
  });
}

absl::Status Session::ChooseEntries(const Module& module) {
  std::vector<std::string> names;
  for (const auto& function : module.functions()) {
    if (IsEntry(*function)) names.push_back(function->name());
  }
  std::string wanted = options_.entry;
  if (wanted.empty()) {
    wanted = names.size() == 1 || options_.all_entries ? names[0] : kForward;
  }
  if (!llvm::is_contained(names, wanted)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options_.entry.empty()
            ? "the package has several entries: choose one with --entry"
            : absl::StrCat("the package has no entry '", wanted, "'"),
        "; its entries are ", absl::StrJoin(names, ", ")));
  }
  entries_ = {wanted};
  for (const std::string& name : names) {
    if (options_.all_entries && name != wanted) entries_.push_back(name);
  }
  return absl::OkStatus();
}

absl::Status Session::StartRank(int rank, std::shared_ptr<const Module> program,
                                const WeightLoader& load) {
  c10::InferenceMode inference;
  if (options_.f64) {
    std::unique_ptr<Module> promoted = CloneModule(*program);
    PromoteToF64(*promoted);
    program = std::move(promoted);
  }
  std::map<std::string, at::Tensor> weights;
  PackedWeights packed;
  for (const std::string& entry : entries_) {
    TP_RETURN_IF_ERROR(AddEntry(rank, program, entry, load, weights, packed));
  }
  return absl::OkStatus();
}

// `weights` and `packed` are those of the entries before.
absl::Status Session::AddEntry(int rank, std::shared_ptr<const Module> program,
                               const std::string& entry,
                               const WeightLoader& load,
                               std::map<std::string, at::Tensor>& weights,
                               PackedWeights& packed) {
  Rank& state = ranks_[rank];
  TP_ASSIGN_OR_RETURN(std::shared_ptr<const Program> compiled,
                      Program::Compile(program, entry, at::kCPU));
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> own, load(rank, *compiled));
  const std::vector<ProgramArgument>& arguments = compiled->weights();
  for (size_t i = 0; i < own.size() && i < arguments.size(); ++i) {
    auto known = weights.find(arguments[i].info.name);
    if (known != weights.end()) own[i] = known->second;
  }
  TP_RETURN_IF_ERROR(CheckWeights(*compiled, own, options_.f64));
  for (size_t i = 0; i < own.size() && i < arguments.size(); ++i) {
    // Nobody else may hold what packing lets go.
    const at::Tensor kept = entries_.size() > 1 ? own[i] : at::Tensor();
    if (!weights.try_emplace(arguments[i].info.name, kept).second) continue;
    state.weight_bytes += static_cast<int64_t>(own[i].nbytes());
  }
  ExecutorOptions options = options_.executor;
  options.packed = &packed;
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                      Executor::Create(std::move(compiled), std::move(own),
                                       group_->axes(rank), options));
  state.executors.push_back(std::move(executor));
  return absl::OkStatus();
}

int Session::FindEntry(const std::string& name) const {
  const auto found = llvm::find(entries_, name);
  return found == entries_.end() ? -1
                                 : static_cast<int>(found - entries_.begin());
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
      const ProgramArgument& input = state.executors[0]->program().inputs()[i];
      if (IsWhole(input.spec)) continue;
      TP_ASSIGN_OR_RETURN(state.inputs[i], ShardOf(state.inputs[i], input.spec,
                                                   mesh(), rank, sizes));
    }
    RunOptions options;
    options.times = measure ? &report->times[rank] : nullptr;
    options.random_key = runs_;
    options.evaluate = true;
    TP_ASSIGN_OR_RETURN(state.results, state.executors[0]->Run(
                                           state.inputs, bound.sizes, options));
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
        rank.executors[0]->program().results();
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].weight < 0) continue;
      at::Tensor value = rank.results[i].contiguous();
      // The caller may write to its own tensors.
      for (const at::Tensor& input : rank.inputs) {
        if (value.is_alias_of(input)) value = value.clone();
      }
      rank.executors[0]->SetWeight(results[i].weight, std::move(value));
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
          return ranks_[rank].executors[0]->weight(result.weight);
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
      ranks_[rank].executors[0]->SetWeight(result.weight, std::move(part));
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
