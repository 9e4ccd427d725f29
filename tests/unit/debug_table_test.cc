#include "frontend/debug_table.h"

#include "gtest/gtest.h"
#include "tests/unit/archive_test_util.h"

namespace tp {
namespace {

using testing::PickleWriter;

struct Fields {
  std::vector<int64_t> pieces = {1, 0};  // text: "line\n" + ""
  int64_t file = 2;
  int64_t start = 0;
  int64_t end = 5;
};

absl::Status Check(const std::string& bytes) {
  auto pickle = ReadPickle(bytes, "test");
  if (!pickle.ok()) return pickle.status();
  return CheckDebugTable(*pickle->root, "test");
}

absl::Status Check(const Fields& fields) {
  PickleWriter writer;
  writer.String("FORMAT_WITH_STRING_TABLE");
  writer.Raw("(").String("").String("line\n").String("file.py").Raw("t");
  writer.Raw("(").Int(0);
  writer.Global("torch.jit._pickle", "build_intlist").Raw("(](");
  for (int64_t piece : fields.pieces) writer.Int(piece);
  writer.Raw("etR").Int(fields.file).Int(12).Raw("\x87");
  writer.Int(fields.start).Int(fields.end).Raw("\x87").Int(7).Raw("\x87t\x87");
  return Check(writer.Finish());
}

TEST(DebugTable, AcceptsWhatTorchWrites) {
  EXPECT_TRUE(Check(Fields{}).ok()) << Check(Fields{});
  EXPECT_TRUE(Check(Fields{.pieces = {}, .start = 0, .end = 1}).ok());
  EXPECT_TRUE(Check(Fields{.pieces = {1, 1, 1}, .start = 9, .end = 14}).ok());
  EXPECT_TRUE(Check("\x80\x02).").ok());
  // The old format holds each text itself.
  PickleWriter old;
  old.Raw("(").Int(0).String("text").Raw("N").Int(3).Raw("\x87");
  old.Int(1).Int(4).Raw("\x87\x86t");
  EXPECT_TRUE(Check(old.Finish()).ok()) << Check(old.Finish());
}

TEST(DebugTable, RefusesIndicesOutsideTheStrings) {
  for (int64_t index : {int64_t{3}, int64_t{200}, int64_t{-1}, INT64_MAX}) {
    EXPECT_FALSE(Check(Fields{.pieces = {1, index}}).ok()) << index;
    EXPECT_FALSE(Check(Fields{.file = index}).ok()) << index;
  }
}

TEST(DebugTable, RefusesRangesOutsideTheText) {
  EXPECT_FALSE(Check(Fields{.start = 6, .end = 7}).ok());
  EXPECT_FALSE(Check(Fields{.start = -1, .end = 1}).ok());
  EXPECT_FALSE(Check(Fields{.start = 3, .end = 2}).ok());
  EXPECT_FALSE(Check(Fields{.start = 0, .end = INT64_MAX}).ok());
}

TEST(DebugTable, RefusesOtherShapes) {
  for (const std::string& bytes : std::vector<std::string>{
           "\x80\x02N.", "\x80\x02(NNt.", "\x80\x02].",
           PickleWriter().String("OTHER").Raw("))\x87").Finish(),
           PickleWriter()
               .String("FORMAT_WITH_STRING_TABLE")
               .Raw("N)\x87")
               .Finish(),
           PickleWriter()
               .String("FORMAT_WITH_STRING_TABLE")
               .Raw("(Nt)\x87")
               .Finish(),
           PickleWriter()
               .String("FORMAT_WITH_STRING_TABLE")
               .Raw(")(Nt\x87")
               .Finish()})
    EXPECT_FALSE(Check(bytes).ok());
}

}  // namespace
}  // namespace tp
