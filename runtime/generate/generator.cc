#include "runtime/generate/generator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

constexpr char kMask[] = "attention_mask";
constexpr char kPosition[] = "position";

class Timer {
 public:
  explicit Timer(double& seconds) : seconds_(seconds) {}
  ~Timer() {
    seconds_ += std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

// [rows, length], shorter rows filled up by `pad` in front or behind, and
// where the rows' own tokens are.
struct Padded {
  at::Tensor ids;
  at::Tensor mask;
};

Padded Pad(const std::vector<TokenIds>& rows, int64_t pad, bool in_front) {
  size_t length = 0;
  for (const TokenIds& row : rows) length = std::max(length, row.size());
  const auto batch = static_cast<int64_t>(rows.size());
  const std::vector<int64_t> sizes = {batch, static_cast<int64_t>(length)};
  Padded padded{at::full(sizes, pad, at::kLong), at::zeros(sizes, at::kLong)};
  auto ids = padded.ids.accessor<int64_t, 2>();
  auto mask = padded.mask.accessor<int64_t, 2>();
  for (size_t row = 0; row < rows.size(); ++row) {
    const size_t start = in_front ? length - rows[row].size() : 0;
    for (size_t i = 0; i < rows[row].size(); ++i) {
      ids[row][start + i] = rows[row][i];
      mask[row][start + i] = 1;
    }
  }
  return padded;
}

at::Tensor Column(const TokenIds& tokens) {
  return at::tensor(tokens, at::kLong).unsqueeze(1);
}

std::vector<double> RowOf(const at::Tensor& logits, int64_t row) {
  const at::Tensor values = logits[row].to(at::kDouble).contiguous();
  const double* data = values.const_data_ptr<double>();
  return std::vector<double>(data, data + values.numel());
}

// Logits of the last position, [batch, vocabulary].
absl::StatusOr<at::Tensor> LastLogits(std::vector<at::Tensor> outputs,
                                      const std::string& entry) {
  at::Tensor logits = outputs.empty() ? at::Tensor() : outputs[0];
  if (logits.defined() && logits.dim() == 3 && logits.size(1) > 0) {
    logits = logits.select(1, logits.size(1) - 1);
  }
  if (!logits.defined() || logits.dim() != 2 ||
      !at::isFloatingType(logits.scalar_type())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the first output of @", entry, " are no logits [batch, vocabulary]"));
  }
  if (logits.isnan().any().item<bool>()) {
    return absl::InternalError(
        absl::StrCat("a score that @", entry, " gives is not a number"));
  }
  return logits;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Generator>> Generator::Create(
    Session& session, const GenerateInfo& info) {
  std::unique_ptr<Generator> generator(new Generator(session));
  generator->info_ = info;
  TP_RETURN_IF_ERROR(generator->FindEntries());
  return generator;
}

absl::Status Generator::FindEntries() {
  has_encoder_ = session_.FindEntry("encode") >= 0;
  first_ = session_.FindEntry(has_encoder_ ? "encode" : "prefill");
  step_ = session_.FindEntry("step");
  if (first_ < 0 || step_ < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "generation needs a package with the entries prefill and step, or "
        "encode and step; this one has ",
        absl::StrJoin(session_.entries(), ", "),
        ". Export with tp_export.py --generate, compile with tp-compile "
        "--generate"));
  }
  for (int entry : {first_, step_}) {
    const Program& program = session_.program(entry);
    for (const std::string& name :
         {TokenInput(program), std::string(entry == first_ ? kMask : "")}) {
      if (name.empty() && entry == step_ && !TokenInput(program).empty()) {
        continue;
      }
      if (name.empty() || FindInput(program, name) == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "@", program.name(), " has no input ",
            name.empty() ? "input_ids or decoder_input_ids" : name));
      }
    }
  }
  const Program& step = session_.program(step_);
  const ProgramArgument* mask = FindInput(step, kMask);
  if (!has_encoder_ && mask != nullptr && mask->type.ndim() == 2) {
    fixed_length_ = mask->type.dims[1].AsConstant().value_or(-1);
  }
  return absl::OkStatus();
}

absl::Status Generator::CheckRequest(const std::vector<TokenIds>& prompts,
                                     const GenerateOptions& options) const {
  TP_RETURN_IF_ERROR(CheckSampling(options.sampling));
  if (prompts.empty()) {
    return absl::InvalidArgumentError("there is no prompt");
  }
  if (options.max_new_tokens < 1 || options.num_beams < 1) {
    return absl::InvalidArgumentError(
        "max-new-tokens and num-beams are 1 or more");
  }
  const Dims& scores = session_.program(first_).results()[0].type.dims;
  const int64_t vocabulary =
      scores.empty() ? -1 : scores.back().AsConstant().value_or(-1);
  size_t longest = 0;
  for (const TokenIds& prompt : prompts) {
    if (prompt.empty()) {
      return absl::InvalidArgumentError(
          "a prompt is empty; it needs at least one token id");
    }
    longest = std::max(longest, prompt.size());
    for (int64_t token : prompt) {
      if (token >= 0 && (vocabulary < 0 || token < vocabulary)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", token, " is none of the model's ",
                       vocabulary, ": 0 to ", vocabulary - 1));
    }
  }
  const int64_t limit = fixed_length_ >= 0 ? fixed_length_ : info_.max_length;
  if (limit < 0) return absl::OkStatus();
  // The last token is chosen, but not read.
  const int64_t begin = has_encoder_
                            ? static_cast<int64_t>(info_.decoder_start.size())
                            : static_cast<int64_t>(longest);
  const int64_t positions = begin + options.max_new_tokens - 1;
  if (positions <= limit &&
      (!has_encoder_ || static_cast<int64_t>(longest) <= limit)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "a prompt of ", longest, " tokens and ", options.max_new_tokens,
      " new ones do not fit the ", limit, " positions of ",
      fixed_length_ >= 0 ? "the caches" : "the model",
      "; give a shorter prompt or a smaller --max-new-tokens"));
}

absl::StatusOr<at::Tensor> Generator::Prefill(
    const std::vector<TokenIds>& prompts, Rows& rows) {
  decoder_.Forget();
  const int64_t pad = info_.pad >= 0 ? info_.pad : 0;
  const Padded padded = Pad(prompts, pad, /*in_front=*/!has_encoder_);
  NamedTensors inputs = {{"input_ids", padded.ids}, {kMask, padded.mask}};
  rows.mask = padded.mask;
  rows.position = padded.ids.size(1);
  if (has_encoder_) {
    if (info_.decoder_start.empty()) {
      return absl::InvalidArgumentError(
          "the package does not say what a target begins with "
          "('decoder_start')");
    }
    inputs.emplace_back("decoder_input_ids",
                        at::tensor(info_.decoder_start, at::kLong)
                            .expand({padded.ids.size(0), -1})
                            .contiguous());
    rows.position = static_cast<int64_t>(info_.decoder_start.size());
  } else if (fixed_length_ >= 0) {
    rows.mask = at::constant_pad_nd(
        padded.mask, {0, fixed_length_ - padded.mask.size(1)}, 0);
  }
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs,
                      decoder_.Call(first_, inputs));
  return LastLogits(std::move(outputs), session_.entries()[first_]);
}

absl::StatusOr<at::Tensor> Generator::Step(const TokenIds& tokens, Rows& rows) {
  const Program& program = session_.program(step_);
  if (!has_encoder_) {
    if (fixed_length_ >= 0) {
      rows.mask = rows.mask.clone();
      rows.mask.select(1, rows.position).fill_(1);
    } else {
      const std::vector<int64_t> one = {rows.mask.size(0), 1};
      rows.mask = at::cat({rows.mask, at::ones(one, at::kLong)}, 1);
    }
  }
  NamedTensors inputs = {{TokenInput(program), Column(tokens)}};
  if (FindInput(program, kMask) != nullptr) {
    inputs.emplace_back(kMask, rows.mask);
  }
  if (FindInput(program, kPosition) != nullptr) {
    inputs.emplace_back(kPosition, at::scalar_tensor(rows.position, at::kLong));
  }
  ++rows.position;
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs,
                      decoder_.Call(step_, inputs));
  return LastLogits(std::move(outputs), session_.entries()[step_]);
}

absl::StatusOr<std::vector<TokenIds>> Generator::Run(
    const std::vector<TokenIds>& prompts, const GenerateOptions& options,
    GenerateReport* report) {
  TP_RETURN_IF_ERROR(CheckRequest(prompts, options));
  GenerateReport own;
  GenerateReport& times = report == nullptr ? own : *report;
  const TokenIds& eos = options.eos.empty() ? info_.eos : options.eos;
  Rows rows;
  at::Tensor logits;
  {
    Timer timer(times.prefill_seconds);
    TP_ASSIGN_OR_RETURN(logits, Prefill(prompts, rows));
  }
  absl::StatusOr<std::vector<TokenIds>> texts =
      options.num_beams > 1 ? SearchBeams(options, eos, logits, rows, times)
                            : Sample(options, eos, logits, rows, times);
  for (int rank = 0; rank < session_.num_ranks(); ++rank) {
    times.cache_bytes.push_back(decoder_.CacheBytes(rank));
  }
  decoder_.Forget();
  return texts;
}

// A row that has ended runs on with padding until all have; what it gives is
// dropped.
absl::StatusOr<std::vector<TokenIds>> Generator::Sample(
    const GenerateOptions& options, const TokenIds& eos, at::Tensor logits,
    Rows& rows, GenerateReport& report) {
  const int64_t filler = info_.pad >= 0 ? info_.pad : eos.empty() ? 0 : eos[0];
  std::vector<TokenIds> texts(logits.size(0));
  std::vector<bool> ended(texts.size(), false);
  for (int64_t count = 0;;) {
    TokenIds tokens(texts.size(), filler);
    for (size_t row = 0; row < texts.size(); ++row) {
      if (ended[row]) continue;
      tokens[row] =
          ChooseToken(RowOf(logits, static_cast<int64_t>(row)),
                      options.sampling, static_cast<int64_t>(row), count);
      texts[row].push_back(tokens[row]);
      if (options.on_token) options.on_token(row, tokens[row]);
      ended[row] = llvm::is_contained(eos, tokens[row]);
    }
    if (++count >= options.max_new_tokens ||
        llvm::all_of(ended, [](bool end) { return end; })) {
      return texts;
    }
    Timer timer(report.step_seconds);
    TP_ASSIGN_OR_RETURN(logits, Step(tokens, rows));
    ++report.steps;
  }
}

// Rows of one prompt lie together: row * num_beams + beam.
absl::StatusOr<std::vector<TokenIds>> Generator::SearchBeams(
    const GenerateOptions& options, const TokenIds& eos, at::Tensor logits,
    Rows& rows, GenerateReport& report) {
  BeamOptions beam_options;
  beam_options.num_beams = options.num_beams;
  beam_options.max_new_tokens = options.max_new_tokens;
  beam_options.length_penalty = options.length_penalty;
  beam_options.eos = eos;
  const int64_t prompts = logits.size(0);
  const int64_t beams = options.num_beams;
  std::vector<BeamSearch> searches(prompts, BeamSearch(beam_options));
  // Of the prompts' one row each, then of the beams'.
  TokenIds row_of(prompts * beams);
  for (int64_t i = 0; i < prompts * beams; ++i) row_of[i] = i / beams;
  bool first = true;
  while (true) {
    TokenIds order(prompts * beams);
    TokenIds tokens(prompts * beams);
    for (int64_t p = 0; p < prompts; ++p) {
      BeamSearch& search = searches[p];
      std::vector<std::vector<double>> scores;
      for (int64_t b = 0; b < beams; ++b)
        scores.push_back(RowOf(logits, row_of[p * beams + b]));
      if (!search.done()) search.Advance(scores);
      for (int64_t b = 0; b < beams; ++b) {
        order[p * beams + b] = row_of[p * beams + search.sources()[b]];
        tokens[p * beams + b] = search.tokens()[b];
      }
    }
    if (llvm::all_of(searches, [](const auto& s) { return s.done(); })) break;
    Timer timer(report.step_seconds);
    const at::Tensor index = at::tensor(order, at::kLong);
    TP_RETURN_IF_ERROR(decoder_.SelectRows(index));
    if (first) rows.mask = rows.mask.index_select(0, index);
    first = false;
    for (int64_t i = 0; i < prompts * beams; ++i) row_of[i] = i;
    TP_ASSIGN_OR_RETURN(logits, Step(tokens, rows));
    ++report.steps;
  }
  std::vector<TokenIds> texts;
  for (const BeamSearch& search : searches)
    texts.push_back(search.ended().front().tokens);
  return texts;
}

}  // namespace tp
