#include "frontend/config_reader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

using ::testing::HasSubstr;

TEST(ConfigReaderTest, ReadsRulesInOrder) {
  absl::StatusOr<UserRules> rules = ParseConfig(R"(rules:
  - search: 'attn\.c_attn\.weight'
    state: split 1 groups=3 chunk=12
  - name: wte.weight
    state: replicate
    optional: true
)",
                                                "plan.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 2u);
  EXPECT_EQ((*rules)[0].pattern, "attn\\.c_attn\\.weight");
  EXPECT_FALSE((*rules)[0].exact);
  EXPECT_EQ((*rules)[0].action, UserRule::Action::kSplit);
  EXPECT_EQ((*rules)[0].dim, 1);
  EXPECT_EQ((*rules)[0].groups, 3);
  EXPECT_EQ((*rules)[0].chunk, 12);
  EXPECT_EQ((*rules)[0].source, "plan.yaml:2");
  EXPECT_TRUE((*rules)[1].exact);
  EXPECT_TRUE((*rules)[1].optional);
  EXPECT_EQ((*rules)[1].action, UserRule::Action::kReplicate);
}

TEST(ConfigReaderTest, AnEmptyFileHasNoRules) {
  absl::StatusOr<UserRules> rules = ParseConfig("", "empty.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_TRUE(rules->empty());
}

struct BadConfig {
  const char* text;
  const char* message;
};

class BadConfigTest : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, IsRefusedWithItsPlace) {
  absl::StatusOr<UserRules> rules = ParseConfig(GetParam().text, "bad.yaml");
  ASSERT_FALSE(rules.ok());
  EXPECT_EQ(rules.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rules.status().message()),
              HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(rules.status().message()), HasSubstr("bad.yaml"));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadConfigTest,
    ::testing::Values(
        BadConfig{"- a\n", "mapping"},
        BadConfig{"rule:\n", "unknown key \"rule\""},
        BadConfig{"rules:\n  - search: a\n", "needs \"state\""},
        BadConfig{"rules:\n  - state: replicate\n", "needs \"search\""},
        BadConfig{"rules:\n  - search: a\n    state: gather\n", "is no state"},
        BadConfig{"rules:\n  - search: a\n    state: split x\n",
                  "is no state"},
        BadConfig{"rules:\n  - search: a\n    state: split 1 chunk=0\n",
                  "is no state"},
        BadConfig{"rules:\n  - search: a\n    sate: split 1\n",
                  "unknown key \"sate\""},
        BadConfig{"rules:\n  - search: a\n    state: replicate\n    optional: "
                  "perhaps\n",
                  "true or false"},
        BadConfig{"rules: [\n", "bad.yaml"}));

}  // namespace
}  // namespace tp
