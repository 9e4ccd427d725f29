#include "ir/generate_info.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<GenerateInfo> Read(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  EXPECT_TRUE(static_cast<bool>(value));
  return ParseGenerateInfo(*value->getAsObject());
}

TEST(GenerateInfoTest, ReadsWhatTheExporterWrites) {
  auto info = Read(R"({"tp_generate": 1, "model": "m", "bos": 1, "eos": [2, 3],
    "pad": 0, "decoder_start": 4, "max_length": 64, "unknown": {},
    "entries": [{"name": "step", "file": "s.pt", "inputs": ["a", "b"]}],
    "caches": ["prefill.output_1=step.past"]})");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->bos, 1);
  EXPECT_THAT(info->eos, ElementsAre(2, 3));
  EXPECT_THAT(info->decoder_start, ElementsAre(4));
  EXPECT_EQ(info->max_length, 64);
  ASSERT_EQ(info->entries.size(), 1);
  EXPECT_THAT(info->entries[0].inputs, ElementsAre("a", "b"));
  ASSERT_EQ(info->caches.size(), 1);
  EXPECT_EQ(info->caches[0], (CacheLink{"prefill", 1, "step", "past"}));
  // What the manifest keeps of it.
  auto again = ParseGenerateInfo(info->ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->eos, info->eos);
  EXPECT_EQ(again->pad, 0);
  EXPECT_EQ(again->decoder_start, info->decoder_start);
  EXPECT_EQ(again->max_length, 64);
}

TEST(GenerateInfoTest, NumbersMayBeMissing) {
  auto info = Read(R"({"tp_generate": 1, "eos": null})");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->bos, -1);
  EXPECT_EQ(info->max_length, -1);
  EXPECT_TRUE(info->eos.empty());
}

TEST(GenerateInfoTest, SaysWhichFieldIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "'tp_generate' is not 1"},
      {R"({"tp_generate": 2})", "'tp_generate' is not 1"},
      {R"({"tp_generate": 1, "pad": -4})", "'pad'"},
      {R"({"tp_generate": 1, "eos": ["x"]})", "'eos'"},
      {R"({"tp_generate": 1, "entries": [{"name": "a"}]})", "'entries'"},
      {R"({"tp_generate": 1, "caches": ["a=b"]})", "cache 'a=b'"},
  };
  for (const auto& [text, message] : cases) {
    auto info = Read(text);
    EXPECT_EQ(info.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(info.status().message()), HasSubstr(message));
  }
  EXPECT_EQ(ReadGenerateInfo("/no/such/file").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tp
