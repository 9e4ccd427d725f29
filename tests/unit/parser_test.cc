#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "tests/unit/random_module.h"

namespace tp {
namespace {

using testing::HasSubstr;

std::string ParseError(llvm::StringRef text) {
  absl::StatusOr<std::unique_ptr<Module>> module = Parse(text, "f.tpir");
  if (module.ok()) return "parsed";
  EXPECT_EQ(module.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(module.status().message());
}

TEST(ParserTest, ErrorsShowTheLineAndACaret) {
  EXPECT_EQ(ParseError("tpir 1\n"
                       "func @f(%x: f32[2]) -> f32[2] {\n"
                       "  %0 = test.op(%y) : f32[2]\n"
                       "  return %0\n"
                       "}\n"),
            "f.tpir:3:16: error: %y is not defined before this use\n"
            "  %0 = test.op(%y) : f32[2]\n"
            "               ^");
}

TEST(ParserTest, VerifierErrorsPointAtTheOp) {
  EXPECT_EQ(ParseError("tpir 1\n"
                       "func @f() -> () {\n"
                       "  test.op() {size = [batch]}  loc \"m.py\":3\n"
                       "  return\n"
                       "}\n"),
            "f.tpir:3:3: error: test.op at m.py:3: attribute 'size': symbol "
            "'batch' is not declared\n"
            "  test.op() {size = [batch]}  loc \"m.py\":3\n"
            "  ^");
}

TEST(ParserTest, EmptyAndBinaryTexts) {
  EXPECT_THAT(ParseError(""), HasSubstr("f.tpir:1:1: error: expected 'tpir', "
                                        "found the end of the file"));
  EXPECT_THAT(ParseError(llvm::StringRef("tpir 1\n\0x", 9)),
              HasSubstr("f.tpir:2:1: error: "));
  EXPECT_THAT(ParseError("tpir 2"), HasSubstr("reads version 1"));
}

TEST(ParserTest, DeepNestingIsAnError) {
  const std::string head = "tpir 1\nfunc @f() -> () {\n test.op() {a = ";
  EXPECT_THAT(ParseError(head + std::string(100000, '[')),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(ParseError(head + std::string(100000, '(')),
              HasSubstr("nested too deeply"));
  std::string regions = "tpir 1\nfunc @f() -> () {\n";
  for (int i = 0; i < 100000; ++i) regions += "test.op() { ^()";
  EXPECT_THAT(ParseError(regions), HasSubstr("nested too deeply"));
}

TEST(ParserTest, SpacesAndCommentsDoNotMatter) {
  auto module = Parse(
      "// a comment\r\ntpir 1 func@f ( %a : f32 [ 2 ] ) -> ( ) { // more\n"
      "test.op ( %a ,none) { d = [ 1 ,2 ] , e = - 1 } loc \"f\" : 3 return }",
      "f.tpir");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(Print(**module),
            "tpir 1\n"
            "func @f(%a: f32[2]) -> () {\n"
            "  test.op(%a, none) {d = [1, 2], e = -1}  loc \"f\":3\n"
            "  return\n"
            "}\n");
}

TEST(ParserTest, PlacementsOfSeveralAxesComeInAnyOrder) {
  auto module = Parse(
      "tpir 1\nmesh @m = [dp: 2, tp: 4]\n"
      "func @f(%a: f32[8] <tp: S(0), dp: R>) -> () { return }",
      "f.tpir");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_THAT(Print(**module), HasSubstr("%a: f32[8] <dp: R, tp: S(0)>"));
}

// print(parse(t)) == t for whatever prints.
TEST(ParserTest, RandomModulesRoundTrip) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string text = Print(*RandomModule(seed).Make());
    auto module = Parse(text, "f.tpir");
    ASSERT_TRUE(module.ok()) << "seed " << seed << "\n"
                             << module.status().message() << "\n"
                             << text;
    ASSERT_EQ(Print(**module), text) << "seed " << seed;
    ASSERT_EQ(Print(*CloneModule(**module)), text) << "seed " << seed;
  }
}

// A few random edits of the bytes.
std::string Mutate(std::string text, uint64_t seed) {
  static const std::string kBytes("%#@:=,()[]{}<>\"\\^-+*/.09aeSPRx \n\0\xff",
                                  35);
  std::mt19937_64 bits(seed);
  auto below = [&](size_t n) { return static_cast<size_t>(bits() % n); };
  for (size_t i = 1 + below(3); i > 0 && !text.empty(); --i) {
    const size_t at = below(text.size());
    switch (below(4)) {
      case 0:
        text[at] = kBytes[below(kBytes.size())];
        break;
      case 1:
        text.insert(at, 1, kBytes[below(kBytes.size())]);
        break;
      case 2:
        text.erase(at, 1 + below(20));
        break;
      default:
        text.insert(below(text.size()), text.substr(at, 1 + below(30)));
    }
  }
  return text;
}

// Whatever the bytes: an error with a position, or a module that prints.
// Returns whether it parsed.
bool ExpectErrorOrModule(const std::string& text) {
  auto module = Parse(text, "f.tpir");
  if (!module.ok()) {
    EXPECT_THAT(std::string(module.status().message()),
                testing::ContainsRegex("^f\\.tpir:[0-9]+:[0-9]+: error: "))
        << text;
    return false;
  }
  const std::string printed = Print(**module);
  auto again = Parse(printed, "f.tpir");
  EXPECT_TRUE(again.ok()) << again.status().message() << "\n" << printed;
  if (again.ok()) {
    EXPECT_EQ(Print(**again), printed);
  }
  return true;
}

TEST(ParserTest, MutatedTextsNeverCrash) {
  int parsed = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed)
    parsed += ExpectErrorOrModule(
        Mutate(Print(*RandomModule(seed % 100).Make()), seed));
  EXPECT_GT(parsed, 100);  // some edits are harmless
}

// Ops of the table have rules, which see whatever operands the edit left.
TEST(ParserTest, MutatedProgramsNeverCrash) {
  int files = 0;
  int parsed = 0;
  const std::string root = TP_SOURCE_DIR "/tests/golden";
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".tpir") continue;
    ++files;
    std::ifstream file(entry.path(), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    text.resize(std::min(text.size(), text.find("// ---- expected")));
    for (uint64_t seed = 0; seed < 100; ++seed)
      parsed += ExpectErrorOrModule(Mutate(text, seed));
  }
  EXPECT_GT(files, 10);
  EXPECT_GT(parsed, 100);
}

TEST(ParserTest, PrefixesNeverCrash) {
  const std::string text = Print(*RandomModule(3).Make());
  for (size_t size = 0; size < text.size(); ++size)
    (void)Parse(llvm::StringRef(text).take_front(size), "f.tpir");
}

}  // namespace
}  // namespace tp
