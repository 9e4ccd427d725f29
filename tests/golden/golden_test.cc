// Runs every case under tests/golden/. A case is one file, <folder>/*.tpir:
//
//     // tp-opt: search,insert_reshards
//     // rule: "wte\.weight" split 1
//     tpir 1
//     ...
//     // ---- expected
//     tpir 1
//     ...
//
// The first line names the passes to run, none for parsing only, and then
// perhaps `rank=K`, which makes the program of that rank, and `train`. `rule`
// lines are what a user's config would say: a regular expression, then
// `replicate` or `split DIM [CHUNK [GROUPS]]`; a `// loss:` line before them is
// KIND LABELS [SHIFT]. Under the separator stands what Print gives, or the
// error. Without one the text must print as it stands.
//
// UPDATE_GOLDEN=1 in the environment rewrites what is under the separators.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr llvm::StringRef kFirstLine = "// tp-opt:";
constexpr llvm::StringRef kRuleLine = "// rule:";
constexpr llvm::StringRef kLossLine = "// loss:";
constexpr llvm::StringRef kSeparator = "// ---- expected\n";

struct GoldenCase {
  std::vector<std::string> passes;
  std::optional<int64_t> rank;
  bool train = false;
  LossOptions loss;
  UserRules rules;
  std::string input;
  std::optional<std::string> expected;
};

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::StatusOr<UserRule> ParseRuleLine(llvm::StringRef line) {
  UserRule rule;
  rule.source = "golden";
  line = line.trim();
  if (!line.consume_front("\""))
    return absl::InvalidArgumentError("a rule starts with \"pattern\"");
  auto [pattern, action] = line.split('"');
  rule.pattern = pattern.str();
  std::istringstream words(action.str());
  std::string word;
  words >> word;
  if (word == "replicate") return rule;
  if (word == "zero3") {
    rule.action = UserRule::Action::kZero3;
    return rule;
  }
  if (word != "split")
    return absl::InvalidArgumentError(
        "a rule is replicate, zero3 or split DIM");
  rule.action = UserRule::Action::kSplit;
  words >> rule.dim;
  if (!words) return absl::InvalidArgumentError("split needs a dim");
  int64_t number;
  if (words >> number) rule.chunk = number;
  if (words >> number) rule.groups = number;
  return rule;
}

absl::StatusOr<GoldenCase> ParseCase(llvm::StringRef text) {
  GoldenCase result;
  auto [first, rest] = text.split('\n');
  if (!first.consume_front(kFirstLine))
    return absl::InvalidArgumentError(absl::StrCat(
        "the first line must be '", kFirstLine.str(), " [passes] [rank=K]'"));
  std::istringstream words(first.str());
  for (std::string word; words >> word;) {
    llvm::StringRef value = word;
    if (value.consume_front("rank=")) {
      int64_t rank = 0;
      if (value.getAsInteger(10, rank))
        return absl::InvalidArgumentError("rank= needs a number");
      result.rank = rank;
    } else if (word == "train") {
      result.train = true;
    } else {
      std::vector<std::string> names = absl::StrSplit(word, ',');
      result.passes.insert(result.passes.end(), names.begin(), names.end());
    }
  }
  if (rest.starts_with(kLossLine)) {
    auto [line, after] = rest.split('\n');
    std::istringstream parts(line.drop_front(kLossLine.size()).str());
    parts >> result.loss.kind >> result.loss.labels >> result.loss.shift;
    rest = after;
  }
  while (rest.starts_with(kRuleLine)) {
    auto [line, after] = rest.split('\n');
    TP_ASSIGN_OR_RETURN(UserRule rule,
                        ParseRuleLine(line.drop_front(kRuleLine.size())));
    result.rules.push_back(std::move(rule));
    rest = after;
  }
  const size_t at = text.find(kSeparator);
  result.input = text.take_front(at).str();
  if (at != llvm::StringRef::npos)
    result.expected = text.drop_front(at + kSeparator.size()).str();
  return result;
}

// What tp-opt would print: the module, or the error.
std::string RunCase(const GoldenCase& golden, llvm::StringRef name) {
  auto error = [](const absl::Status& status) {
    return absl::StrCat(status.message(), "\n");
  };
  absl::StatusOr<std::unique_ptr<Module>> module = Parse(golden.input, name);
  if (!module.ok()) return error(module.status());
  PassContext context;
  context.rules = golden.rules;
  context.train = golden.train;
  context.zero3 = golden.train;
  context.loss = golden.loss;
  if (absl::Status status = RunPasses(**module, golden.passes, context);
      !status.ok())
    return error(status);
  if (golden.rank) {
    module = LocalizeForRank(**module, *golden.rank);
    if (!module.ok()) return error(module.status());
  }
  return Print(**module);
}

class GoldenTest : public testing::Test {
 public:
  explicit GoldenTest(fs::path path) : path_(std::move(path)) {}

  void TestBody() override {
    const std::string text = ReadFile(path_);
    absl::StatusOr<GoldenCase> golden = ParseCase(text);
    ASSERT_TRUE(golden.ok()) << path_ << ": " << golden.status();
    const std::string actual = RunCase(*golden, path_.filename().string());
    if (std::getenv("UPDATE_GOLDEN") != nullptr) {
      if (golden->expected)
        std::ofstream(path_, std::ios::binary)
            << golden->input << kSeparator.str() << actual;
      return;
    }
    // A case without a separator is its own expectation, but for comments.
    const std::string expected =
        golden->expected ? *golden->expected
                         : llvm::StringRef(text).split('\n').second.str();
    EXPECT_EQ(actual, expected) << "in " << path_;
  }

 private:
  fs::path path_;
};

// The first folder name of the path is the suite, the file the test.
int RegisterAll() {
  std::vector<fs::path> paths;
  const fs::path root = fs::path(TP_SOURCE_DIR) / "tests" / "golden";
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.path().extension() == ".tpir") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    const std::string suite =
        absl::StrCat("Golden/", path.parent_path().filename().string());
    testing::RegisterTest(
        suite.c_str(), path.stem().string().c_str(), nullptr, nullptr, __FILE__,
        __LINE__, [path]() -> testing::Test* { return new GoldenTest(path); });
  }
  return static_cast<int>(paths.size());
}

const int num_cases = RegisterAll();

TEST(GoldenTest, FoundCases) { EXPECT_GT(num_cases, 10); }

}  // namespace
}  // namespace tp
