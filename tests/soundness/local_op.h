// Runs the ops of a rank's program one by one under LibTorch's autograd.
#ifndef TESTS_SOUNDNESS_LOCAL_OP_H_
#define TESTS_SOUNDNESS_LOCAL_OP_H_

#include <ATen/ATen.h>

#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"

namespace tp::soundness {

// One op over its flattened operands (undefined: absent).
absl::StatusOr<std::vector<at::Tensor>> RunOp(
    const Op& op, llvm::ArrayRef<at::Tensor> operands);

// A function without communication over its arguments.
absl::StatusOr<std::vector<at::Tensor>> RunFunction(
    const Function& function, llvm::ArrayRef<at::Tensor> arguments);

}  // namespace tp::soundness

#endif  // TESTS_SOUNDNESS_LOCAL_OP_H_
