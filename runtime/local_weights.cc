#include "runtime/local_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "ir/text.h"
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

// Maps the weights of a program from a rank's file.
absl::StatusOr<std::vector<at::Tensor>> ReadWeights(const SafetensorsFile& file,
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

}  // namespace

WeightLoader WeightsOf(const Package& package) {
  return [&package](int rank, const Program& program) {
    return ReadWeights(*package.weights[rank], program);
  };
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
