// The archive that LibTorch is given to load in place of the real one: the
// same program and constants, with every weight shrunk to one element. Loading
// it takes no time and no memory to speak of, and reading such a weight by
// mistake gives zeros and stays in bounds.
#ifndef TP_FRONTEND_SKELETON_ARCHIVE_H_
#define TP_FRONTEND_SKELETON_ARCHIVE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "frontend/archive_check.h"

namespace tp {

struct SkeletonOptions {
  // Constants of the graph are real: LibTorch compares them while loading.
  uint64_t max_constant_bytes = uint64_t{256} << 20;
};

// A whole archive in memory, stored uncompressed, for torch::jit::load. In its
// data.pkl each storage has one element and each tensor keeps its sizes with
// offset 0 and strides 0; tensors that share a storage still do. Records that
// loading does not need (traced inputs, extra files) are left out.
// Pass at::kCPU as the device to load to, so that nothing is moved elsewhere.
// Unimplemented when the constants are larger than the limit.
absl::StatusOr<std::string> BuildSkeleton(const CheckedArchive& archive,
                                          const SkeletonOptions& options = {});

}  // namespace tp

#endif  // TP_FRONTEND_SKELETON_ARCHIVE_H_
