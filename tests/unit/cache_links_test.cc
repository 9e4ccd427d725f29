#include "ir/cache_links.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text.h"

namespace tp {
namespace {

using ::testing::HasSubstr;

constexpr char kModule[] = R"(tpir 1
mesh @m = [tp: 2]
symbol s0 = 3 from "x":0
symbol step_s0 = 4 from "past":0
func @prefill(%x: f32[s0,8] <R>) -> (f32[8], f32[s0,8]) {
  %0 = aten.sum.dim_IntList(%x) {dim = [0]} : f32[8]
  return %0, %x
}
func @step(%past: f32[step_s0,8] <R>, %y: f32[8] <R>) -> (f32[8], f32[step_s0,8]) {
  return %y, %past
}
)";

std::unique_ptr<Module> Read(const std::string& text) {
  auto module = Parse(text, "module");
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

TEST(CacheLinksTest, Parse) {
  auto link = ParseCacheLink("prefill.output_1=step.past", "");
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ(*link, (CacheLink{"prefill", 1, "step", "past"}));
  link = ParseCacheLink("output_12=past", "forward");
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ(*link, (CacheLink{"forward", 12, "forward", "past"}));
  for (const char* bad : {"", "output_1", "output_1=", "output_x=past",
                          "result=past", "step.output_-1=step.past"})
    EXPECT_FALSE(ParseCacheLink(bad, "forward").ok()) << bad;
  EXPECT_THAT(
      std::string(ParseCacheLink("output_1=past", "").status().message()),
      HasSubstr("ENTRY.output_N=ENTRY.INPUT"));
}

TEST(CacheLinksTest, LinksAreInTheTextAndSurviveIt) {
  auto module = Read(kModule);
  ASSERT_TRUE(AddCacheLinks(*module, {{"prefill", 1, "step", "past"},
                                      {"step", 1, "step", "past"}})
                  .ok());
  const std::string text = Print(*module);
  EXPECT_THAT(text, HasSubstr("f32[s0,8] feeds @step \"past\""));
  EXPECT_THAT(text, HasSubstr("%past: f32[step_s0,8] <R> fed"));
  EXPECT_THAT(text, HasSubstr("f32[step_s0,8] to %past"));
  EXPECT_EQ(Print(*Read(text)), text);
  EXPECT_EQ(Print(*CloneModule(*module)), text);
  EXPECT_TRUE(Verify(*module).ok()) << Verify(*module);
  EXPECT_TRUE(module->function("step")->IsCarried(0));
  EXPECT_FALSE(module->function("step")->IsCarried(1));
}

TEST(CacheLinksTest, SaysWhatIsNotThere) {
  const std::pair<CacheLink, const char*> cases[] = {
      {{"encode", 1, "step", "past"}, "no entry 'encode'"},
      {{"prefill", 1, "decode", "past"}, "no entry 'decode'"},
      {{"prefill", 2, "step", "past"}, "has no output_2"},
      {{"prefill", 1, "step", "cache"},
       "no input 'cache'; its inputs are past"},
      {{"prefill", 0, "step", "past"}, "the output is f32[8]"},
  };
  for (const auto& [link, message] : cases) {
    auto module = Read(kModule);
    const absl::Status status = AddCacheLinks(*module, {link});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  auto module = Read(kModule);
  const CacheLink link{"prefill", 1, "step", "past"};
  EXPECT_THAT(std::string(AddCacheLinks(*module, {link, link}).message()),
              HasSubstr("a cache already"));
}

TEST(CacheLinksTest, TheVerifierKnowsLinks) {
  auto module = Read(kModule);
  ResultInfo info;
  info.feeds_function = "step";
  info.feeds_input = "past";
  module->function("prefill")->SetResultInfo(1, info);
  EXPECT_THAT(std::string(Verify(*module).message()),
              HasSubstr("does not say so"));
  info.feeds_input = "cache";
  module->function("prefill")->SetResultInfo(1, info);
  EXPECT_THAT(std::string(Verify(*module).message()),
              HasSubstr("no input of another function"));
}

}  // namespace
}  // namespace tp
