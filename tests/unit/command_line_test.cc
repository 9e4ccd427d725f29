#include "tools/command_line.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

using ::testing::HasSubstr;

constexpr ToolText kTool = {"tool", "usage: tool\n", "1.2 (of the day)"};

struct Outcome {
  absl::Status status;
  std::optional<int> answer;
  std::string printed;
  std::string complaint;
  CommonOptions common;
  bool fast = false;
};

Outcome Read(std::vector<std::string> arguments, bool required = true) {
  Outcome outcome;
  std::vector<char*> argv;
  arguments.insert(arguments.begin(), "tool");
  for (std::string& argument : arguments) argv.push_back(argument.data());
  CommandLine line;
  line.Switch("--fast", &outcome.fast);
  outcome.status = line.ParseCommon(static_cast<int>(argv.size()), argv.data(),
                                    "thing", required, outcome.common);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  outcome.answer = AnswerCommon(kTool, outcome.status, outcome.common);
  outcome.printed = ::testing::internal::GetCapturedStdout();
  outcome.complaint = ::testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(CommandLineTest, OnePositionalArgument) {
  const Outcome good = Read({"a", "--fast"});
  EXPECT_TRUE(good.status.ok());
  EXPECT_EQ(good.common.positional, "a");
  EXPECT_TRUE(good.fast);
  EXPECT_EQ(good.answer, std::nullopt);
  EXPECT_EQ(Read({"-"}).common.positional, "-");
  EXPECT_EQ(Read({"--", "--fast"}).common.positional, "--fast");
  EXPECT_TRUE(Read({}, /*required=*/false).status.ok());

  for (const auto& arguments :
       {std::vector<std::string>{}, {"a", "b"}, {"--slow", "a"}}) {
    const Outcome bad = Read(arguments);
    EXPECT_EQ(bad.answer, static_cast<int>(ExitCode::kUsage));
    EXPECT_EQ(bad.printed, "");
    EXPECT_THAT(bad.complaint, HasSubstr("tool: "));
    EXPECT_THAT(bad.complaint, HasSubstr("Try tool --help."));
  }
  EXPECT_THAT(Read({}).complaint, HasSubstr("give exactly one thing\n"));
  EXPECT_THAT(Read({"a", "b"}, false).complaint,
              HasSubstr("one thing, not a and b"));
}

TEST(CommandLineTest, HelpAndVersionNeedNothingElse) {
  Outcome outcome = Read({"--help"});
  EXPECT_EQ(outcome.answer, 0);
  EXPECT_EQ(outcome.printed, "usage: tool\n");
  outcome = Read({"--version", "a", "b"});
  EXPECT_EQ(outcome.answer, 0);
  EXPECT_EQ(outcome.printed, "tool 1.2 (of the day)\n");
  EXPECT_EQ(outcome.complaint, "");
}

}  // namespace
}  // namespace tp
