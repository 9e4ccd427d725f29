// Chooses the next token from the scores a model gives.
#ifndef TP_RUNTIME_GENERATE_SAMPLER_H_
#define TP_RUNTIME_GENERATE_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

struct SamplingOptions {
  double temperature = 0;  // 0: the token with the largest score
  int64_t top_k = 0;       // only among so many of the largest; 0: all
  double top_p = 1;        // only among the fewest that are this likely
  uint64_t seed = 0;
};

// kInvalidArgument names what is out of range.
absl::Status CheckSampling(const SamplingOptions& options);

// The token of `row` at `position` of the text. Depends on nothing but the
// arguments: the number drawn is a hash of seed, row and position. Of equal
// scores the smaller token comes first.
int64_t ChooseToken(llvm::ArrayRef<double> logits,
                    const SamplingOptions& options, int64_t row,
                    int64_t position);

// Tokens with the `count` largest scores, largest first.
std::vector<int64_t> LargestTokens(llvm::ArrayRef<double> scores,
                                   int64_t count);

// logits - log(sum(exp(logits))).
std::vector<double> LogSoftmax(llvm::ArrayRef<double> logits);

}  // namespace tp

#endif  // TP_RUNTIME_GENERATE_SAMPLER_H_
