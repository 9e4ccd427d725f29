#include "ir/assumptions.h"

#include "gtest/gtest.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

SymExpr E(llvm::StringRef text) { return SymExpr::Parse(text).value(); }

class AssumptionsTest : public testing::Test {
 protected:
  AssumptionsTest() {
    assumptions_.AddSymbol({"batch", 5, "input_ids", 0});
    assumptions_.AddSymbol({"seq", 7, "input_ids", 1});
    assumptions_.AddSymbol({"mem", 7, "memory", 1});
  }

  std::optional<bool> Known(llvm::StringRef lhs, Relation relation,
                            llvm::StringRef rhs) {
    return assumptions_.Known(E(lhs), relation, E(rhs));
  }
  bool Decide(llvm::StringRef lhs, Relation relation, llvm::StringRef rhs) {
    return assumptions_
        .Decide(E(lhs), relation, E(rhs), "test", Location{"m", "f.py", 3})
        .value();
  }
  std::vector<std::string> Guards() {
    std::vector<std::string> texts;
    for (const Guard& guard : assumptions_.guards())
      texts.push_back(guard.ToString());
    return texts;
  }

  Assumptions assumptions_;
};

using Texts = std::vector<std::string>;

TEST_F(AssumptionsTest, ProvenRelationsLeaveNoGuard) {
  EXPECT_TRUE(Decide("seq", Relation::kGe, "1"));
  EXPECT_TRUE(Decide("seq + 1", Relation::kGt, "seq"));
  EXPECT_FALSE(Decide("seq", Relation::kEq, "seq + 2"));
  EXPECT_TRUE(Decide("batch*seq", Relation::kEq, "seq*batch"));
  EXPECT_TRUE(Decide("0", Relation::kNe, "seq"));
  EXPECT_FALSE(Decide("seq", Relation::kLe, "0"));
  EXPECT_TRUE(Decide("mod(seq, 8)", Relation::kLt, "8"));
  EXPECT_TRUE(assumptions_.guards().empty());
}

TEST_F(AssumptionsTest, HintsDecideTheRestAndLeaveAGuard) {
  EXPECT_FALSE(Decide("seq", Relation::kGt, "64"));
  EXPECT_FALSE(Decide("batch", Relation::kEq, "1"));
  EXPECT_EQ(Guards(), (Texts{"seq <= 64", "batch != 1"}));
  EXPECT_EQ(assumptions_.guards()[0].reason, "test");
  EXPECT_EQ(assumptions_.guards()[0].location.line, 3);
  // What follows from the guards needs no other one.
  EXPECT_TRUE(Decide("seq", Relation::kLe, "64"));
  EXPECT_TRUE(Decide("seq", Relation::kLt, "66"));
  EXPECT_TRUE(Decide("64", Relation::kGe, "seq"));
  EXPECT_TRUE(Decide("100 - seq", Relation::kGe, "36"));
  EXPECT_FALSE(Decide("1", Relation::kEq, "batch"));
  EXPECT_EQ(Guards().size(), 2u);
  // A tighter one does.
  EXPECT_TRUE(Decide("seq", Relation::kLe, "32"));
  EXPECT_EQ(Guards().size(), 3u);
}

TEST_F(AssumptionsTest, EqualSymbolsAreReplacedByTheEarlier) {
  EXPECT_EQ(Known("mem", Relation::kEq, "seq"), std::nullopt);
  EXPECT_TRUE(Decide("mem", Relation::kEq, "seq"));
  EXPECT_EQ(assumptions_.Simplify(E("2*mem + seq")), E("3*seq"));
  EXPECT_EQ(Known("mem", Relation::kEq, "seq"), true);
  EXPECT_EQ(Known("mem + 1", Relation::kEq, "seq"), false);
  EXPECT_EQ(Known("mem*batch", Relation::kLe, "seq*batch"), true);
  // Then a constant, seen through the earlier equality.
  EXPECT_TRUE(Decide("seq", Relation::kEq, "7"));
  EXPECT_EQ(assumptions_.Simplify(E("mem + seq")), SymExpr(14));
  EXPECT_EQ(Guards(), (Texts{"mem == seq", "seq == 7"}));
}

TEST_F(AssumptionsTest, EqualitiesOfExpressionsAreUsed) {
  EXPECT_TRUE(Decide("mem", Relation::kEq, "batch + 2"));
  EXPECT_EQ(assumptions_.Simplify(E("mem")), E("batch + 2"));
  EXPECT_TRUE(Decide("2*batch", Relation::kEq, "seq + 3"));
  EXPECT_EQ(Known("2*batch", Relation::kEq, "seq + 3"), true);
  EXPECT_EQ(Known("2*mem", Relation::kEq, "seq + 7"), true);
}

TEST_F(AssumptionsTest, DisequalityIsUsed) {
  EXPECT_TRUE(Decide("seq", Relation::kNe, "batch"));
  EXPECT_EQ(Known("batch", Relation::kEq, "seq"), false);
  EXPECT_EQ(Known("batch", Relation::kNe, "seq"), true);
  EXPECT_EQ(Known("batch", Relation::kLt, "seq"), std::nullopt);
}

TEST_F(AssumptionsTest, RequireExplainsItself) {
  EXPECT_TRUE(
      assumptions_.Require(E("seq"), Relation::kLe, 64, "position ids", {})
          .ok());
  EXPECT_EQ(Guards(), Texts{"seq <= 64"});
  const absl::Status status =
      assumptions_.Require(E("batch"), Relation::kEq, E("seq"), "aten.add",
                           Location{"block.0", "m.py", 12});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            "aten.add needs batch == seq, which does not hold (5 and 7 in the "
            "examples) at m.py:12 in block.0");
  EXPECT_FALSE(
      assumptions_.Require(E("seq"), Relation::kEq, E("seq + 1"), "x", {})
          .ok());
  EXPECT_EQ(Guards().size(), 1u);
}

TEST_F(AssumptionsTest, RepeatedGuardsAreKeptOnce) {
  assumptions_.AddGuard({E("seq"), Relation::kLe, 64, "a", {}});
  assumptions_.AddGuard({E("seq"), Relation::kLe, 64, "b", {}});
  assumptions_.AddGuard({64, Relation::kGe, E("seq"), "c", {}});
  EXPECT_EQ(Guards(), Texts{"seq <= 64"});
}

TEST_F(AssumptionsTest, UnknownSymbolsAreErrors) {
  EXPECT_FALSE(
      assumptions_.Decide(E("nobody"), Relation::kEq, 3, "x", {}).ok());
  EXPECT_EQ(assumptions_.Hint(E("batch*seq + 1")).value(), 36);
}

TEST(RelationTest, NegateIsTheComplement) {
  for (Relation relation : {Relation::kEq, Relation::kNe, Relation::kLt,
                            Relation::kLe, Relation::kGt, Relation::kGe}) {
    EXPECT_EQ(Negate(Negate(relation)), relation);
    for (int64_t a = 0; a < 3; ++a)
      for (int64_t b = 0; b < 3; ++b)
        EXPECT_NE(Holds(a, relation, b), Holds(a, Negate(relation), b));
  }
}

// Whatever Known says holds for all values that satisfy the guards.
TEST(AssumptionsPropertyTest, KnownIsSound) {
  const Relation relations[] = {Relation::kEq, Relation::kNe, Relation::kLt,
                                Relation::kLe, Relation::kGt, Relation::kGe};
  const char* texts[] = {"a",   "b",     "a + 1", "2*b",           "3",
                         "a*b", "5 - a", "b - a", "floordiv(a, 2)"};
  int known_count = 0;
  for (int seed = 0; seed < 20; ++seed) {
    Assumptions assumptions;
    assumptions.AddSymbol({"a", 1 + seed % 5, "x", 0});
    assumptions.AddSymbol({"b", 1 + seed / 5 % 4, "x", 1});
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(assumptions
                      .Decide(E(texts[(seed * 7 + i * 4) % 9]),
                              relations[(seed + i) % 6],
                              E(texts[(seed * 5 + i * 2 + 1) % 9]), "t", {})
                      .ok());
    std::vector<SymbolValues> admitted;
    for (int64_t a = 1; a < 8; ++a) {
      for (int64_t b = 1; b < 8; ++b) {
        const SymbolValues values{{"a", a}, {"b", b}};
        if (llvm::all_of(assumptions.guards(), [&](const Guard& guard) {
              return Holds(guard.lhs.Evaluate(values).value(), guard.relation,
                           guard.rhs.Evaluate(values).value());
            }))
          admitted.push_back(values);
      }
    }
    ASSERT_FALSE(admitted.empty());
    for (const char* left : texts) {
      for (const char* right : texts) {
        const SymExpr lhs = E(left);
        const SymExpr rhs = E(right);
        for (Relation relation : relations) {
          std::optional<bool> known = assumptions.Known(lhs, relation, rhs);
          if (!known) continue;
          ++known_count;
          for (const SymbolValues& values : admitted)
            ASSERT_EQ(Holds(lhs.Evaluate(values).value(), relation,
                            rhs.Evaluate(values).value()),
                      *known)
                << lhs << " " << ToString(relation) << " " << rhs;
        }
      }
    }
  }
  EXPECT_GT(known_count, 1000);
}

}  // namespace
}  // namespace tp
