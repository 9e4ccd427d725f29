#include "runtime/generate/beam_search.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/counter_hash.h"
#include "runtime/generate/sampler.h"

namespace tp {
namespace {

using ::testing::ElementsAre;

// Scores that depend on the tokens so far, as a model's do.
std::vector<double> Model(const std::vector<int64_t>& tokens,
                          int64_t vocabulary) {
  uint64_t state = 17;
  for (int64_t token : tokens)
    state = Scramble(state + static_cast<uint64_t>(token) + 1);
  std::vector<double> logits;
  for (int64_t token = 0; token < vocabulary; ++token)
    logits.push_back(static_cast<double>(Scramble(state ^ (token + 1)) >> 40) *
                     3e-7);
  return logits;
}

BeamSearch::Text Search(const BeamOptions& options, int64_t vocabulary) {
  BeamSearch search(options);
  std::vector<std::vector<int64_t>> texts(options.num_beams);
  while (!search.done()) {
    std::vector<std::vector<double>> logits;
    for (const auto& text : texts) logits.push_back(Model(text, vocabulary));
    search.Advance(logits);
    std::vector<std::vector<int64_t>> next;
    for (size_t i = 0; i < texts.size(); ++i) {
      next.push_back(texts[search.sources()[i]]);
      next.back().push_back(search.tokens()[i]);
    }
    texts = std::move(next);
  }
  return search.ended().front();
}

// The best of all texts of `length` tokens.
BeamSearch::Text Exhaustive(int64_t length, int64_t vocabulary) {
  BeamSearch::Text best;
  best.score = -1e300;
  std::vector<BeamSearch::Text> open(1);
  for (int64_t i = 0; i < length; ++i) {
    std::vector<BeamSearch::Text> next;
    for (const BeamSearch::Text& text : open) {
      const auto scores = LogSoftmax(Model(text.tokens, vocabulary));
      for (int64_t token = 0; token < vocabulary; ++token) {
        next.push_back({text.tokens, text.score + scores[token]});
        next.back().tokens.push_back(token);
      }
    }
    open = std::move(next);
  }
  for (const auto& text : open)
    if (text.score > best.score) best = text;
  return best;
}

TEST(BeamSearchTest, OneBeamIsGreedy) {
  BeamOptions options;
  options.max_new_tokens = 6;
  const BeamSearch::Text text = Search(options, 11);
  std::vector<int64_t> greedy;
  for (int i = 0; i < 6; ++i)
    greedy.push_back(ChooseToken(Model(greedy, 11), {}, 0, 0));
  EXPECT_EQ(text.tokens, greedy);
}

TEST(BeamSearchTest, AsManyBeamsAsTextsFindTheBest) {
  BeamOptions options;
  options.num_beams = 64;  // 4^3: everything before the last token
  options.max_new_tokens = 4;
  const BeamSearch::Text text = Search(options, 4);
  const BeamSearch::Text best = Exhaustive(4, 4);
  EXPECT_EQ(text.tokens, best.tokens);
  EXPECT_NEAR(text.score, best.score / 4, 1e-9);
}

// Token 0 ends texts. From nothing it has 0.4, token 1 has 0.35, token 2 0.25;
// after that 0 is almost certain.
TEST(BeamSearchTest, ScoresAreDividedByTheLength) {
  const auto log = [](std::vector<double> values) {
    for (double& value : values) value = std::log(value);
    return values;
  };
  for (double penalty : {0.0, 1.0}) {
    BeamOptions options;
    options.num_beams = 2;
    options.max_new_tokens = 5;
    options.eos = {0};
    options.length_penalty = penalty;
    BeamSearch search(options);
    const auto start = log({0.4, 0.35, 0.25});
    search.Advance({start, start});
    EXPECT_THAT(search.tokens(), ElementsAre(1, 2));
    EXPECT_THAT(search.sources(), ElementsAre(0, 0));
    EXPECT_FALSE(search.done());
    const auto end = log({0.998, 0.001, 0.001});
    search.Advance({end, end});
    EXPECT_TRUE(search.done());
    ASSERT_EQ(search.ended().size(), 2);
    // log(0.4) = -0.92; log(0.35 * 0.998) / 2 = -0.53.
    if (penalty == 0) {
      EXPECT_THAT(search.ended()[0].tokens, ElementsAre(0));
    } else {
      EXPECT_THAT(search.ended()[0].tokens, ElementsAre(1, 0));
      EXPECT_NEAR(search.ended()[0].score, std::log(0.35 * 0.998) / 2, 1e-12);
    }
  }
}

}  // namespace
}  // namespace tp
