#include "ir/placement.h"

#include "gtest/gtest.h"
#include "ir/type.h"

namespace tp {
namespace {

SymExpr E(llvm::StringRef text) { return SymExpr::Parse(text).value(); }

TEST(PlacementTest, PrintParse) {
  const Dims dims = {E("batch"), E("2*seq"), 288};
  for (const char* text :
       {"R", "S(0)", "S(2)", "S(2:3x[8]x12)", "S(2:[8]x36)", "S(2:36x[8])",
        "S(1:2x[seq])", "S(1:[2]xseq)", "P(sum)", "P(max)", "P(min)"}) {
    absl::StatusOr<Placement> placement = ParsePlacement(text, dims);
    ASSERT_TRUE(placement.ok()) << placement.status();
    EXPECT_EQ(placement->ToString(), text);
  }
  EXPECT_EQ(ParsePlacement("P", dims).value(), Placement::Partial());
  EXPECT_EQ(ParsePlacement("S(-1)", dims).value(), Placement::Shard(2, 288));
  EXPECT_EQ(ParsePlacement(" S( 2 : 3 x [ 8 ] x 12 ) ", dims).value(),
            Placement::Shard(2, DimFactor{3, 8, 12}));
  EXPECT_EQ(ParsePlacement("S(2:[288])", dims).value(),
            Placement::Shard(2, 288));
}

TEST(PlacementTest, SizesThatAreNotNamesAreParenthesized) {
  const Placement placement =
      Placement::Shard(0, DimFactor{E("x + 1"), 3, E("x*2")});
  EXPECT_EQ(placement.ToString(), "S(0:(x + 1)x[3]x(2*x))");
  EXPECT_EQ(ParsePlacement(placement.ToString(), {E("6*x*x + 6*x")}).value(),
            placement);
  const Placement symbols =
      Placement::Shard(0, DimFactor{E("x"), E("x + 1"), E("xx")});
  EXPECT_EQ(symbols.ToString(), "S(0:xx[x + 1]xxx)");
  EXPECT_EQ(ParsePlacement(symbols.ToString(), {E("x*xx*(x + 1)")}).value(),
            symbols);
}

TEST(PlacementTest, ParseErrorsNameTheFault) {
  const Dims dims = {4, 96};
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected R"},
      {"X", "expected R"},
      {"S(0", "expected R"},
      {"S()", "must be an integer"},
      {"S(2)", "no dim 2 in a tensor of 2 dims"},
      {"S(-3)", "no dim -3"},
      {"S(1:)", "a box is written"},
      {"S(1:96)", "a box is written"},
      {"S(1:3[8]x4)", "expected 'x' before"},
      {"S(1:3x[8]4)", "expected 'x' after"},
      {"S(1:3x[8]x5)", "holds 120 indices, but dim 1 has size 96"},
      {"S(1:x[96])", "size expression"},
      {"S(1:-3x[8]x-4)", "negative"},
      {"P(mean)", "sum, max or min"},
  };
  for (const auto& [text, message] : cases) {
    absl::StatusOr<Placement> placement = ParsePlacement(text, dims);
    ASSERT_FALSE(placement.ok()) << text;
    EXPECT_NE(std::string(placement.status().message()).find(message),
              std::string::npos)
        << placement.status();
  }
}

TEST(PlacementTest, SameLayoutMeansTheSameBytes) {
  const Placement plain = Placement::Shard(0, 96);
  const Placement heads = Placement::Shard(0, DimFactor{1, 8, 12});
  EXPECT_TRUE(SameLayout(plain, heads, 2));
  EXPECT_TRUE(SameLayout(plain, heads, 8));
  // 96 over 3 is 32, 32, 32; 8 heads over 3 are 36, 36, 24.
  EXPECT_FALSE(SameLayout(plain, heads, 3));
  EXPECT_TRUE(SameLayout(heads, heads, 3));
  EXPECT_FALSE(SameLayout(plain, Placement::Shard(1, 96), 2));
  EXPECT_FALSE(SameLayout(plain, Placement::Shard(0, DimFactor{2, 8, 6}), 2));
  EXPECT_TRUE(SameLayout(Placement::Shard(0, DimFactor{2, 8, 6}),
                         Placement::Shard(0, DimFactor{2, 48, 1}), 4));
  EXPECT_FALSE(SameLayout(plain, Placement::Replicate(), 2));
  EXPECT_TRUE(SameLayout(plain, Placement::Replicate(), 1));
  // Nobody knows whether n is even.
  EXPECT_FALSE(SameLayout(Placement::Shard(0, E("4*n")),
                          Placement::Shard(0, DimFactor{1, E("n"), 4}), 2));
  EXPECT_TRUE(SameLayout(Placement::Shard(0, E("4*n")),
                         Placement::Shard(0, DimFactor{1, 4, E("n")}), 2));
  EXPECT_FALSE(SameLayout(Placement::Partial(),
                          Placement::Partial(ReduceKind::kMax), 2));
}

TEST(PlacementTest, SpecText) {
  EXPECT_EQ(ToString(ShardingSpec{Placement::Shard(0, 4)}), "<S(0)>");
  EXPECT_EQ(ToString(ShardingSpec{Placement::Shard(0, 4), Placement()}),
            "<S(0), R>");
}

TEST(TypeTest, TextSizesAndValues) {
  const TensorType type{DType::kF32, {E("batch"), E("2*seq + 1"), 96}};
  EXPECT_EQ(ToString(type), "f32[batch,2*seq + 1,96]");
  EXPECT_EQ(ToString(TensorType{DType::kI64, {}}), "i64[]");
  EXPECT_EQ(type.num_elements(), E("192*batch*seq + 96*batch"));
  EXPECT_EQ(TensorType{}.num_elements(), SymExpr(1));
  EXPECT_EQ(EvaluateDims(type.dims, {{"batch", 2}, {"seq", 3}}).value(),
            (llvm::SmallVector<int64_t, 4>{2, 7, 96}));
  EXPECT_FALSE(EvaluateDims({E("s - 4")}, {{"s", 3}}).ok());
}

}  // namespace
}  // namespace tp
