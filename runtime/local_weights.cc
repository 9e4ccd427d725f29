#include "runtime/local_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/shard_block.h"
#include "ir/status.h"
#include "ir/text.h"
#include "ir/weights_by_name.h"
#include "runtime/tensor_io.h"

namespace tp {
namespace {

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

// Maps a weight from a rank's file.
absl::StatusOr<at::Tensor> ReadWeight(const SafetensorsFile& file,
                                      const std::string& name) {
  absl::StatusOr<const WeightInfo*> found = file.Get(name);
  if (!found.ok()) return Annotate(found.status(), file.path());
  return ReadTensor(file, **found);
}

// A rank's part of a whole weight.
absl::StatusOr<at::Tensor> ReadPart(const WeightSource& source,
                                    const WeightInfo& info,
                                    const ProgramArgument& weight,
                                    const Mesh& mesh, int rank) {
  ShardingSpec spec = weight.spec;
  spec.resize(mesh.ndim());
  TP_ASSIGN_OR_RETURN(std::vector<DimIntervals> block,
                      BlockOf(info.sizes, spec, mesh, rank));
  TP_ASSIGN_OR_RETURN(Bytes storage, source.View(info));
  std::vector<int64_t> sizes;
  for (int64_t extent : ExtentsOf(block)) sizes.push_back(extent);
  at::Tensor part = at::empty(sizes, ScalarTypeOf(info.dtype));
  TP_RETURN_IF_ERROR(
      Annotate(CopyBlock(info, storage, block, part.data_ptr(), part.nbytes()),
               info.name));
  return part;
}

}  // namespace

WeightLoader WeightsOf(const Package& package) {
  return [&package](int rank, const Program& program)
             -> absl::StatusOr<std::vector<at::Tensor>> {
    std::vector<at::Tensor> weights;
    for (const ProgramArgument& weight : program.weights()) {
      TP_ASSIGN_OR_RETURN(at::Tensor tensor,
                          ReadWeight(*package.weights[rank], weight.info.name));
      weights.push_back(std::move(tensor));
    }
    return weights;
  };
}

WeightLoader WeightsByName(const Package& package,
                           std::shared_ptr<const WeightSource> given) {
  return [&package, given](int rank, const Program& program)
             -> absl::StatusOr<std::vector<at::Tensor>> {
    // As it was written: `program` may have been promoted to f64.
    const Function& function =
        *package.programs[rank]->function(program.function().name());
    MatchOptions options;
    // Those of other entries.
    for (const auto& other : package.programs[rank]->functions()) {
      for (const ArgumentInfo& info : other->arguments()) {
        options.known.push_back(info.name);
        options.known.insert(options.known.end(), info.aliases.begin(),
                             info.aliases.end());
      }
    }
    TP_ASSIGN_OR_RETURN(MatchedWeights matched,
                        MatchWeights(function, *given, options));
    std::vector<at::Tensor> weights;
    size_t argument = 0;
    for (const ProgramArgument& weight : program.weights()) {
      while (!function.arguments()[argument].is_weight()) ++argument;
      const WeightInfo* info = matched.weights[argument++];
      absl::StatusOr<at::Tensor> tensor =
          info == nullptr ? ReadWeight(*package.weights[rank], weight.info.name)
                          : ReadPart(*given, *info, weight, package.mesh, rank);
      if (!tensor.ok()) return tensor.status();
      weights.push_back(*std::move(tensor));
    }
    return weights;
  };
}

absl::StatusOr<WeightLoader> WeightsFrom(const Package& package,
                                         const std::string& path) {
  if (path.empty()) return WeightsOf(package);
  TP_ASSIGN_OR_RETURN(std::shared_ptr<const WeightSource> given,
                      OpenWeights(path));
  const WeightLoader load = WeightsByName(package, std::move(given));
  return WeightLoader([load, path](int rank, const Program& program)
                          -> absl::StatusOr<std::vector<at::Tensor>> {
    auto weights = load(rank, program);
    if (!weights.ok()) return Annotate(weights.status(), path);
    return weights;
  });
}

WeightLoader GivenWeights(const std::vector<std::vector<at::Tensor>>& weights) {
  return [&weights](int rank,
                    const Program&) -> absl::StatusOr<std::vector<at::Tensor>> {
    return weights[rank];
  };
}

absl::Status CheckWeights(const Program& program,
                          std::vector<at::Tensor>& weights, bool f64) {
  for (size_t i = 0; i < weights.size(); ++i) {
    absl::Status status = CheckWeight(program.weights()[i], weights[i], f64);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("rank ", program.rank()));
    }
  }
  return absl::OkStatus();
}

}  // namespace tp
