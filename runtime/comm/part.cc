#include "runtime/comm/part.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tp {
namespace {

template <int64_t kRowBytes>
void CopyShortRows(std::byte* to, int64_t to_stride, const std::byte* from,
                   int64_t from_stride, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to, from, kRowBytes);
    to += to_stride;
    from += from_stride;
  }
}

}  // namespace

Part PartOf(int64_t factor, absl::Span<const int64_t> extents, int rank,
            int size) {
  Part part;
  if (extents.empty()) {
    const int64_t small = factor / size;
    const int64_t larger_parts = factor % size;
    part.offset = rank * small + std::min<int64_t>(rank, larger_parts);
    part.extent = small + (rank < larger_parts ? 1 : 0);
    return part;
  }
  for (int before = 0; before < rank; ++before) part.offset += extents[before];
  part.extent = extents[rank];
  return part;
}

int64_t LargestExtent(int64_t factor, absl::Span<const int64_t> extents,
                      int size) {
  if (extents.empty()) return PartOf(factor, extents, 0, size).extent;
  return *std::max_element(extents.begin(), extents.end());
}

absl::Status CheckExtents(int64_t factor, absl::Span<const int64_t> extents,
                          int size) {
  if (extents.empty()) return absl::OkStatus();
  int64_t left = factor;
  bool valid = static_cast<int>(extents.size()) == size;
  for (int64_t extent : extents) {
    valid = valid && extent >= 0 && extent <= left;
    if (!valid) break;
    left -= extent;
  }
  if (valid && left == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("extents [", absl::StrJoin(extents, ", "),
                   "] do not split a factor of ", factor, " over ", size,
                   " ranks: one non-negative extent per rank, summing to the "
                   "factor, is needed"));
}

uint64_t ExtentsFingerprint(int64_t factor, absl::Span<const int64_t> extents,
                            int size) {
  bool is_default = true;
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over whole extents.
  for (size_t rank = 0; rank < extents.size(); ++rank) {
    is_default = is_default &&
                 extents[rank] ==
                     PartOf(factor, {}, static_cast<int>(rank), size).extent;
    hash = (hash ^ static_cast<uint64_t>(extents[rank])) * 0x100000001b3u;
  }
  if (is_default) return 0;
  return hash == 0 ? 1 : hash;
}

absl::Status CheckedProduct(std::initializer_list<int64_t> sizes,
                            int64_t* product) {
  // 62 bits leave room for adding two sizes and for byte offsets in 64.
  constexpr int64_t kLimit = int64_t{1} << 62;
  bool valid = true;
  bool has_zero = false;
  int64_t result = 1;
  for (int64_t size : sizes) {
    if (size < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("sizes [", absl::StrJoin(sizes, ", "),
                       "]: a size must not be negative"));
    }
    if (size == 0) has_zero = true;
    if (size > 0 && valid) {
      valid = !__builtin_mul_overflow(result, size, &result) && result < kLimit;
    }
  }
  *product = has_zero ? 0 : result;
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sizes [", absl::StrJoin(sizes, ", "),
                   "]: the byte count does not fit in 62 bits"));
}

void CopyRows(std::byte* to, int64_t to_stride, const std::byte* from,
              int64_t from_stride, int64_t row_bytes, int64_t rows) {
  if (row_bytes == 0 || rows == 0) return;
  if (to_stride == row_bytes && from_stride == row_bytes) {
    std::memcpy(to, from, row_bytes * rows);
    return;
  }
  switch (row_bytes) {
    case 1:
      return CopyShortRows<1>(to, to_stride, from, from_stride, rows);
    case 2:
      return CopyShortRows<2>(to, to_stride, from, from_stride, rows);
    case 4:
      return CopyShortRows<4>(to, to_stride, from, from_stride, rows);
    case 8:
      return CopyShortRows<8>(to, to_stride, from, from_stride, rows);
    case 16:
      return CopyShortRows<16>(to, to_stride, from, from_stride, rows);
    default:
      break;
  }
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * to_stride, from + row * from_stride, row_bytes);
  }
}

}  // namespace tp
