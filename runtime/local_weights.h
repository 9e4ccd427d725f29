// The weights of one rank, checked against its program.
#ifndef TP_RUNTIME_LOCAL_WEIGHTS_H_
#define TP_RUNTIME_LOCAL_WEIGHTS_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/safetensors.h"
#include "runtime/program.h"

namespace tp {

// Local weights in the order of program.weights().
using WeightLoader = std::function<absl::StatusOr<std::vector<at::Tensor>>(
    int rank, const Program&)>;

// Maps the weights of a program from a rank's file.
absl::StatusOr<std::vector<at::Tensor>> ReadWeights(const SafetensorsFile& file,
                                                    const Program& program);

// Compares dtypes and shapes; with `f64` floats are converted. kDataLoss
// names the weight that does not fit.
absl::Status CheckWeights(const Program& program,
                          std::vector<at::Tensor>& weights, bool f64);

}  // namespace tp

#endif  // TP_RUNTIME_LOCAL_WEIGHTS_H_
