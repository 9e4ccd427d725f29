#include "runtime/generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "llvm/ADT/STLExtras.h"
#include "runtime/generate/sampler.h"

namespace tp {
namespace {

// Only the first text counts where all are the same.
constexpr double kNever = -1e9;

}  // namespace

BeamSearch::BeamSearch(const BeamOptions& options) : options_(options) {
  running_.resize(options.num_beams);
  for (size_t i = 1; i < running_.size(); ++i) running_[i].score = kNever;
}

bool BeamSearch::Ends(int64_t token) const {
  return length_ >= options_.max_new_tokens ||
         llvm::is_contained(options_.eos, token);
}

void BeamSearch::Advance(llvm::ArrayRef<std::vector<double>> logits) {
  const auto vocabulary = static_cast<int64_t>(logits[0].size());
  std::vector<double> scores;
  scores.reserve(vocabulary * options_.num_beams);
  for (int64_t beam = 0; beam < options_.num_beams; ++beam)
    for (double log_probability : LogSoftmax(logits[beam]))
      scores.push_back(running_[beam].score + log_probability);
  ++length_;
  // Enough that num_beams are left if all others end.
  const int64_t looked_at =
      std::max<int64_t>(2, 1 + static_cast<int64_t>(options_.eos.size())) *
      options_.num_beams;
  std::vector<Text> next;
  std::vector<Text> spare;  // ended, should all end
  std::vector<int64_t> sources;
  std::vector<int64_t> spare_sources;
  int64_t place = 0;
  for (int64_t index : LargestTokens(scores, looked_at)) {
    const int64_t token = index % vocabulary;
    const int64_t source = index / vocabulary;
    const bool first = place++ < options_.num_beams;
    const auto want = static_cast<size_t>(options_.num_beams);
    const bool ends = Ends(token);
    if (!ends && next.size() >= want) continue;
    Text text{running_[source].tokens, scores[index]};
    text.tokens.push_back(token);
    if (ends) {
      if (first && may_improve_)
        ended_.push_back(
            {text.tokens,
             text.score / std::pow(length_, options_.length_penalty)});
      text.score += kNever;
      spare.push_back(std::move(text));
      spare_sources.push_back(source);
      continue;
    }
    next.push_back(std::move(text));
    sources.push_back(source);
  }
  for (size_t i = 0; next.size() < static_cast<size_t>(options_.num_beams) &&
                     i < spare.size();
       ++i) {
    next.push_back(std::move(spare[i]));
    sources.push_back(spare_sources[i]);
  }
  // As many texts as ever, should the vocabulary be tiny.
  while (next.size() < static_cast<size_t>(options_.num_beams)) {
    next.push_back(next.back());
    next.back().score += kNever;
    sources.push_back(sources.back());
  }
  running_ = std::move(next);
  sources_ = std::move(sources);
  tokens_.clear();
  for (const Text& text : running_) tokens_.push_back(text.tokens.back());

  std::stable_sort(
      ended_.begin(), ended_.end(),
      [](const Text& a, const Text& b) { return a.score > b.score; });
  if (ended_.size() > static_cast<size_t>(options_.num_beams))
    ended_.resize(options_.num_beams);
  const double worst = ended_.size() < static_cast<size_t>(options_.num_beams)
                           ? kNever
                           : ended_.back().score;
  const double best =
      running_[0].score / std::pow(length_, options_.length_penalty);
  may_improve_ = may_improve_ && best > worst;
  done_ = !may_improve_ || length_ >= options_.max_new_tokens;
}

}  // namespace tp
