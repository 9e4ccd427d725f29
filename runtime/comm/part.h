// Sizes and strides of sharded dims, shared by the communicators.
#ifndef TP_RUNTIME_COMM_PART_H_
#define TP_RUNTIME_COMM_PART_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tp {

// The indices [offset, offset + extent) of a factor that one rank holds.
struct Part {
  int64_t offset = 0;
  int64_t extent = 0;
};

// The part of `rank` out of `size`; see ShardLayout for `extents`. The default
// is ir/shard_extent in plain numbers (a test holds them together).
Part PartOf(int64_t factor, absl::Span<const int64_t> extents, int rank,
            int size);

// The largest extent of any rank.
int64_t LargestExtent(int64_t factor, absl::Span<const int64_t> extents,
                      int size);

// InvalidArgument unless `extents` is empty or holds `size` non-negative
// numbers that sum to `factor`.
absl::Status CheckExtents(int64_t factor, absl::Span<const int64_t> extents,
                          int size);

// A fingerprint of explicit extents, 0 if they equal the default split.
uint64_t ExtentsFingerprint(int64_t factor, absl::Span<const int64_t> extents,
                            int size);

// Sets `*product` to the product of `sizes`; InvalidArgument if a size is
// negative or the product does not fit in 62 bits.
absl::Status CheckedProduct(std::initializer_list<int64_t> sizes,
                            int64_t* product);

// Copies `rows` rows of `row_bytes` bytes; strides in bytes from row to row.
void CopyRows(std::byte* to, int64_t to_stride, const std::byte* from,
              int64_t from_stride, int64_t row_bytes, int64_t rows);

}  // namespace tp

#endif  // TP_RUNTIME_COMM_PART_H_
