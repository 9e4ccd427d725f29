// Tensors that lie split over one safetensors file per rank, as packages and
// checkpoints keep them, read in whatever layout is asked for.
#ifndef TP_IR_SHARDED_FILES_H_
#define TP_IR_SHARDED_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/safetensors.h"
#include "ir/weight_source.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace tp {

struct ShardedTensor {
  std::string key;  // its name in the files
  DType dtype = DType::kF32;
  llvm::SmallVector<int64_t, 4> sizes;  // whole
  ShardingSpec spec;                    // one placement per mesh axis

  // On some axis each rank keeps a value of its own (placement P).
  bool HasOwnValues() const;
  int64_t NumBytes() const;  // of the whole tensor
};

// Thread-safe.
class ShardedFiles {
 public:
  ShardedFiles() = default;
  // One file per rank of the mesh.
  ShardedFiles(Mesh mesh, std::vector<std::unique_ptr<SafetensorsFile>> files)
      : mesh_(std::move(mesh)), files_(std::move(files)) {}

  // kDataLoss, naming the file: a rank that must hold part of the tensor (the
  // first copy of it) has none of that dtype and size.
  absl::Status Check(const ShardedTensor& tensor) const;

  // Copies the block (one DimIntervals per dim, of the whole tensor) to `out`,
  // row-major without gaps. kInvalidArgument: it leaves the tensor or is not
  // of `out_bytes`. kFailedPrecondition: the tensor HasOwnValues.
  absl::Status ReadBlock(const ShardedTensor& tensor,
                         llvm::ArrayRef<DimIntervals> block, void* out,
                         size_t out_bytes) const;

  // What the file of one rank holds. kNotFound: nothing.
  absl::StatusOr<Bytes> ReadOwn(const ShardedTensor& tensor,
                                int64_t rank) const;

  // Calls `take` with the block's bytes, piece after piece, so that only a
  // piece is in memory.
  absl::Status Stream(
      const ShardedTensor& tensor, llvm::ArrayRef<DimIntervals> block,
      llvm::function_ref<absl::Status(const void* data, size_t size)> take)
      const;

 private:
  Mesh mesh_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

}  // namespace tp

#endif  // TP_IR_SHARDED_FILES_H_
