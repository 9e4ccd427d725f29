#include "ir/mesh.h"

#include "gtest/gtest.h"

namespace tp {
namespace {

TEST(MeshTest, ParsePrint) {
  EXPECT_EQ(Mesh::Parse("tp=2").value().ToString(), "[tp: 2]");
  EXPECT_EQ(Mesh::Parse("dp=2, tp=4").value().ToString(), "[dp: 2, tp: 4]");
  EXPECT_EQ(Mesh::Parse("dp=2,tp=4").value(), Mesh({{"dp", 2}, {"tp", 4}}));
}

TEST(MeshTest, ParseErrors) {
  for (const char* text :
       {"", "tp", "tp=", "tp=0", "tp=-1", "tp=x", "=2", "2=2", "tp=2,",
        "tp=2,tp=4", "t p=2", "a=1000000,b=1000000", "tp=99999999999999999999",
        "tp=2.5"})
    EXPECT_FALSE(Mesh::Parse(text).ok()) << text;
  EXPECT_NE(Mesh::Parse("tp=0").status().message().find("at least 1"),
            absl::string_view::npos);
}

TEST(MeshTest, RanksAreMajorToMinor) {
  const Mesh mesh({{"dp", 2}, {"pp", 3}, {"tp", 4}});
  EXPECT_EQ(mesh.num_ranks(), 24);
  EXPECT_EQ(mesh.AxisIndex("pp"), 1);
  EXPECT_EQ(mesh.AxisIndex("x"), -1);
  // 17 = 1 * 12 + 1 * 4 + 1.
  EXPECT_EQ(mesh.Coordinates(17), (llvm::SmallVector<int64_t, 2>{1, 1, 1}));
  EXPECT_EQ(mesh.Group(0, 17), (std::vector<int64_t>{5, 17}));
  EXPECT_EQ(mesh.Group(1, 17), (std::vector<int64_t>{13, 17, 21}));
  EXPECT_EQ(mesh.Group(2, 17), (std::vector<int64_t>{16, 17, 18, 19}));
}

TEST(MeshTest, EveryRankIsInItsGroupAtItsCoordinate) {
  const Mesh mesh({{"a", 3}, {"b", 2}, {"c", 2}});
  for (int64_t rank = 0; rank < mesh.num_ranks(); ++rank)
    for (int axis = 0; axis < mesh.ndim(); ++axis)
      EXPECT_EQ(mesh.Group(axis, rank)[mesh.Coordinates(rank)[axis]], rank);
}

}  // namespace
}  // namespace tp
