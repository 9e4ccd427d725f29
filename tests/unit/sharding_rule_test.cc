#include "ir/sharding_rule.h"

#include <memory>

#include "gtest/gtest.h"
#include "tests/unit/placed_elements.h"

namespace tp {
namespace {

// "b,8,12" -> dims; "" is a 0-dim tensor.
TensorType Type(llvm::StringRef text) {
  TensorType type;
  while (!text.empty()) {
    type.dims.push_back(SymExpr::ParsePrefix(text).value());
    text.consume_front(",");
  }
  return type;
}

// An op on tensors of these dims; "none" is an absent operand.
class TestOp {
 public:
  TestOp(std::vector<std::string> operands, std::vector<std::string> results)
      : op_("aten.test", Location{"block.0", "model.py", 7}) {
    for (const std::string& dims : operands) {
      if (dims == "none") {
        op_.AddOperand(nullptr);
        continue;
      }
      values_.push_back(std::make_unique<Value>(Type(dims), nullptr, 0));
      op_.AddOperand(values_.back().get());
    }
    for (const std::string& dims : results) op_.AddResult(Type(dims));
  }

  const Op& op() const { return op_; }
  absl::StatusOr<OpRule> Rule(llvm::StringRef notation,
                              llvm::StringRef partial = "-") const {
    return ParseRule(notation, partial, op_);
  }
  std::string Text(llvm::StringRef notation,
                   llvm::StringRef partial = "-") const {
    absl::StatusOr<OpRule> rule = Rule(notation, partial);
    return rule.ok() ? rule->ToString() : rule.status().ToString();
  }

 private:
  std::vector<std::unique_ptr<Value>> values_;
  Op op_;
};

TEST(ParseRuleTest, SizesComeFromTheTypes) {
  EXPECT_EQ(
      TestOp({"64,16", "16,32"}, {"64,32"}).Text("m k+, k+ n -> m n", "0|1"),
      "m k+, k+ n -> m n {k=16, m=64, n=32} partial 0|1");
  EXPECT_EQ(TestOp({"b,s,96"}, {"b,s,8,12"}).Text("b s (h d) -> b s h d", "0"),
            "b s (h d) -> b s h d {b=b, d=12, h=8, s=s} partial 0");
  EXPECT_EQ(TestOp({"50,8", "b,s"}, {"b,s,8"}).Text("v+ h, ... -> ... h", "0"),
            "v+ h, d0 d1 -> d0 d1 h {d0=b, d1=s, h=8, v=50} partial 0");
}

TEST(ParseRuleTest, OneSizeOfACompoundDimMayBeUnknown) {
  EXPECT_EQ(TestOp({"b,96", "12"}, {"b,96"}).Text("b (h d), d -> b (h d)"),
            "b (h d), d -> b (h d) {b=b, d=12, h=8}");
  EXPECT_EQ(TestOp({"8*b,12"}, {"b,8,12"}).Text("(b h) d -> b h d"),
            "(b h) d -> b h d {b=b, d=12, h=8}");
  EXPECT_EQ(TestOp({"24", "2"}, {"24"}).Text("(a b), a -> (a b)"),
            "(a b), a -> (a b) {a=2, b=12}");
  // Sizes found one after the other.
  EXPECT_EQ(
      TestOp({"24", "6", "2"}, {"24"}).Text("(a b c), (a b), a -> (a b c)"),
      "(a b c), (a b), a -> (a b c) {a=2, b=3, c=4}");
}

TEST(ParseRuleTest, EllipsesBroadcastFromTheRight) {
  EXPECT_EQ(TestOp({"b,8,s,12", "8,12,t"}, {"b,8,s,t"})
                .Text("... m k+, ... k+ n -> ... m n"),
            "d0 d1 m k+, d1 k+ n -> d0 d1 m n "
            "{d0=b, d1=8, k=12, m=s, n=t}");
  EXPECT_EQ(TestOp({"b,1,4", "8,4"}, {"b,8,4"}).Text("... x, ... x -> ... x"),
            "d0 1 x, d1 x -> d0 d1 x {d0=b, d1=8, x=4}");
  EXPECT_EQ(TestOp({"16", "4,16"}, {"4"}).Text("... k+, n k+ -> ... n"),
            "k+, n k+ -> n {k=16, n=4}");
  EXPECT_EQ(TestOp({"2,3,5"}, {"2,5"}).Text("... c+ s -> ... s"),
            "d0 c+ s -> d0 s {c=3, d0=2, s=5}");
  EXPECT_EQ(TestOp({"2,3,5,6"}, {"2,4,5,6"}).Text("b c^ ... -> b o ..."),
            "b c^ d0 d1 -> b o d0 d1 {b=2, c=3, d0=5, d1=6, o=4}");
  EXPECT_EQ(TestOp({"2,3,5"}, {"2,3,5"}).Text("b ...^ -> b ..."),
            "b d0^ d1^ -> b d0^ d1^ {b=2, d0=3, d1=5}");
}

TEST(ParseRuleTest, DimsOfSizeOneHoldNoFactor) {
  EXPECT_EQ(TestOp({"4,1", "1,5"}, {"4,5"}).Text("m k+, k+ n -> m n"),
            "m 1, 1 n -> m n {m=4, n=5}");
  EXPECT_EQ(TestOp({"b,96"}, {"b,1,96"}).Text("b (h d) -> b h d"),
            "b d -> b 1 d {b=b, d=96}");
  EXPECT_EQ(TestOp({"b,1"}, {"b,1,1"}).Text("b (h d) -> b h d"),
            "b 1 -> b 1 1 {b=b}");
  EXPECT_EQ(TestOp({"b,8"}, {"b,1"}).Text("b s+ -> b 1"),
            "b s+ -> b 1 {b=b, s=8}");
}

TEST(ParseRuleTest, AbsentAndUndescribedOperands) {
  const TestOp linear({"b,16", "32,16", "none"}, {"b,32"});
  EXPECT_EQ(linear.Text("... k+, n k+, n -> ... n", "0|1|2"),
            "d0 k+, n k+, _ -> d0 n {d0=b, k=16, n=32} partial 0|1");
  EXPECT_EQ(TestOp({"4,5", "7"}, {"4,5"}).Text("a b, _ -> a b"),
            "a b, 1 -> a b {a=4, b=5}");
  EXPECT_EQ(TestOp({}, {"4,5"}).Text("-> a b"), "-> a b {a=4, b=5}");
  EXPECT_EQ(TestOp({"4,5"}, {""}).Text("a+ b+ ->"), "a+ b+ -> {a=4, b=5}");
  EXPECT_EQ(TestOp({"none"}, {"3"}).Text("a -> n"), "_ -> n {n=3}");
  EXPECT_EQ(TestOp({"4,5"}, {"4,5"}).Rule("a b, b -> a b").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ParseRuleTest, Reductions) {
  absl::StatusOr<OpRule> rule = TestOp({"4,5"}, {"4"}).Rule("a b+max -> a");
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_EQ(rule->ToString(), "a b+max -> a {a=4, b=5}");
  EXPECT_EQ(ResultPlacement(*rule, rule->results[0], {1, {1, 5, 1}}),
            Placement::Partial(ReduceKind::kMax));
  EXPECT_EQ(TestOp({"6,5"}, {"5"}).Text("(a b)+ c -> c").substr(0, 8),
            "INTERNAL");
}

TEST(ParseRuleTest, PartialColumn) {
  const TestOp add({"4", "4", "4"}, {"4"});
  EXPECT_EQ(add.Text("a, a, a -> a", "0&1"), "a, a, a -> a {a=4} partial 0&1");
  EXPECT_EQ(add.Text("a, a, a -> a", "1&2|0"),
            "a, a, a -> a {a=4} partial 1&2|0");
  EXPECT_EQ(add.Text("a, a, a -> a", "*"), "a, a, a -> a {a=4} partial 0&1&2");
  const TestOp absent({"4", "none", "4"}, {"4"});
  EXPECT_EQ(absent.Text("a, a, a -> a", "0&1|2|9"),
            "a, _, a -> a {a=4} partial 2");
  EXPECT_EQ(absent.Text("a, a, a -> a", "*"), "a, _, a -> a {a=4} partial 0&2");
}

TEST(ParseRuleTest, SizesThatMayDifferAreNeverSplit) {
  EXPECT_EQ(TestOp({"s", "t"}, {"s"}).Text("a, a -> a"), "a^, a^ -> a^ {a=s}");
  EXPECT_EQ(TestOp({"s", "12"}, {"floordiv(s, 12),12"}).Text("(a b), b -> a b"),
            "(a^ b^), b^ -> a^ b^ {a=floordiv(s, 12), b=12}");
}

TEST(ParseRuleTest, ErrorsNameTheOpAndTheDim) {
  const std::pair<absl::StatusOr<OpRule>, const char*> cases[] = {
      {TestOp({"4,5", "6,7"}, {"4,7"}).Rule("m k+, k+ n -> m n"),
       "aten.test at model.py:7 in block.0: dim 0 of operand 1 has size 6 "
       "where 'k' is 5 in operand 0"},
      {TestOp({"s", "s + 1"}, {"s"}).Rule("a, a -> a"),
       "dim 0 of operand 1 has size s + 1 where 'a' is s"},
      {TestOp({"4"}, {"4"}).Rule("m n -> m"),
       "operand 0 has 1 dims (f32[4]) where the op takes 2"},
      {TestOp({"4"}, {"4"}).Rule("... m n -> m"), "takes at least 2"},
      {TestOp({"10", "4"}, {"4"}).Rule("(a+ b), b -> b"),
       "dim 0 of operand 0 has size 10"},
      {TestOp({"4", "4"}, {"4"}).Rule("a -> a"), "operand 1 is not described"},
      {TestOp({"4"}, {"4", "4"}).Rule("a -> a"), "describes 1 results of 2"},
      {TestOp({"24"}, {"24"}).Rule("(a b) -> (a b)"), "more than one unknown"},
      {TestOp({"4,4"}, {"4"}).Rule("a a -> a"), "'a' twice in one tensor"},
      {TestOp({"4,5"}, {"4"}).Rule("a b -> a"), "'b' must be in every result"},
      {TestOp({"4,5"}, {"4,5"}).Rule("a b+ -> a b"), "'b' must be in every"},
      {TestOp({"4"}, {"4"}).Rule("a+ -> a^"), "two markers for 'a'"},
      {TestOp({"4"}, {"4"}).Rule("a a"), "exactly one '->'"},
      {TestOp({"4"}, {"4"}).Rule("a? -> a"), "expected a factor"},
      {TestOp({"4"}, {"4"}).Rule("(a -> a"), "expected a factor"},
      {TestOp({"4"}, {"4"}).Rule("a+mean -> "), "unknown reduction 'mean'"},
      {TestOp({"4"}, {"4"}).Rule("... ... -> a"), "two '...'"},
  };
  for (const auto& [rule, message] : cases) {
    ASSERT_FALSE(rule.ok()) << message;
    EXPECT_NE(std::string(rule.status().message()).find(message),
              std::string::npos)
        << rule.status();
  }
}

TEST(PointwiseRuleTest, BroadcastsAllOperands) {
  const TestOp op({"b,s,96", "96", "s,1", "none", ""}, {"b,s,96"});
  EXPECT_EQ(PointwiseRule("0", op.op()).value().ToString(),
            "d0 d1 d2, d2, d1 1, _, _ -> d0 d1 d2 {d0=b, d1=s, d2=96} "
            "partial 0");
  EXPECT_FALSE(PointwiseRule("-", TestOp({"4", "5"}, {"5"}).op()).ok());
}

TEST(ReplicateRuleTest, HasNoFactors) {
  const OpRule rule = ReplicateRule(TestOp({"4,5", "none"}, {"4"}).op());
  EXPECT_TRUE(rule.factors.empty());
  EXPECT_EQ(rule.operands[0].size(), 2u);
  EXPECT_EQ(rule.operands[1].size(), 0u);
  EXPECT_EQ(ToFactorSharding(rule, rule.operands[0], Placement::Shard(0, 4), 2),
            std::nullopt);
}

TEST(RuleBuilderTest, MakesWholeWhatIsLost) {
  const TestOp op({"4,1,5"}, {"4,6"});
  RuleBuilder builder(op.op());
  const int a = builder.AddFactor("a", 4);
  const int one = builder.AddFactor("one", 1);
  const int lost = builder.AddFactor("lost", 5);
  const int added = builder.AddFactor("added", 6);
  builder.AddFactor("unused", 3);
  builder.Operand(0, 0, a);
  builder.Operand(0, 1, one);
  builder.Operand(0, -1, lost);
  builder.Operand(7, 0, a);  // absent
  builder.Result(0, 0, a);
  builder.Result(0, -1, added);
  EXPECT_EQ(std::move(builder).Build().ToString(),
            "a 1 lost^ -> a added {a=4, added=6, lost=5}");
}

// The worked example of the header.
TEST(FactorShardingTest, WorkedExample) {
  const TestOp op({"2,3,96"}, {"2,3,8,12"});
  const OpRule rule = op.Rule("b s (h d) -> b s h d").value();
  const TensorFactors& x = rule.operands[0];
  const TensorFactors& y = rule.results[0];
  auto name = [&](const FactorSharding& sharding) {
    return rule.factors[sharding.factor].name;
  };

  std::optional<FactorSharding> heads =
      ToFactorSharding(rule, x, Placement::Shard(2, {1, 8, 12}), 2);
  ASSERT_TRUE(heads.has_value());
  EXPECT_EQ(name(*heads), "h");
  EXPECT_EQ(heads->within, (DimFactor{1, 8, 1}));
  EXPECT_EQ(ResultPlacement(rule, y, *heads).ToString(), "S(2)");

  std::optional<FactorSharding> refined =
      ToFactorSharding(rule, x, Placement::Shard(2, {2, 4, 12}), 2);
  ASSERT_TRUE(refined.has_value());
  EXPECT_EQ(refined->within, (DimFactor{2, 4, 1}));
  EXPECT_EQ(ResultPlacement(rule, y, *refined).ToString(), "S(2:2x[4])");

  EXPECT_EQ(ToFactorSharding(rule, x, Placement::Shard(2, 96), 2), heads);
  EXPECT_EQ(ToFactorSharding(rule, x, Placement::Shard(2, 96), 3),
            std::nullopt);

  std::optional<FactorSharding> widths =
      ToFactorSharding(rule, x, Placement::Shard(2, {8, 12, 1}), 2);
  ASSERT_TRUE(widths.has_value());
  EXPECT_EQ(name(*widths), "d");
  EXPECT_EQ(ResultPlacement(rule, y, *widths).ToString(), "S(3)");
  EXPECT_EQ(OperandPlacement(rule, x, *widths).ToString(), "S(2:8x[12])");

  // Pairs of heads move together.
  std::optional<FactorSharding> pairs =
      ToFactorSharding(rule, x, Placement::Shard(2, {1, 4, 24}), 3);
  ASSERT_TRUE(pairs.has_value());
  EXPECT_EQ(ResultPlacement(rule, y, *pairs).ToString(), "S(2:[4]x2)");

  // Back again.
  EXPECT_EQ(ToFactorSharding(rule, y, Placement::Shard(2, 8), 3), heads);
  EXPECT_EQ(ToFactorSharding(rule, y, Placement::Replicate(), 2), std::nullopt);
  EXPECT_EQ(ToFactorSharding(rule, y, Placement::Partial(), 2), std::nullopt);
}

TEST(FactorShardingTest, FusedQkvOnSymbolicSizes) {
  const TestOp op({"b,3*n*12"}, {"b,3,n,12"});
  const OpRule rule = op.Rule("b (t h d) -> b t h d").value();
  const Placement qkv =
      ParsePlacement("S(1:3x[n]x12)", op.op().operand(0)->type().dims).value();
  std::optional<FactorSharding> heads =
      ToFactorSharding(rule, rule.operands[0], qkv, 2);
  ASSERT_TRUE(heads.has_value());
  EXPECT_EQ(ResultPlacement(rule, rule.results[0], *heads).ToString(), "S(2)");
  EXPECT_EQ(OperandPlacement(rule, rule.operands[0], *heads), qkv);
  // A contiguous half of [Q|K|V] is no split of heads.
  EXPECT_EQ(
      ToFactorSharding(rule, rule.operands[0],
                       Placement::Shard(1, SymExpr::Parse("36*n").value()), 2),
      std::nullopt);
}

TEST(FactorShardingTest, WholeFactorsAreNotSplit) {
  const TestOp op({"4,6"}, {"4,6"});
  const OpRule rule = op.Rule("... s^ -> ... s^").value();
  EXPECT_EQ(ToFactorSharding(rule, rule.operands[0], Placement::Shard(1, 6), 2),
            std::nullopt);
  EXPECT_TRUE(
      ToFactorSharding(rule, rule.operands[0], Placement::Shard(0, 4), 2)
          .has_value());
}

TEST(FactorShardingTest, MatmulPlacements) {
  const OpRule rule =
      TestOp({"4,6", "6,8"}, {"4,8"}).Rule("m k+, k+ n -> m n").value();
  std::optional<FactorSharding> k =
      ToFactorSharding(rule, rule.operands[0], Placement::Shard(1, 6), 2);
  ASSERT_TRUE(k.has_value());
  EXPECT_EQ(OperandPlacement(rule, rule.operands[1], *k).ToString(), "S(0)");
  EXPECT_EQ(ResultPlacement(rule, rule.results[0], *k).ToString(), "P(sum)");
  std::optional<FactorSharding> n =
      ToFactorSharding(rule, rule.results[0], Placement::Shard(1, 8), 2);
  ASSERT_TRUE(n.has_value());
  EXPECT_EQ(OperandPlacement(rule, rule.operands[0], *n).ToString(), "R");
  EXPECT_EQ(OperandPlacement(rule, rule.operands[1], *n).ToString(), "S(1)");
}

// Every box of a dim of three factors: if it is found to be a factor, the
// placement made from that factor holds the same bytes on every rank; and
// no box that cuts like a factor's own box is missed.
TEST(FactorShardingTest, FoundFactorsHoldTheSameBytes) {
  const TestOp op({"48"}, {"2,6,4"});
  const OpRule rule = op.Rule("(a b c) -> a b c").value();
  const TensorFactors& x = rule.operands[0];
  const std::vector<SymExpr> dims = {48};
  int found = 0;
  for (int64_t ranks : {2, 3, 4, 5}) {
    std::vector<std::vector<std::vector<int64_t>>> cuts;
    auto layout = [&](const Placement& placement) {
      std::vector<std::vector<int64_t>> all;
      for (int64_t rank = 0; rank < ranks; ++rank)
        all.push_back(PlacedElements(dims, placement, ranks, rank));
      return all;
    };
    for (size_t i = 0; i < rule.factors.size(); ++i) {
      const FactorSharding sharding{static_cast<int>(i),
                                    {1, rule.factors[i].size, 1}};
      cuts.push_back(layout(OperandPlacement(rule, x, sharding)));
    }
    for (int64_t left = 1; left <= 48; ++left) {
      for (int64_t size = 2; left * size <= 48; ++size) {
        if (48 % (left * size)) continue;
        const Placement box =
            Placement::Shard(0, DimFactor{left, size, 48 / (left * size)});
        std::optional<FactorSharding> sharding =
            ToFactorSharding(rule, x, box, ranks);
        if (sharding) {
          ++found;
          ASSERT_EQ(layout(OperandPlacement(rule, x, *sharding)), layout(box))
              << box << " over " << ranks;
          ASSERT_EQ(sharding->within.dim_size(),
                    rule.factors[sharding->factor].size);
        } else {
          for (const auto& cut : cuts)
            ASSERT_NE(cut, layout(box)) << box << " over " << ranks;
        }
        // SameLayout is the same question for two boxes.
        for (int64_t other = 1; left * other <= 48; ++other) {
          if (48 % (left * other)) continue;
          const Placement unit =
              Placement::Shard(0, DimFactor{left, other, 48 / (left * other)});
          if (SameLayout(box, unit, ranks)) {
            ASSERT_EQ(layout(box), layout(unit)) << box << " " << unit;
          }
        }
      }
    }
  }
  EXPECT_GT(found, 40);
}

}  // namespace
}  // namespace tp
