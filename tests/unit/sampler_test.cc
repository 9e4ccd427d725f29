#include "runtime/generate/sampler.h"

#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

const std::vector<double> kLogits = {0.5, 2.0, -1.0, 2.0, 1.0};

// How often each token is drawn.
std::map<int64_t, int> Draw(const SamplingOptions& options, int count) {
  std::map<int64_t, int> drawn;
  for (int i = 0; i < count; ++i) ++drawn[ChooseToken(kLogits, options, 0, i)];
  return drawn;
}

TEST(SamplerTest, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(ChooseToken(kLogits, {}, 0, 0), 1);
  EXPECT_EQ(ChooseToken({-3.0, -2.0}, {}, 5, 9), 1);
}

TEST(SamplerTest, LargestTokensInOrder) {
  EXPECT_THAT(LargestTokens(kLogits, 3), ElementsAre(1, 3, 4));
  EXPECT_THAT(LargestTokens(kLogits, 9), ElementsAre(1, 3, 4, 0, 2));
}

TEST(SamplerTest, DrawsAsLikelyAsTheSoftmaxSays) {
  SamplingOptions options;
  options.temperature = 2;
  constexpr int kDraws = 40000;
  const std::map<int64_t, int> drawn = Draw(options, kDraws);
  double total = 0;
  for (double logit : kLogits) total += std::exp(logit / 2);
  for (size_t token = 0; token < kLogits.size(); ++token) {
    const double wanted = std::exp(kLogits[token] / 2) / total;
    const auto found = drawn.find(static_cast<int64_t>(token));
    ASSERT_NE(found, drawn.end());
    EXPECT_NEAR(static_cast<double>(found->second) / kDraws, wanted, 0.01);
  }
}

TEST(SamplerTest, TopKAndTopPLeaveTheRestOut) {
  SamplingOptions options;
  options.temperature = 10;
  options.top_k = 3;
  std::map<int64_t, int> drawn = Draw(options, 2000);
  EXPECT_EQ(drawn.size(), 3);
  EXPECT_EQ(drawn.count(0) + drawn.count(2), 0);
  // Tokens 1 and 3 have 0.37 each at temperature 1: two reach 0.7, and one
  // does 0.3.
  options.top_k = 0;
  options.temperature = 1;
  options.top_p = 0.7;
  EXPECT_EQ(Draw(options, 2000).size(), 2);
  options.top_p = 0.3;
  EXPECT_EQ(Draw(options, 2000).size(), 1);
  options.top_p = 1e-9;
  EXPECT_EQ(Draw(options, 100).size(), 1);
}

TEST(SamplerTest, TheSameNumbersForTheSamePlace) {
  SamplingOptions options;
  options.temperature = 5;
  options.seed = 3;
  std::vector<int64_t> first, again, other_row, other_seed;
  for (int i = 0; i < 64; ++i) {
    first.push_back(ChooseToken(kLogits, options, 0, i));
    again.push_back(ChooseToken(kLogits, options, 0, i));
    other_row.push_back(ChooseToken(kLogits, options, 1, i));
  }
  options.seed = 4;
  for (int i = 0; i < 64; ++i)
    other_seed.push_back(ChooseToken(kLogits, options, 0, i));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other_row);
  EXPECT_NE(first, other_seed);
}

TEST(SamplerTest, LogSoftmaxOfLargeScores) {
  const std::vector<double> result = LogSoftmax({1000, 1000});
  EXPECT_THAT(result, Each(::testing::DoubleNear(-std::log(2.0), 1e-12)));
}

TEST(SamplerTest, RefusesWhatHasNoMeaning) {
  EXPECT_TRUE(CheckSampling({}).ok());
  SamplingOptions options;
  options.temperature = -0.5;
  EXPECT_EQ(CheckSampling(options).code(), absl::StatusCode::kInvalidArgument);
  options.temperature = std::nan("");
  EXPECT_FALSE(CheckSampling(options).ok());
  options = {};
  options.top_k = -1;
  EXPECT_FALSE(CheckSampling(options).ok());
  options = {};
  for (double p : {0.0, -1.0, 1.5, std::nan("")}) {
    options.top_p = p;
    EXPECT_FALSE(CheckSampling(options).ok()) << p;
  }
}

}  // namespace
}  // namespace tp
