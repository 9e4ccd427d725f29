// Element-wise reduction over several buffers, vectorized for the processor
// the program runs on. The result does not depend on which variant runs.
#ifndef TP_RUNTIME_COMM_REDUCE_KERNELS_H_
#define TP_RUNTIME_COMM_REDUCE_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/comm/communicator.h"

namespace tp {

// For i in [0, count): reduces sources[0][i], sources[1][i], ... in this order
// and writes the result to every targets[t][i]. A target may be exactly a
// source; other overlap is not allowed. At least one source. f16 and bf16
// accumulate in f32 and round once, to nearest even.
using ReduceKernel = void (*)(absl::Span<const std::byte* const> sources,
                              absl::Span<std::byte* const> targets,
                              int64_t count);

// The kernel for this processor.
ReduceKernel FindReduceKernel(CommDType dtype, ReduceOp op);

// All variants this processor can run, the plainest first; for tests.
struct ReduceKernelVariant {
  std::string_view name;
  ReduceKernel (*find)(CommDType dtype, ReduceOp op);
};
std::vector<ReduceKernelVariant> RunnableReduceKernelVariants();

}  // namespace tp

#endif  // TP_RUNTIME_COMM_REDUCE_KERNELS_H_
