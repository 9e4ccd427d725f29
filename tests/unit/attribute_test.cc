#include "ir/attribute.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "ir/cursor.h"
#include "ir/tokens.h"

namespace tp {
namespace {

TEST(AttributeTest, PrintsEveryKind) {
  EXPECT_EQ(Attribute().ToString(), "none");
  EXPECT_EQ(Attribute(true).ToString(), "true");
  EXPECT_EQ(Attribute(false).ToString(), "false");
  EXPECT_EQ(Attribute(-3).ToString(), "-3");
  EXPECT_EQ(Attribute(SymExpr::Symbol("seq") * 2).ToString(), "2*seq");
  EXPECT_EQ(Attribute(DType::kBF16).ToString(), "bf16");
  EXPECT_EQ(Attribute("mean").ToString(), "\"mean\"");
  EXPECT_EQ(Attribute(Attribute::List{}).ToString(), "[]");
  EXPECT_EQ(Attribute(Attribute::List{1, 2.0, Attribute(), "a"}).ToString(),
            "[1, 2.0, none, \"a\"]");
}

TEST(AttributeTest, FloatsNeverLookLikeIntegers) {
  EXPECT_EQ(Attribute(2.0).ToString(), "2.0");
  EXPECT_EQ(Attribute(-0.0).ToString(), "-0.0");
  EXPECT_EQ(Attribute(1e-5).ToString(), "1e-05");
  EXPECT_EQ(Attribute(1e300).ToString(), "1e+300");
  EXPECT_EQ(Attribute(0.1).ToString(), "0.1");
  EXPECT_EQ(Attribute(std::numeric_limits<double>::infinity()).ToString(),
            "inf");
  EXPECT_EQ(Attribute(-std::numeric_limits<double>::infinity()).ToString(),
            "-inf");
  EXPECT_EQ(Attribute(std::nan("")).ToString(), "nan");
  EXPECT_EQ(FloatToString(std::bit_cast<double>(0xfff8000000000002u)),
            "nan(0xfff8000000000002)");
}

void ExpectSameBits(double value) {
  const std::string text = FloatToString(value);
  Cursor cursor(text, "test");
  EXPECT_TRUE(cursor.PeekFloat()) << text;
  absl::StatusOr<double> read = cursor.ReadFloat();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(cursor.AtEnd()) << text;
  EXPECT_EQ(std::bit_cast<uint64_t>(*read), std::bit_cast<uint64_t>(value))
      << text;
}

TEST(AttributeTest, FloatsSurviveTextBitForBit) {
  for (double value :
       {0.0, -0.0, 1.0, 5e-324, -5e-324, 2.2250738585072014e-308,
        1.7976931348623157e308, std::numeric_limits<double>::infinity(),
        std::nan(""), -std::nan("")})
    ExpectSameBits(value);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i)
    ExpectSameBits(std::bit_cast<double>(random()));
}

TEST(AttributeTest, IntegerAndFloatDiffer) {
  EXPECT_NE(Attribute(2), Attribute(2.0));
  EXPECT_NE(Attribute(true), Attribute(1));
  EXPECT_EQ(Attribute(SymExpr(2)), Attribute(2));
}

TEST(AttributeTest, TypedAccess) {
  Attribute ints = Attribute::Ints(llvm::ArrayRef<int64_t>{1, 2});
  ASSERT_TRUE(ints.AsInts().has_value());
  EXPECT_EQ((*ints.AsInts())[1], SymExpr(2));
  EXPECT_FALSE(Attribute(Attribute::List{1, 2.0}).AsInts().has_value());
  EXPECT_FALSE(Attribute(1).AsInts().has_value());
  EXPECT_EQ(Attribute(7).AsConstantInt(), 7);
  EXPECT_FALSE(Attribute(SymExpr::Symbol("n")).AsConstantInt().has_value());
  EXPECT_FALSE(Attribute(7.0).AsConstantInt().has_value());
  EXPECT_EQ(Attribute(7).AsNumber(), 7.0);
  EXPECT_EQ(Attribute(0.5).AsNumber(), 0.5);
  EXPECT_FALSE(Attribute("7").AsNumber().has_value());
}

TEST(AttributeTest, QuotesWhatWouldBreakALine) {
  EXPECT_EQ(Quote("a\"b\\c\nd\te\r"), "\"a\\\"b\\\\c\\nd\\te\\r\"");
  EXPECT_EQ(Quote(llvm::StringRef("\0\x7f", 2)), "\"\\x00\\x7f\"");
  EXPECT_EQ(Quote("gr\xc3\xb6\xc3\x9f"
                  "e"),
            "\"gr\xc3\xb6\xc3\x9f"
            "e\"");
  EXPECT_EQ(Quote("\xff\xc3"), "\"\\xff\\xc3\"");
}

TEST(AttributeTest, StringsSurviveText) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int j = random() % 12; j > 0; --j)
      text += static_cast<char>(random() % 256);
    Cursor cursor(Quote(text), "test");
    absl::StatusOr<std::string> read = cursor.ReadString();
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, text);
    EXPECT_TRUE(cursor.AtEnd());
  }
}

}  // namespace
}  // namespace tp
