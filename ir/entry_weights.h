// One set of weights for the functions of a module that were imported from
// several archives.
#ifndef TP_IR_ENTRY_WEIGHTS_H_
#define TP_IR_ENTRY_WEIGHTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "ir/weight_source.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// Gives weights that share a name, in one archive or as an alias in another,
// one name and all aliases in every function, and constants of the code a
// name of their own. `sources[i]` has the weights of functions()[i]. Returns
// all weights under their new names.
// kInvalidArgument: weights of one name differ in dtype, shape or content, or
// are tied in one function and apart in another.
absl::StatusOr<std::shared_ptr<const WeightSource>> ShareWeights(
    Module& module,
    llvm::ArrayRef<std::shared_ptr<const WeightSource>> sources);

}  // namespace tp

#endif  // TP_IR_ENTRY_WEIGHTS_H_
