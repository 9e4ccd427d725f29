// Where the bytes of named weights are: an archive or a safetensors file. The
// weight sharder reads blocks of them; nothing else touches real weights.
#ifndef TP_IR_WEIGHT_SOURCE_H_
#define TP_IR_WEIGHT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "ir/mapped_file.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// A strided view of a storage, as PyTorch keeps tensors. Two weights with
// equal storage, offset, sizes and strides are one weight under two names.
struct WeightInfo {
  std::string name;
  DType dtype = DType::kF32;
  llvm::SmallVector<int64_t, 4> sizes;    // global
  llvm::SmallVector<int64_t, 4> strides;  // elements; 0 when expanded
  int64_t offset = 0;         // elements, of the first one in its storage
  std::string storage;        // names the storage within its source
  int64_t storage_bytes = 0;  // of the whole storage

  int64_t NumElements() const;
  int64_t NumBytes() const { return NumElements() * ByteSize(dtype); }
  // Elements in row-major order without gaps.
  bool IsContiguous() const;
};

// Thread-safe once made.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // In the order of the source, each name once.
  llvm::ArrayRef<WeightInfo> weights() const { return weights_; }

  // Null when there is no such weight.
  const WeightInfo* Find(llvm::StringRef name) const;

  // The same, with an error that says why: NotFound, or Unimplemented for a
  // tensor of a dtype this project has not.
  absl::StatusOr<const WeightInfo*> Get(llvm::StringRef name) const;

  // The bytes of the weight's whole storage; they stay valid as long as a copy
  // of the result lives. Checksums are verified the first time (DataLoss).
  virtual absl::StatusOr<Bytes> View(const WeightInfo& weight) const = 0;

 protected:
  // False if the name is taken.
  bool Add(WeightInfo weight);
  // Remembers why a tensor is not among the weights.
  void AddUnsupported(std::string name, std::string why);

 private:
  std::vector<WeightInfo> weights_;
  llvm::StringMap<size_t> by_name_;
  llvm::StringMap<std::string> unsupported_;
};

// The indices [start, start + extent) of a dim.
struct Interval {
  int64_t start = 0;
  int64_t extent = 0;
};

// Which indices of one dim a block takes, in order; several intervals when
// the split factor of the dim is not its leading one.
using DimIntervals = llvm::SmallVector<Interval, 1>;

// All of every dim.
std::vector<DimIntervals> WholeBlock(llvm::ArrayRef<int64_t> sizes);

// The product of the block's extents.
int64_t BlockElements(llvm::ArrayRef<DimIntervals> block);

// Copies the block (one DimIntervals per dim) of a weight out of its storage's
// bytes into `out`, row-major without gaps. InvalidArgument when the block
// leaves the weight, the weight leaves `storage` or `out_bytes` is not exactly
// the block's size.
absl::Status CopyBlock(const WeightInfo& weight, const Bytes& storage,
                       llvm::ArrayRef<DimIntervals> block, void* out,
                       size_t out_bytes);

}  // namespace tp

#endif  // TP_IR_WEIGHT_SOURCE_H_
