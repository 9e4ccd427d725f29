// Beam search for one prompt: the texts with the largest sum of log
// probabilities per token.
//
// In every step each of `num_beams` running texts is continued by every token,
// and the best continuations are looked at, best first: a text that ends (its
// token ends texts, or there is no room for more) is kept if it is among the
// first num_beams, the others run on. The score of a text that ended is its
// log probability over length^length_penalty, length being that of the
// generated part. The search ends when no running text can be better than the
// worst one kept, judged by its present length.
#ifndef TP_RUNTIME_GENERATE_BEAM_SEARCH_H_
#define TP_RUNTIME_GENERATE_BEAM_SEARCH_H_

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace tp {

struct BeamOptions {
  int64_t num_beams = 1;
  int64_t max_new_tokens = 1;
  double length_penalty = 1;
  std::vector<int64_t> eos;  // tokens that end a text
};

class BeamSearch {
 public:
  explicit BeamSearch(const BeamOptions& options);

  // One step on: `logits[i]` are those of running text i (in the first step,
  // when all are the prompt, of the same prompt). Not after done().
  void Advance(llvm::ArrayRef<std::vector<double>> logits);

  bool done() const { return done_; }
  // After Advance: for each running text, the one before that it continues
  // (its caches go on from there), and its last token.
  const std::vector<int64_t>& sources() const { return sources_; }
  const std::vector<int64_t>& tokens() const { return tokens_; }

  struct Text {
    std::vector<int64_t> tokens;  // the generated part
    double score = 0;
  };
  // The texts that ended, best first; at least one when done.
  const std::vector<Text>& ended() const { return ended_; }

 private:
  bool Ends(int64_t token) const;

  BeamOptions options_;
  std::vector<Text> running_;  // score: the sum of log probabilities
  std::vector<Text> ended_;
  std::vector<int64_t> sources_;
  std::vector<int64_t> tokens_;
  int64_t length_ = 0;
  bool may_improve_ = true;
  bool done_ = false;
};

}  // namespace tp

#endif  // TP_RUNTIME_GENERATE_BEAM_SEARCH_H_
