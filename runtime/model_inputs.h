// From what a user gives for the arguments of a model to the inputs of the
// program it was compiled to.
#ifndef TP_RUNTIME_MODEL_INPUTS_H_
#define TP_RUNTIME_MODEL_INPUTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/model_argument.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/tensor_io.h"

namespace tp {

// Names tensors by their argument and leaves out those of scalars that are
// compiled in. kFailedPrecondition for a scalar of another value than the
// compiled one, or an argument that the program was compiled without. What
// names no argument stays.
absl::StatusOr<NamedTensors> ProgramInputs(
    llvm::ArrayRef<ModelArgument> arguments, const NamedTensors& given);

// Whether `name`, or "input_<i>", is a scalar that is compiled in;
// kFailedPrecondition if it is with another value than `value`.
absl::StatusOr<bool> IsCompiledIn(llvm::ArrayRef<ModelArgument> arguments,
                                  const std::string& name,
                                  const std::string& value);

// Name and value of every scalar that is compiled in.
std::vector<std::pair<std::string, std::string>> CompiledIn(
    llvm::ArrayRef<ModelArgument> arguments);

}  // namespace tp

#endif  // TP_RUNTIME_MODEL_INPUTS_H_
