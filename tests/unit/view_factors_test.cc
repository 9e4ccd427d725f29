#include <random>

#include "gtest/gtest.h"
#include "ir/sharding_rule.h"
#include "tests/unit/placed_elements.h"

namespace tp {
namespace {

std::vector<SymExpr> Sizes(llvm::StringRef text) {
  std::vector<SymExpr> sizes;
  while (!text.empty()) {
    sizes.push_back(SymExpr::ParsePrefix(text).value());
    text.consume_front(",");
  }
  return sizes;
}

// The view as a rule, with each factor written as its size: "b (8 12) -> ...".
std::string View(llvm::StringRef from, llvm::StringRef to) {
  ViewFactors view = FactorView(Sizes(from), Sizes(to));
  auto text = [&](const TensorFactors& tensor) {
    std::string out;
    for (const auto& dim : tensor) {
      out += out.empty() ? "" : " ";
      if (dim.empty()) out += "1";
      if (dim.size() > 1) out += "(";
      for (size_t i = 0; i < dim.size(); ++i) {
        const Factor& factor = view.factors[dim[i]];
        out += (i ? " " : "") + factor.size.ToString() +
               (factor.kind == FactorKind::kWhole ? "^" : "");
      }
      if (dim.size() > 1) out += ")";
    }
    return out;
  };
  return text(view.from) + " -> " + text(view.to);
}

TEST(ViewFactorsTest, SplitsAndMerges) {
  EXPECT_EQ(View("b,s,96", "b,s,8,12"), "b s (8 12) -> b s 8 12");
  EXPECT_EQ(View("12", "3,4"), "(3 4) -> 3 4");
  EXPECT_EQ(View("b,8,s,12", "b*8,s,12"), "b 8 s 12 -> (b 8) s 12");
  EXPECT_EQ(View("b,s,3,8,12", "b,s,288"), "b s 3 8 12 -> b s (3 8 12)");
  EXPECT_EQ(View("s0*s1,257", "s0,s1,257"), "(s0 s1) 257 -> s0 s1 257");
  EXPECT_EQ(View("b,s,96", "b*s,96"), "b s 96 -> (b s) 96");
  EXPECT_EQ(View("b*s,96", "b,s,8,12"), "(b s) (8 12) -> b s 8 12");
  EXPECT_EQ(View("b,s,96", "b*s*96"), "b s 96 -> (b s 96)");
  EXPECT_EQ(View("b,8,s,12", "b,4,2,s,12"), "b (4 2) s 12 -> b 4 2 s 12");
}

TEST(ViewFactorsTest, DimsOfSizeOneHoldNothing) {
  EXPECT_EQ(View("1,b,1,4", "b,4,1"), "1 b 1 4 -> b 4 1");
  EXPECT_EQ(View("b", "1,b,1"), "b -> 1 b 1");
  EXPECT_EQ(View("1,1", ""), "1 1 -> ");
  EXPECT_EQ(View("", "1"), " -> 1");
  EXPECT_EQ(View("", ""), " -> ");
}

TEST(ViewFactorsTest, BoundariesInsideDims) {
  EXPECT_EQ(View("b,6,4", "2*b,12"), "b (2 3) 4 -> (b 2) (3 4)");
  EXPECT_EQ(View("4,6", "2,12"), "(2 2) 6 -> 2 (2 6)");
  EXPECT_EQ(View("4,6", "12,2"), "4 (3 2) -> (4 3) 2");
}

TEST(ViewFactorsTest, WhatCannotBeFactoredIsWhole) {
  EXPECT_EQ(View("6,4", "8,3"), "(2 3^) 4^ -> (2 4^) 3^");
  EXPECT_EQ(View("b,6,4,s", "b,8,3,s"), "b (2 3^) 4^ s -> b (2 4^) 3^ s");
  EXPECT_EQ(View("6,4,s,6,4", "8,3,s,8,3"),
            "(2 3^) 4^ s (2 3^) 4^ -> (2 4^) 3^ s (2 4^) 3^");
  EXPECT_EQ(View("4,6,35", "2,15,28"), "(2 2^) 6^ (5^ 7) -> 2 15^ (4^ 7)");
  EXPECT_EQ(View("3,4", "4,3"), "3^ 4^ -> 4^ 3^");
  EXPECT_EQ(View("a,b", "b,a"), "a^ b^ -> b^ a^");
  EXPECT_EQ(View("a*b,4", "floordiv(a*b,4),16"),
            "a*b^ 4 -> floordiv(a*b, 4)^ (4^ 4)");
  // The sizes are equal, but only by a guard that is not seen here.
  EXPECT_EQ(View("s,96", "t,8,12"), "s^ (8 12) -> t^ 8 12");
}

TEST(ViewFactorsTest, EmptyTensorsAreWhole) {
  EXPECT_EQ(View("0,4", "4,0"), "0^ 4^ -> 4^ 0^");
  EXPECT_EQ(View("b,0", "0"), "b^ 0^ -> 0^");
}

// Whatever shared factor is split, and however, each rank holds the same
// elements before and after the view, in the same order.
TEST(ViewFactorsTest, SplittingASharedFactorMovesNothing) {
  std::mt19937 random(7);
  int checked = 0;
  for (int round = 0; round < 300; ++round) {
    // Two groupings of one list of small numbers, some of them shuffled.
    std::vector<int64_t> parts;
    for (int i = 0; i < 5; ++i)
      parts.push_back(std::vector<int64_t>{1, 2, 2, 3, 4, 5}[random() % 6]);
    auto group = [&](std::vector<int64_t> list) {
      if (random() % 4 == 0) std::swap(list[random() % 5], list[random() % 5]);
      std::vector<SymExpr> dims = {1};
      for (int64_t part : list) {
        if (random() % 2) dims.push_back(1);
        dims.back() = dims.back() * part;
      }
      return dims;
    };
    const std::vector<SymExpr> from = group(parts);
    const std::vector<SymExpr> to = group(parts);
    ViewFactors view = FactorView(from, to);
    OpRule rule{view.factors, {view.from}, {view.to}, {}};
    for (size_t dim = 0; dim < from.size(); ++dim) {
      SymExpr product = 1;
      for (int factor : view.from[dim])
        product = product * view.factors[factor].size;
      ASSERT_EQ(product, from[dim]);
    }
    for (size_t i = 0; i < view.factors.size(); ++i) {
      if (view.factors[i].kind == FactorKind::kWhole) continue;
      const int64_t size = view.factors[i].size.constant();
      for (int64_t left = 1; left <= size; ++left) {
        if (size % left) continue;
        const FactorSharding sharding{static_cast<int>(i),
                                      {left, size / left, 1}};
        const Placement before = OperandPlacement(rule, view.from, sharding);
        const Placement after = ResultPlacement(rule, view.to, sharding);
        ASSERT_TRUE(before.is_shard() && after.is_shard());
        for (int64_t ranks = 2; ranks <= 3; ++ranks)
          for (int64_t rank = 0; rank < ranks; ++rank)
            ASSERT_EQ(PlacedElements(from, before, ranks, rank),
                      PlacedElements(to, after, ranks, rank));
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 500);
}

}  // namespace
}  // namespace tp
