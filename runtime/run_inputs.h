// From the tensors a user gives to the inputs and sizes of a program.
#ifndef TP_RUNTIME_RUN_INPUTS_H_
#define TP_RUNTIME_RUN_INPUTS_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/executor.h"
#include "runtime/tensor_io.h"

namespace tp {

struct BoundInputs {
  std::vector<at::Tensor> tensors;  // in the order of program.inputs()
  Sizes sizes;
};

// The whole sizes of an input that an earlier call left on the ranks.
using KeptSizes = std::optional<std::vector<int64_t>>;

// Finds every input by its name, or as input_<position>; checks dtypes and
// shapes, reads the symbols, checks the guards. Names that start with
// "output_" are ignored, other unknown ones are errors. With `convert_floats`
// an input of another floating dtype is converted. kInvalidArgument,
// or kFailedPrecondition for a guard; both name what to change. An input that
// is not given may be `kept` (by position); its tensor is then undefined.
absl::StatusOr<BoundInputs> BindRunInputs(const Program& program,
                                          const NamedTensors& given,
                                          bool convert_floats,
                                          llvm::ArrayRef<KeptSizes> kept = {});

}  // namespace tp

#endif  // TP_RUNTIME_RUN_INPUTS_H_
