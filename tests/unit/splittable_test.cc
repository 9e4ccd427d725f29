#include <fstream>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "ir/op_def.h"
#include "ir/text.h"
#include "llvm/ADT/StringExtras.h"

namespace tp {
namespace {

struct Case {
  std::string text;      // the line
  std::string op;        // "aten.mm(%0, %1)" with attributes and types
  std::string operands;  // "%0: f32[2], %1: f32[3]"
  std::vector<std::string> factors;
};

// The types within the parentheses become arguments.
Case ParseCase(const std::string& line) {
  Case result;
  result.text = line;
  size_t colon = line.rfind(" : ");
  size_t arrow = line.rfind(" -> ", colon);
  size_t open = line.find('(');
  size_t close = line.find(')');
  if (colon == std::string::npos || arrow == std::string::npos ||
      open == std::string::npos || close == std::string::npos) {
    ADD_FAILURE() << "cannot read: " << line;
    return result;
  }
  result.factors = absl::StrSplit(line.substr(colon + 3), ' ');
  result.op = line.substr(0, open + 1);
  int count = 0;
  for (size_t i = open + 1; i < close;) {
    if (line.compare(i, 4, "none") == 0) {
      result.op += "none";
      i += 4;
    } else if (llvm::isAlpha(line[i])) {
      size_t end = line.find(']', i) + 1;
      std::string name = absl::StrCat("%a", count++);
      result.op += name;
      absl::StrAppend(&result.operands, count == 1 ? "" : ", ", name, ": ",
                      line.substr(i, end - i));
      i = end;
    } else {
      result.op += line[i++];
    }
  }
  absl::StrAppend(&result.op, line.substr(close, arrow - close), " : ",
                  line.substr(arrow + 4, colon - arrow - 4));
  return result;
}

std::vector<Case> ReadCases() {
  std::vector<Case> cases;
  std::ifstream file(TP_SOURCE_DIR "/tests/splittable.txt");
  EXPECT_TRUE(file.good());
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') cases.push_back(ParseCase(line));
  }
  return cases;
}

TEST(SplittableTest, TypesAreThoseOfLibTorchAndFactorsMaySplit) {
  std::vector<Case> cases = ReadCases();
  ASSERT_GT(cases.size(), 150u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    int num_results = 1;
    int depth = 0;
    for (char letter : c.op.substr(c.op.rfind(" : "))) {
      depth += letter == '[' ? 1 : letter == ']' ? -1 : 0;
      num_results += letter == ',' && depth == 0;
    }
    std::string result =
        num_results == 1 ? "%r" : absl::StrCat("%r:", num_results);
    auto module =
        Parse(absl::StrCat("tpir 1\nfunc @f(", c.operands, ") -> () {\n  ",
                           result, " = ", c.op, "\n  return\n}\n"),
              "splittable.txt");
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Op& op = **(*module)->function("f")->body().ops().begin();

    Assumptions assumptions;
    auto types = InferTypes(op, assumptions);
    ASSERT_TRUE(types.ok()) << types.status().message();
    ASSERT_EQ(static_cast<int>(types->size()), op.num_results());
    for (int r = 0; r < op.num_results(); ++r) {
      EXPECT_EQ(ToString((*types)[r]), ToString(op.result(r)->type()));
    }

    auto rule = RuleOf(op);
    ASSERT_TRUE(rule.ok()) << rule.status().message();
    std::multiset<std::string> splittable;
    for (const Factor& factor : rule->factors) {
      if (factor.kind == FactorKind::kWhole) continue;
      splittable.insert(
          absl::StrCat(factor.size.ToString(),
                       factor.kind == FactorKind::kReduce ? "+" : ""));
    }
    if (!rule->partial.empty()) splittable.insert("partial");
    if (splittable.empty()) splittable.insert("none");
    std::multiset<std::string> wanted(c.factors.begin(), c.factors.end());
    EXPECT_EQ(splittable, wanted) << rule->ToString();
  }
}

}  // namespace
}  // namespace tp
