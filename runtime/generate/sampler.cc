#include "runtime/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "runtime/counter_hash.h"

namespace tp {
namespace {

// In [0, 1).
double Uniform(uint64_t seed, int64_t row, int64_t position) {
  uint64_t hash = Scramble(seed + 0x9e3779b97f4a7c15);
  hash = Scramble(hash ^ static_cast<uint64_t>(row));
  hash = Scramble(hash + static_cast<uint64_t>(position));
  return static_cast<double>(hash >> 11) * 0x1p-53;
}

}  // namespace

absl::Status CheckSampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    return absl::InvalidArgumentError(absl::StrCat(
        "a temperature of ", options.temperature, ": give 0 or more"));
  if (options.top_k < 0)
    return absl::InvalidArgumentError(absl::StrCat("top-k of ", options.top_k,
                                                   ": give 1 or more, or 0 for "
                                                   "all tokens"));
  if (!(options.top_p > 0 && options.top_p <= 1))
    return absl::InvalidArgumentError(absl::StrCat(
        "top-p of ", options.top_p, ": give more than 0 and at most 1"));
  return absl::OkStatus();
}

std::vector<int64_t> LargestTokens(llvm::ArrayRef<double> scores,
                                   int64_t count) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int64_t a, int64_t b) {
                      return scores[a] != scores[b] ? scores[a] > scores[b]
                                                    : a < b;
                    });
  order.resize(count);
  return order;
}

std::vector<double> LogSoftmax(llvm::ArrayRef<double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - largest);
  const double shift = largest + std::log(sum);
  std::vector<double> result;
  result.reserve(logits.size());
  for (double logit : logits) result.push_back(logit - shift);
  return result;
}

int64_t ChooseToken(llvm::ArrayRef<double> logits,
                    const SamplingOptions& options, int64_t row,
                    int64_t position) {
  if (options.temperature == 0)
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  const auto all = static_cast<int64_t>(logits.size());
  const std::vector<int64_t> order =
      LargestTokens(logits, options.top_k > 0 ? options.top_k : all);
  std::vector<double> weights;
  double total = 0;
  for (int64_t token : order) {
    weights.push_back(
        std::exp((logits[token] - logits[order[0]]) / options.temperature));
    total += weights.back();
  }
  if (options.top_p < 1) {
    double sum = 0;
    size_t kept = 0;
    while (kept < weights.size() && sum < options.top_p * total)
      sum += weights[kept++];
    weights.resize(kept);
    total = sum;
  }
  const double drawn = Uniform(options.seed, row, position) * total;
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (drawn < sum) return order[i];
  }
  return order[weights.size() - 1];  // rounding
}

}  // namespace tp
