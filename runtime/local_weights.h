// The weights of one rank, checked against its program.
#ifndef TP_RUNTIME_LOCAL_WEIGHTS_H_
#define TP_RUNTIME_LOCAL_WEIGHTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/weight_source.h"
#include "runtime/package_reader.h"
#include "runtime/program.h"

namespace tp {

// Local weights in the order of program.weights().
using WeightLoader = std::function<absl::StatusOr<std::vector<at::Tensor>>(
    int rank, const Program&)>;

// Maps weights from the ranks' files; the package must outlive the loader.
WeightLoader WeightsOf(const Package& package);
// The same, but with the bytes of `given`, by original name, where it has them
// (buffers may come from the package). Every name of `given` is accounted
// for: see MatchWeights. Each rank reads its own part only.
WeightLoader WeightsByName(const Package& package,
                           std::shared_ptr<const WeightSource> given);
// WeightsByName with what lies at `path` (OpenWeights), or WeightsOf if that
// is empty.
absl::StatusOr<WeightLoader> WeightsFrom(const Package& package,
                                         const std::string& path);
// Tensors that are there already, by rank; they must outlive the loader.
WeightLoader GivenWeights(const std::vector<std::vector<at::Tensor>>& weights);

// Compares dtypes and shapes; with `f64` floats are converted. kDataLoss
// names the weight that does not fit.
absl::Status CheckWeights(const Program& program,
                          std::vector<at::Tensor>& weights, bool f64);

}  // namespace tp

#endif  // TP_RUNTIME_LOCAL_WEIGHTS_H_
