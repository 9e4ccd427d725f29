// Rules with faults, which the comparisons of this folder must notice: the
// program of a sound op is made, and then another op is put in its place,
// whose rule would have to be another one.
#include <regex>

#include "gtest/gtest.h"
#include "tests/soundness/forward.h"
#include "tests/soundness/gradients.h"

namespace tp::soundness {
namespace {

struct Fault {
  const char* name;
  const char* sample;
  const char* pattern;
  const char* replacement;
  bool in_gradients;
};

const Fault kFaults[] = {
    // The rule says that the dim of a softmax passes.
    {"SoftmaxDim", "aten.exp(f64[N,7])", R"(aten\.exp\((%\w+)\))",
     "aten.softmax.int($1) {dim = 1}", true},
    // A mean is no sum: parts of 3, 2 and 2 weigh alike.
    {"MeanOfMeans", "aten.sum.dim_IntList(f64[N,7]) {dim = [1]}",
     R"(aten\.sum\.dim_IntList\((%\w+)\) \{dim = \[1\]\} : f64\[6\])",
     "aten.mean.dim($1) {dim = [1]} : f64[6]", true},
    // Every rank adds the number to its term.
    {"ScalarAddedToTerms", "aten.mul.Scalar(f64[N,3]) {other = 3}",
     R"(aten\.mul\.Scalar)", "aten.add.Scalar", false},
    // Positions matter.
    {"FlipDim", "aten.exp(f64[N,7])", R"(aten\.exp\((%\w+)\))",
     "aten.flip($1) {dims = [1]}", true},
    {"CumulativeDim", "aten.exp(f64[N,7])", R"(aten\.exp\((%\w+)\))",
     "aten.cumsum($1) {dim = 0}", true},
    // Parts of a factor that is not the leading one are no consecutive rows.
    {"GatherAsConcatenation", "aten.exp(f64[N,7])",
     R"re((tp\.all_gather\(%\w+\) \{axis = "tp", dim = 0, factor = )\[2, 3, 1\])re",
     "$1[1, 6, 1]", false},
    // The gradient of one rank's factor is lost.
    {"LostGradient", "aten.positive(f64[N,7])",
     R"(aten\.positive\((%\w+)\) : f64\[3,7\])", "aten.detach($1) : f64[3,7]",
     true},
};

class PlantedFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(PlantedFaultTest, IsNoticed) {
  const Fault& fault = GetParam();
  const Edit edit = [&fault](std::string text) {
    return std::regex_replace(text, std::regex(fault.pattern),
                              fault.replacement);
  };
  auto sample = ParseSample(fault.sample, false);
  ASSERT_TRUE(sample.ok()) << sample.status();
  const bool only_gradients = std::string(fault.name) == "LostGradient";
  for (int ranks : {2, 3}) {
    Report sound;
    CompareForward(*sample, ranks, nullptr, sound);
    CompareGradients(*sample, ranks, nullptr, sound);
    EXPECT_TRUE(sound.failures.empty()) << sound.failures[0];
    EXPECT_GT(sound.splits, 0);
    EXPECT_GT(sound.gradients, 0);
  }
  Report forward;
  CompareForward(*sample, 3, edit, forward);
  EXPECT_EQ(forward.failures.empty(), only_gradients);
  Report gradients;
  CompareGradients(*sample, only_gradients ? 2 : 3, edit, gradients);
  EXPECT_EQ(!gradients.failures.empty(), fault.in_gradients);
  // Noticed as other values, not because something could not run.
  for (const Report* report : {&forward, &gradients})
    for (const std::string& failure : report->failures)
      EXPECT_NE(failure.find("differs by"), std::string::npos) << failure;
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedFaultTest, ::testing::ValuesIn(kFaults),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace tp::soundness
