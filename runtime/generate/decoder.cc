#include "runtime/generate/decoder.h"

#include <c10/core/InferenceMode.h>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/default_dtype.h"
#include "runtime/shard_tensor.h"

namespace tp {
namespace {

constexpr char kTokens[] = "input_ids";
constexpr char kTargetTokens[] = "decoder_input_ids";

}  // namespace

const ProgramArgument* FindInput(const Program& program,
                                 const std::string& name) {
  for (const ProgramArgument& input : program.inputs()) {
    if (input.info.name == name) return &input;
  }
  return nullptr;
}

std::string TokenInput(const Program& program) {
  for (const char* name : {kTargetTokens, kTokens}) {
    if (FindInput(program, name) != nullptr) return name;
  }
  return "";
}

int BatchDim(const Program& program, const std::string& input) {
  const ProgramArgument* tokens = FindInput(program, TokenInput(program));
  const ProgramArgument* cache = FindInput(program, input);
  if (tokens == nullptr || cache == nullptr || tokens->type.ndim() == 0) {
    return -1;
  }
  int found = -1;
  for (int dim = 0; dim < cache->type.ndim(); ++dim) {
    if (cache->type.dims[dim] != tokens->type.dims[0]) continue;
    if (found >= 0) return -1;
    found = dim;
  }
  return found;
}

std::vector<KeptSizes> Decoder::SizesOfCaches(const Program& program,
                                              int entry) const {
  std::vector<KeptSizes> sizes(program.inputs().size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const ProgramArgument& input = program.inputs()[i];
    auto found = caches_[0].find({entry, input.info.name});
    if (found == caches_[0].end()) continue;
    sizes[i] = found->second.sizes().vec();
    for (const Placement& placement : input.spec) {
      if (!placement.is_shard()) continue;
      const auto whole = input.type.dims[placement.dim()].AsConstant();
      if (whole) (*sizes[i])[placement.dim()] = *whole;
    }
  }
  return sizes;
}

absl::StatusOr<std::vector<at::Tensor>> Decoder::Call(
    int entry, const NamedTensors& inputs) {
  const Program& program = session_.program(entry);
  const bool f64 = session_.options().f64;
  TP_ASSIGN_OR_RETURN(
      BoundInputs bound,
      BindRunInputs(program, inputs, f64, SizesOfCaches(program, entry)));
  const DefaultDType default_dtype(f64);
  std::vector<std::vector<at::Tensor>> outputs(session_.num_ranks());
  const absl::Status status = session_.OnRanks(
      [&](int rank) { return RunRank(rank, entry, bound, outputs[rank]); });
  ++calls_;
  if (!status.ok()) {
    Forget();
    return status;
  }
  return std::move(outputs[session_.options().output_rank]);
}

absl::Status Decoder::RunRank(int rank, int entry, const BoundInputs& bound,
                              std::vector<at::Tensor>& outputs) {
  c10::InferenceMode inference;
  Executor& executor = session_.executor(rank, entry);
  const Program& program = executor.program();
  Caches& caches = caches_[rank];
  std::vector<at::Tensor> inputs = bound.tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ProgramArgument& input = program.inputs()[i];
    if (!inputs[i].defined()) {
      inputs[i] = caches.at({entry, input.info.name});
    } else if (!IsWhole(input.spec)) {
      TP_ASSIGN_OR_RETURN(inputs[i],
                          ShardOf(inputs[i], input.spec, session_.mesh(), rank,
                                  bound.sizes.values));
    }
  }
  RunOptions options;
  options.random_key = calls_;
  options.evaluate = true;
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> results,
                      executor.Run(inputs, bound.sizes, options));
  for (size_t i = 0; i < results.size(); ++i) {
    const ProgramResult& result = program.results()[i];
    if (result.weight >= 0) {
      executor.SetWeight(result.weight, results[i].contiguous());
      if (result.is_output) outputs.push_back(results[i]);
    } else if (result.input >= 0) {
      caches[{entry, program.inputs()[result.input].info.name}] = results[i];
    } else if (!result.feeds_function.empty()) {
      const int target = session_.FindEntry(result.feeds_function);
      if (target >= 0) caches[{target, result.feeds_input}] = results[i];
    } else if (result.is_output) {
      outputs.push_back(results[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status Decoder::SelectRows(const at::Tensor& rows) {
  std::map<Key, int> dims;
  for (const auto& [key, cache] : caches_[0]) {
    const Program& program = session_.program(key.first);
    const int dim = BatchDim(program, key.second);
    if (dim < 0) {
      return absl::UnimplementedError(absl::StrCat(
          "the cache '", key.second, "' of @", program.name(),
          " has no dim that is the batch's, so its rows cannot be reordered; "
          "compile with example inputs of two batch sizes"));
    }
    dims[key] = dim;
  }
  const absl::Status status = session_.OnRanks([&](int rank) {
    c10::InferenceMode inference;
    for (auto& [key, cache] : caches_[rank]) {
      cache = cache.index_select(dims[key], rows);
    }
    return absl::OkStatus();
  });
  if (!status.ok()) Forget();
  return status;
}

int64_t Decoder::CacheBytes(int rank) const {
  int64_t bytes = 0;
  for (const auto& [key, cache] : caches_[rank]) {
    bytes += static_cast<int64_t>(cache.nbytes());
  }
  return bytes;
}

void Decoder::Forget() {
  for (Caches& caches : caches_) caches.clear();
}

}  // namespace tp
