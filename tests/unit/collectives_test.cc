#include "ir/collectives.h"

#include "gtest/gtest.h"

namespace tp {
namespace {

using Kind = CollectiveKind;

TEST(CollectivesTest, TransitionTable) {
  const Placement r = Placement::Replicate();
  const Placement s0 = Placement::Shard(0, 8);
  const Placement s1 = Placement::Shard(1, 96);
  const Placement p = Placement::Partial();
  EXPECT_EQ(Transition(r, r, 2), Kind::kNone);
  EXPECT_EQ(Transition(r, s0, 2), Kind::kSlice);
  EXPECT_EQ(Transition(r, p, 2), Kind::kImpossible);
  EXPECT_EQ(Transition(s0, r, 2), Kind::kAllGather);
  EXPECT_EQ(Transition(s0, s0, 2), Kind::kNone);
  EXPECT_EQ(Transition(s0, s1, 2), Kind::kAllToAll);
  EXPECT_EQ(Transition(s0, p, 2), Kind::kImpossible);
  EXPECT_EQ(Transition(p, r, 2), Kind::kAllReduce);
  EXPECT_EQ(Transition(p, s0, 2), Kind::kReduceScatter);
  EXPECT_EQ(Transition(p, p, 2), Kind::kNone);
  EXPECT_EQ(Transition(p, Placement::Partial(ReduceKind::kMax), 2),
            Kind::kImpossible);
}

TEST(CollectivesTest, OtherFactorsOfADimAreOtherPlacements) {
  const Placement plain = Placement::Shard(1, 96);
  const Placement heads = Placement::Shard(1, DimFactor{1, 8, 12});
  const Placement widths = Placement::Shard(1, DimFactor{8, 12, 1});
  EXPECT_EQ(Transition(plain, heads, 2), Kind::kNone);
  EXPECT_EQ(Transition(plain, heads, 3), Kind::kAllToAll);
  EXPECT_EQ(Transition(heads, widths, 2), Kind::kAllToAll);
}

TEST(CollectivesTest, OneRankNeedsNothing) {
  for (const Placement& from :
       {Placement::Replicate(), Placement::Shard(0, 8), Placement::Partial()})
    for (const Placement& to :
         {Placement::Replicate(), Placement::Shard(0, 8), Placement::Partial()})
      EXPECT_EQ(Transition(from, to, 1), Kind::kNone);
}

TEST(CollectivesTest, BytesThatLeaveARank) {
  EXPECT_EQ(BytesMoved(Kind::kNone, 1200, 4), 0);
  EXPECT_EQ(BytesMoved(Kind::kSlice, 1200, 4), 0);
  EXPECT_EQ(BytesMoved(Kind::kAllGather, 1200, 4), 900);
  EXPECT_EQ(BytesMoved(Kind::kReduceScatter, 1200, 4), 900);
  EXPECT_EQ(BytesMoved(Kind::kAllReduce, 1200, 4), 1800);
  EXPECT_EQ(BytesMoved(Kind::kAllToAll, 1200, 4), 225);
  EXPECT_EQ(BytesMoved(Kind::kAllReduce, 1200, 1), 0);
}

TEST(CollectivesTest, NamesAdjointsAndWhoTalks) {
  EXPECT_EQ(OpNameOf(Kind::kNone), "");
  EXPECT_EQ(OpNameOf(Kind::kSlice), "tp.slice");
  EXPECT_EQ(OpNameOf(Kind::kAllReduce), "tp.all_reduce");
  EXPECT_EQ(OpNameOf(Kind::kAllGather), "tp.all_gather");
  EXPECT_EQ(OpNameOf(Kind::kReduceScatter), "tp.reduce_scatter");
  EXPECT_EQ(OpNameOf(Kind::kAllToAll), "tp.all_to_all");
  EXPECT_EQ(Adjoint(Kind::kAllReduce), Kind::kNone);
  EXPECT_EQ(Adjoint(Kind::kAllGather), Kind::kSlice);
  EXPECT_EQ(Adjoint(Kind::kSlice), Kind::kAllGather);
  EXPECT_EQ(Adjoint(Kind::kReduceScatter), Kind::kAllGather);
  EXPECT_EQ(Adjoint(Kind::kAllToAll), Kind::kAllToAll);
  EXPECT_FALSE(Communicates(Kind::kNone));
  EXPECT_FALSE(Communicates(Kind::kSlice));
  EXPECT_TRUE(Communicates(Kind::kAllToAll));
}

}  // namespace
}  // namespace tp
