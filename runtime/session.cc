#include "runtime/session.h"

#include <c10/core/InferenceMode.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/default_dtype.h"
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
  TP_RETURN_IF_ERROR(session->Start(package.programs, WeightsOf(package)));
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

absl::StatusOr<std::vector<at::Tensor>> Session::Run(
    const NamedTensors& inputs, std::vector<RankTimes>* times) {
  TP_ASSIGN_OR_RETURN(
      BoundInputs bound,
      BindRunInputs(ranks_[0].executor->program(), inputs, options_.f64));
  if (times != nullptr) times->resize(ranks_.size());
  const DefaultDType default_dtype(options_.f64);
  TP_RETURN_IF_ERROR(group_->Run([&](int rank) {
    c10::InferenceMode inference;
    Rank& state = ranks_[rank];
    RunOptions options;
    options.times = times ? &(*times)[rank] : nullptr;
    options.random_key = runs_;
    options.evaluate = true;
    TP_ASSIGN_OR_RETURN(
        state.outputs,
        state.executor->Run(bound.tensors, bound.sizes, options));
    return absl::OkStatus();
  }));
  ++runs_;
  if (options_.check_replicas) TP_RETURN_IF_ERROR(CompareReplicas());
  std::vector<at::Tensor> outputs =
      std::move(ranks_[options_.output_rank].outputs);
  for (Rank& rank : ranks_) rank.outputs.clear();
  return outputs;
}

absl::Status Session::CompareReplicas() const {
  const std::vector<at::Tensor>& expected =
      ranks_[options_.output_rank].outputs;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::vector<at::Tensor>& outputs = ranks_[rank].outputs;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (SameBits(expected[i], outputs[i])) continue;
      return absl::InternalError(absl::StrCat(
          "output_", i, " of rank ", rank, " differs from that of rank ",
          options_.output_rank,
          ", though outputs are equal on all ranks; please report this"));
    }
  }
  return absl::OkStatus();
}

const std::vector<ProgramArgument>& Session::inputs() const {
  return ranks_[0].executor->program().inputs();
}

int64_t Session::WeightBytes(int rank) const {
  return ranks_[rank].weight_bytes;
}

}  // namespace tp
