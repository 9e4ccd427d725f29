// The weights of an imported model: those in its archive, and the tensor
// constants of its code.
#ifndef TP_FRONTEND_IMPORTED_WEIGHTS_H_
#define TP_FRONTEND_IMPORTED_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/weight_source.h"

namespace tp {

// Everything of `archive`, and the constants under their names.
std::shared_ptr<const WeightSource> MakeImportedWeights(
    std::shared_ptr<const WeightSource> archive,
    std::vector<std::pair<std::string, at::Tensor>> constants);

}  // namespace tp

#endif  // TP_FRONTEND_IMPORTED_WEIGHTS_H_
