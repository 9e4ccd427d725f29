// Text generation: prompts of token ids in, generated token ids out.
//
//   Generator generator(session, info);
//   TP_ASSIGN_OR_RETURN(std::vector<std::vector<int64_t>> texts,
//                       generator.Run({{1, 5, 7}}, options));
#ifndef TP_RUNTIME_GENERATE_GENERATOR_H_
#define TP_RUNTIME_GENERATE_GENERATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/generate_info.h"
#include "runtime/generate/beam_search.h"
#include "runtime/generate/decoder.h"
#include "runtime/generate/sampler.h"
#include "runtime/session.h"

namespace tp {

using TokenIds = std::vector<int64_t>;

struct GenerateOptions {
  int64_t max_new_tokens = 20;
  SamplingOptions sampling;
  int64_t num_beams = 1;  // more than 1: beam search, sampling is not used
  double length_penalty = 1;
  // Tokens that end a text; those of the package if there are none.
  TokenIds eos;
  // Called with every token that is chosen, as it comes; not by beam search.
  std::function<void(size_t row, int64_t token)> on_token;
};

struct GenerateReport {
  double prefill_seconds = 0;
  double step_seconds = 0;
  int64_t steps = 0;
  std::vector<int64_t> cache_bytes;  // by rank, at the end
};

class Generator {
 public:
  // Over a session with all entries: @prefill or @encode, and @step.
  // kInvalidArgument or kUnimplemented if the package is not made for
  // generation.
  static absl::StatusOr<std::unique_ptr<Generator>> Create(
      Session& session, const GenerateInfo& info);

  // The generated tokens of each prompt, without the prompt; the token that
  // ended a text is its last. kInvalidArgument: no prompt, an empty one, or a
  // token that the model has not; kFailedPrecondition: the texts would not fit
  // the model.
  absl::StatusOr<std::vector<TokenIds>> Run(
      const std::vector<TokenIds>& prompts, const GenerateOptions& options,
      GenerateReport* report = nullptr);

 private:
  // What the next call needs to know besides caches.
  struct Rows {
    at::Tensor mask;       // i64 [batch, positions so far], or the source's
    int64_t position = 0;  // of the token that comes next, counting padding
  };

  explicit Generator(Session& session) : session_(session), decoder_(session) {}
  absl::Status FindEntries();
  absl::Status CheckRequest(const std::vector<TokenIds>& prompts,
                            const GenerateOptions& options) const;
  absl::StatusOr<at::Tensor> Prefill(const std::vector<TokenIds>& prompts,
                                     Rows& rows);
  absl::StatusOr<at::Tensor> Step(const TokenIds& tokens, Rows& rows);
  absl::StatusOr<std::vector<TokenIds>> Sample(const GenerateOptions& options,
                                               const TokenIds& eos,
                                               at::Tensor logits, Rows& rows,
                                               GenerateReport& report);
  absl::StatusOr<std::vector<TokenIds>> SearchBeams(
      const GenerateOptions& options, const TokenIds& eos, at::Tensor logits,
      Rows& rows, GenerateReport& report);

  Session& session_;
  GenerateInfo info_;
  Decoder decoder_;
  int first_ = -1;  // @prefill or @encode
  int step_ = -1;
  bool has_encoder_ = false;
  int64_t fixed_length_ = -1;  // of caches that do not grow
};

}  // namespace tp

#endif  // TP_RUNTIME_GENERATE_GENERATOR_H_
