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
  - name: lm_head.weight
    state: zero3
)",
                                                "plan.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 3u);
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
  EXPECT_EQ((*rules)[2].action, UserRule::Action::kZero3);
}

TEST(ConfigReaderTest, ReadsRulesOnValuesAndAxes) {
  absl::StatusOr<UserRules> rules = ParseConfig(R"(tp_plan: 2
mesh: "[dp: 2, tp: 2]"
fingerprint: "ab"
rules:
  - glob: h.*.mlp
    of: input
    position: 1
    state: {dp: split 0, tp: replicate}
values:
  - {name: "h.0:add", placement: "<S(0), R>", type: "f32[4,8]", where: "a"}
)",
                                                "plan.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 2u);
  EXPECT_EQ(rules->mesh, "[dp: 2, tp: 2]");
  EXPECT_EQ(rules->fingerprint, "ab");
  const UserRule& input = (*rules)[0];
  EXPECT_TRUE(input.glob);
  EXPECT_EQ(input.of, UserRule::Of::kInput);
  EXPECT_EQ(input.position, 1);
  ASSERT_EQ(input.axes.size(), 2u);
  EXPECT_EQ(input.axes[0].axis, "dp");
  EXPECT_EQ(input.axes[0].state.action, UserRule::Action::kSplit);
  EXPECT_EQ(input.axes[1].state.action, UserRule::Action::kReplicate);
  const UserRule& value = (*rules)[1];
  EXPECT_EQ(value.of, UserRule::Of::kProduced);
  EXPECT_EQ(value.pattern, "h.0:add");
  EXPECT_EQ(value.placement, "<S(0), R>");
  EXPECT_EQ(value.type, "f32[4,8]");
  EXPECT_EQ(value.source, "plan.yaml:10");
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
        BadConfig{"rules:\n  - search: a\n    state: split x\n", "is no state"},
        BadConfig{"rules:\n  - search: a\n    state: split 1 chunk=0\n",
                  "is no state"},
        BadConfig{"rules:\n  - search: a\n    sate: split 1\n",
                  "unknown key \"sate\""},
        BadConfig{"rules:\n  - search: a\n    state: replicate\n    optional: "
                  "perhaps\n",
                  "true or false"},
        BadConfig{"rules:\n  - name: a\n    of: weights\n    state: split 1\n",
                  "is not what a rule is of"},
        BadConfig{"rules:\n  - name: a\n    position: 1\n    state: split 1\n",
                  "position"},
        BadConfig{"rules:\n  - name: a\n    state: {tp: split}\n",
                  "is no state"},
        BadConfig{"rules:\n  - name: a\n    glob: b\n    state: replicate\n",
                  "one of search, name, glob"},
        BadConfig{"values:\n  - {name: a}\n", "needs \"name\" and"},
        BadConfig{"tp_plan: 1\n", "reads version 2"},
        BadConfig{"rules: [\n", "bad.yaml"}));

}  // namespace
}  // namespace tp
