#include "codegen/weight_sharder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// The block of a f32[96,288] weight as (start, extent) pairs per dim.
std::vector<std::vector<std::pair<int64_t, int64_t>>> Block(
    const Placement& placement, int64_t ranks, int64_t rank) {
  Value weight(TensorType{DType::kF32, {96, 288}}, nullptr, 0);
  weight.set_spec({placement});
  absl::StatusOr<std::vector<DimIntervals>> block =
      BlockOf(weight, Mesh({{"tp", ranks}}), rank);
  EXPECT_TRUE(block.ok()) << block.status();
  std::vector<std::vector<std::pair<int64_t, int64_t>>> pairs;
  for (const DimIntervals& intervals : *block) {
    pairs.emplace_back();
    for (const Interval& interval : intervals)
      pairs.back().push_back({interval.start, interval.extent});
  }
  return pairs;
}

TEST(WeightSharderTest, AReplicatedWeightIsWholeOnEveryRank) {
  EXPECT_THAT(Block(Placement::Replicate(), 2, 1),
              ElementsAre(ElementsAre(Pair(0, 96)), ElementsAre(Pair(0, 288))));
}

TEST(WeightSharderTest, TheFirstRanksGetOneMore) {
  const Placement rows = Placement::Shard(0, SymExpr(96));
  EXPECT_THAT(Block(rows, 5, 0)[0], ElementsAre(Pair(0, 20)));
  EXPECT_THAT(Block(rows, 5, 4)[0], ElementsAre(Pair(77, 19)));
}

TEST(WeightSharderTest, FusedQkvTakesTheOwnHeadsOfEachPart) {
  // 3 parts of 8 heads of width 12; over 3 ranks 3, 3 and 2 heads.
  const Placement heads = Placement::Shard(1, DimFactor{3, 8, 12});
  EXPECT_THAT(Block(heads, 3, 0)[1],
              ElementsAre(Pair(0, 36), Pair(96, 36), Pair(192, 36)));
  EXPECT_THAT(Block(heads, 3, 2)[1],
              ElementsAre(Pair(72, 24), Pair(168, 24), Pair(264, 24)));
}

TEST(WeightSharderTest, ARankBeyondTheHeadsHoldsNothing) {
  const Placement heads = Placement::Shard(1, DimFactor{1, 2, 144});
  EXPECT_THAT(Block(heads, 4, 1)[1], ElementsAre(Pair(144, 144)));
  EXPECT_THAT(Block(heads, 4, 3)[1], ElementsAre(Pair(288, 0)));
}

}  // namespace
}  // namespace tp
