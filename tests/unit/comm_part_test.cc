#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "ir/shard_extent.h"
#include "ir/sym_expr.h"
#include "runtime/comm/part.h"

namespace tp {
namespace {

TEST(Part, DefaultIsTheOneOfTheIr) {
  for (int64_t factor = 0; factor < 40; ++factor) {
    for (int size = 1; size <= 9; ++size) {
      int64_t offset = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Part part = PartOf(factor, {}, rank, size);
        const ShardExtent expected = ShardExtentOf(SymExpr(factor), size, rank);
        EXPECT_EQ(SymExpr(part.offset), expected.offset);
        EXPECT_EQ(SymExpr(part.extent), expected.extent);
        EXPECT_EQ(part.offset, offset);
        EXPECT_LE(part.extent, LargestExtent(factor, {}, size));
        offset += part.extent;
      }
      EXPECT_EQ(offset, factor);
    }
  }
}

TEST(Part, ExplicitExtents) {
  const std::vector<int64_t> extents = {2, 0, 5};
  EXPECT_TRUE(CheckExtents(7, extents, 3).ok());
  EXPECT_EQ(PartOf(7, extents, 2, 3).offset, 2);
  EXPECT_EQ(PartOf(7, extents, 2, 3).extent, 5);
  EXPECT_EQ(PartOf(7, extents, 1, 3).extent, 0);
  EXPECT_EQ(LargestExtent(7, extents, 3), 5);
}

TEST(Part, WrongExtentsAreRefused) {
  const std::vector<std::vector<int64_t>> cases = {
      {7}, {3, 3}, {4, 4}, {8, -1}, {std::numeric_limits<int64_t>::max(), 8}};
  for (const std::vector<int64_t>& extents : cases) {
    EXPECT_EQ(CheckExtents(7, extents, 2).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(Part, FingerprintsTellExtentsApart) {
  const std::vector<int64_t> usual = {3, 2, 2};
  const std::vector<int64_t> a = {2, 3, 2};
  const std::vector<int64_t> b = {2, 2, 3};
  EXPECT_EQ(ExtentsFingerprint(7, usual, 3), 0);
  EXPECT_EQ(ExtentsFingerprint(7, {}, 3), 0);
  EXPECT_NE(ExtentsFingerprint(7, a, 3), 0);
  EXPECT_NE(ExtentsFingerprint(7, a, 3), ExtentsFingerprint(7, b, 3));
}

TEST(Part, ProductsAreChecked) {
  int64_t product = 0;
  EXPECT_TRUE(CheckedProduct({3, 4, 5}, &product).ok());
  EXPECT_EQ(product, 60);
  const int64_t huge = int64_t{1} << 40;
  EXPECT_FALSE(CheckedProduct({huge, huge}, &product).ok());
  EXPECT_FALSE(CheckedProduct({3, -1}, &product).ok());
  // Nothing of something too large is still too large to index.
  EXPECT_FALSE(CheckedProduct({huge, huge, 0}, &product).ok());
  EXPECT_TRUE(CheckedProduct({5, 0}, &product).ok());
  EXPECT_EQ(product, 0);
}

}  // namespace
}  // namespace tp
