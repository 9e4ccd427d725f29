#include "runtime/session.h"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "runtime/comm/threads_communicator.h"
#include "runtime/to_f64.h"

namespace tp {
namespace {

constexpr char kForward[] = "forward";

// In f64, what PyTorch picks where an op names no dtype (zeros, integers
// divided) is f64 too, as in the reference. Process-wide, for its life.
class DefaultDType {
 public:
  explicit DefaultDType(bool f64) : before_(c10::get_default_dtype()) {
    if (f64) c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  }
  ~DefaultDType() { c10::set_default_dtype(before_); }
  DefaultDType(const DefaultDType&) = delete;
  DefaultDType& operator=(const DefaultDType&) = delete;

 private:
  caffe2::TypeMeta before_;
};

absl::StatusOr<std::vector<at::Tensor>> LoadWeights(const SafetensorsFile& file,
                                                    const Program& program) {
  std::vector<at::Tensor> weights;
  for (const ProgramArgument& weight : program.weights()) {
    absl::StatusOr<const WeightInfo*> found = file.Get(weight.info.name);
    if (!found.ok()) return Annotate(found.status(), file.path());
    const WeightInfo* info = *found;
    TP_ASSIGN_OR_RETURN(at::Tensor tensor, ReadTensor(file, *info));
    weights.push_back(std::move(tensor));
  }
  return weights;
}

absl::Status CheckWeight(const ProgramArgument& weight, at::Tensor& tensor,
                         bool f64) {
  const at::ScalarType wanted = ScalarTypeOf(weight.type.dtype);
  if (f64 && wanted == at::kDouble) tensor = tensor.to(wanted);
  bool fits =
      tensor.scalar_type() == wanted && tensor.dim() == weight.type.ndim();
  for (int dim = 0; fits && dim < weight.type.ndim(); ++dim) {
    fits = weight.type.dims[dim].AsConstant() ==
           std::optional<int64_t>(tensor.size(dim));
  }
  if (fits) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "weight '", weight.info.name, "' is ", toString(tensor.scalar_type()),
      "[", absl::StrJoin(tensor.sizes(), ","), "], the program needs ",
      ToString(weight.type)));
}

absl::Status OutOfMemory(int rank) {
  return absl::ResourceExhaustedError(
      absl::StrCat("rank ", rank, ": out of memory while loading"));
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
  TP_RETURN_IF_ERROR(session->Start(
      package.programs, [&package](int rank, const Program& program) {
        return LoadWeights(*package.weights[rank], program);
      }));
  return session;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(
    std::vector<std::shared_ptr<const Module>> programs,
    std::vector<std::vector<at::Tensor>> weights,
    const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session());
  session->options_ = options;
  TP_RETURN_IF_ERROR(session->Start(
      std::move(programs),
      [&weights](int rank,
                 const Program&) -> absl::StatusOr<std::vector<at::Tensor>> {
        return weights[rank];
      }));
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
  mesh_ = programs[0]->mesh();
  const int cores =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  threads_ =
      options_.threads > 0 ? options_.threads : std::max(1, cores / ranks);
  ThreadsOptions communication;
  communication.timeout = options_.timeout;
  TP_ASSIGN_OR_RETURN(auto worlds,
                      MakeThreadsCommunicators(ranks, communication));
  ranks_.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_[rank].world = std::move(worlds[rank]);
  }
  TP_ASSIGN_OR_RETURN(
      rank_threads_, RankThreads::Create(ranks, [this](int) {
        at::set_num_threads(threads_);
      }));
  std::vector<absl::Status> statuses(ranks);
  rank_threads_->RunAll([&](int rank) {
    // An exception may not leave the thread.
    try {
      statuses[rank] = StartRank(rank, programs[rank], load);
    } catch (const c10::OutOfMemoryError& error) {
      statuses[rank] = OutOfMemory(rank);
    } catch (const std::bad_alloc&) {
      statuses[rank] = OutOfMemory(rank);
    } catch (const c10::Error& error) {
      statuses[rank] = absl::InternalError(
          absl::StrCat("rank ", rank, ": ", error.what_without_backtrace()));
    } catch (const std::exception& error) {
      statuses[rank] = absl::InternalError(
          absl::StrCat("rank ", rank, ": ", error.what()));
    }
    if (!statuses[rank].ok()) ranks_[rank].world->Abort(statuses[rank]);
  });
  for (const absl::Status& status : statuses) TP_RETURN_IF_ERROR(status);
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
  Rank& state = ranks_[rank];
  TP_ASSIGN_OR_RETURN(std::shared_ptr<const Program> compiled,
                      Program::Compile(program, kForward, at::kCPU));
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> weights, load(rank, *compiled));
  for (size_t i = 0; i < weights.size(); ++i) {
    absl::Status status =
        CheckWeight(compiled->weights()[i], weights[i], options_.f64);
    if (!status.ok()) return Annotate(status, absl::StrCat("rank ", rank));
    state.weight_bytes += static_cast<int64_t>(weights[i].nbytes());
  }
  std::vector<Communicator*> axes;
  const Mesh& mesh = program->mesh();
  if (mesh.ndim() == 1) {
    axes.push_back(state.world.get());
  } else {
    for (int axis = 0; axis < mesh.ndim(); ++axis) {
      std::vector<int> group;
      for (int64_t member : mesh.Group(axis, rank)) {
        group.push_back(static_cast<int>(member));
      }
      TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                          state.world->MakeSubgroup(group));
      axes.push_back(communicator.get());
      state.groups.push_back(std::move(communicator));
    }
  }
  TP_ASSIGN_OR_RETURN(state.executor,
                      Executor::Create(std::move(compiled), std::move(weights),
                                       std::move(axes), options_.executor));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<at::Tensor>> Session::Run(
    const NamedTensors& inputs, std::vector<RankTimes>* times) {
  TP_RETURN_IF_ERROR(broken_);
  TP_ASSIGN_OR_RETURN(
      BoundInputs bound,
      BindRunInputs(ranks_[0].executor->program(), inputs, options_.f64));
  if (times != nullptr) times->resize(ranks_.size());
  const DefaultDType default_dtype(options_.f64);
  rank_threads_->RunAll([&](int rank) {
    c10::InferenceMode inference;
    Rank& state = ranks_[rank];
    state.outputs = state.executor->Run(bound.tensors, bound.sizes,
                                        times ? &(*times)[rank] : nullptr);
    if (!state.outputs.ok()) state.world->Abort(state.outputs.status());
  });
  for (const Rank& rank : ranks_) {
    if (!rank.outputs.ok()) broken_ = rank.outputs.status();
  }
  TP_RETURN_IF_ERROR(broken_);
  if (options_.check_replicas) TP_RETURN_IF_ERROR(CompareReplicas());
  std::vector<at::Tensor> outputs =
      *std::move(ranks_[options_.output_rank].outputs);
  for (Rank& rank : ranks_) rank.outputs = std::vector<at::Tensor>();
  return outputs;
}

absl::Status Session::CompareReplicas() const {
  const std::vector<at::Tensor>& expected =
      *ranks_[options_.output_rank].outputs;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::vector<at::Tensor>& outputs = *ranks_[rank].outputs;
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
