#include "ir/shard_extent.h"

#include "gtest/gtest.h"

namespace tp {
namespace {

TEST(ShardExtentTest, FirstRanksHoldOneMore) {
  const int64_t extents[] = {2, 2, 1};
  const int64_t offsets[] = {0, 2, 4};
  for (int64_t rank = 0; rank < 3; ++rank) {
    const ShardExtent part = ShardExtentOf(5, 3, rank);
    EXPECT_EQ(part.extent, SymExpr(extents[rank]));
    EXPECT_EQ(part.offset, SymExpr(offsets[rank]));
  }
  EXPECT_EQ(ShardExtentOf(1, 2, 1).extent, SymExpr(0));
  EXPECT_EQ(ShardExtentOf(1, 2, 1).offset, SymExpr(1));
}

// Constant and symbolic parts agree, and the parts tile the whole.
TEST(ShardExtentTest, PartsTileTheWhole) {
  const SymExpr symbol = SymExpr::Symbol("n");
  for (int64_t size = 0; size <= 17; ++size) {
    for (int64_t ranks = 1; ranks <= 6; ++ranks) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const ShardExtent part = ShardExtentOf(size, ranks, rank);
        EXPECT_EQ(part.offset, SymExpr(next));
        const int64_t expected = size / ranks + (rank < size % ranks ? 1 : 0);
        EXPECT_EQ(part.extent, SymExpr(expected));
        next += expected;
        const ShardExtent general = ShardExtentOf(symbol, ranks, rank);
        const SymbolValues values{{"n", size}};
        EXPECT_EQ(general.extent.Evaluate(values).value(), expected);
        EXPECT_EQ(general.offset.Evaluate(values).value(),
                  part.offset.constant());
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(ShardExtentTest, DivisibleSymbolsGiveEqualParts) {
  const SymExpr symbol = SymExpr::Symbol("n");
  EXPECT_EQ(ShardExtentOf(symbol * 4, 2, 1).extent, symbol * 2);
  EXPECT_EQ(ShardExtentOf(symbol * 4, 2, 1).offset, symbol * 2);
  EXPECT_EQ(ShardExtentOf(symbol, 1, 0).extent, symbol);
  EXPECT_EQ(ShardExtentOf(symbol, 1, 0).offset, SymExpr(0));
  EXPECT_EQ(ShardExtentOf(symbol, 2, 0).extent.ToString(),
            "floordiv(n + 1, 2)");
  EXPECT_EQ(ShardExtentOf(symbol, 2, 1).extent.ToString(), "floordiv(n, 2)");
}

}  // namespace
}  // namespace tp
