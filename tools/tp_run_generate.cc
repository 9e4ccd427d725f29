#include "tools/tp_run_generate.h"

#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/generate_info.h"
#include "ir/package_manifest.h"
#include "ir/status.h"
#include "runtime/generate/generator.h"
#include "runtime/session.h"
#include "tools/command_line.h"
#include "tools/load_library.h"

namespace tp {
namespace {

constexpr char kUsage[] =
    R"(usage: tp-run generate DIR --prompt-ids 1,2,3 [--prompt-ids 4,5 ...]
                       [--max-new-tokens N]

Continues prompts of token ids with a package that was made from the files of
tp_export.py --generate: tp-compile --generate NAME.generate.json -o DIR. Prints
the new ids, a line per prompt; of one prompt, each as it comes.

  --prompt-ids LIST    a prompt, ids separated by commas; may repeat
  --max-new-tokens N   how many to add at most (default 20)
  --eos-token-id LIST  ids that end a text instead of the model's own; none:
                       texts go on to --max-new-tokens
  --temperature T      draws tokens from the scores over T; 0, the default,
                       takes the largest
  --top-k K            draws from the K largest only
  --top-p P            draws from the fewest that are this likely together
  --seed S             of what is drawn; the same seed gives the same text
  --num-beams B        beam search: the text with the best score of B
  --length-penalty L   exponent of the length that divides the score of a beam
                       (default 1)
  --json               a line {"prompt": [...], "ids": [...]} per prompt
  --threads N          threads inside each rank (default: cores / ranks)
  --timeout 60s        how long a rank waits for another
  --load-library FILE  operators that the package was compiled with
  --no-verify-hash     trusts the weight files: starts faster
  -q                   no times on stderr
  --help  --version

Exit codes: 0 ok, 1 run error, 2 usage, 3 bad input, 4 unsupported,
6 rank died, 7 timeout, 8 out of memory.
)";

constexpr ToolText kTool = {"tp-run generate", kUsage, TP_VERSION};

struct Options {
  std::string package;
  std::vector<TokenIds> prompts;
  std::vector<std::string> libraries;
  bool no_eos = false;
  bool json = false;
  bool quiet = false;
  bool no_verify_hash = false;
  GenerateOptions generate;
  SessionOptions session;
  CommonOptions common;
};

absl::StatusOr<TokenIds> ParseIds(const std::string& flag,
                                  const std::string& text) {
  TokenIds ids;
  for (const absl::string_view piece : absl::StrSplit(text, ',')) {
    int64_t id = 0;
    if (!absl::SimpleAtoi(piece, &id) || id < 0)
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " ", text,
                       ": write token ids separated by "
                       "commas, such as 1,2,3"));
    ids.push_back(id);
  }
  return ids;
}

absl::Status ParseOptions(int argc, char** argv, Options& options) {
  CommandLine line;
  std::vector<std::string> prompts;
  std::string eos, seed;
  int max_new_tokens = 20, top_k = 0, num_beams = 1;
  line.Strings("--prompt-ids", &prompts);
  line.Int("--max-new-tokens", &max_new_tokens);
  line.String("--eos-token-id", &eos);
  line.Double("--temperature", &options.generate.sampling.temperature);
  line.Int("--top-k", &top_k);
  line.Double("--top-p", &options.generate.sampling.top_p);
  line.String("--seed", &seed);
  line.Int("--num-beams", &num_beams);
  line.Double("--length-penalty", &options.generate.length_penalty);
  line.Switch("--json", &options.json);
  line.Int("--threads", &options.session.group.threads);
  line.Duration("--timeout", &options.session.group.timeout);
  line.Strings("--load-library", &options.libraries);
  line.Switch("--no-verify-hash", &options.no_verify_hash);
  line.Switch("-q", &options.quiet);
  TP_RETURN_IF_ERROR(line.ParseCommon(argc, argv, "package folder",
                                      /*required=*/true, options.common));
  if (options.common.answers()) return absl::OkStatus();
  options.package = options.common.positional;
  for (const std::string& prompt : prompts) {
    TP_ASSIGN_OR_RETURN(TokenIds ids, ParseIds("--prompt-ids", prompt));
    options.prompts.push_back(std::move(ids));
  }
  if (options.prompts.empty())
    return absl::InvalidArgumentError("give a prompt: --prompt-ids 1,2,3");
  options.no_eos = eos == "none";
  if (!eos.empty() && !options.no_eos) {
    TP_ASSIGN_OR_RETURN(options.generate.eos, ParseIds("--eos-token-id", eos));
  }
  if (!seed.empty() && !absl::SimpleAtoi(seed, &options.generate.sampling.seed))
    return absl::InvalidArgumentError(
        absl::StrCat("'", seed, "' is no value for --seed"));
  if (max_new_tokens < 1 || num_beams < 1 || options.session.group.threads < 0)
    return absl::InvalidArgumentError(
        "--max-new-tokens and --num-beams are 1 or more, --threads 0 or more");
  options.generate.max_new_tokens = max_new_tokens;
  options.generate.num_beams = num_beams;
  options.generate.sampling.top_k = top_k;
  TP_RETURN_IF_ERROR(CheckSampling(options.generate.sampling));
  const SamplingOptions& sampling = options.generate.sampling;
  if (num_beams > 1 && sampling.temperature > 0)
    return absl::InvalidArgumentError(
        "--num-beams searches for the best text, --temperature draws one; "
        "give one of them");
  if (sampling.temperature == 0 && (sampling.top_k > 0 || sampling.top_p < 1))
    return absl::InvalidArgumentError(
        "--top-k and --top-p need --temperature: without it nothing is drawn");
  options.session.package.hash_weights = !options.no_verify_hash;
  options.session.all_entries = true;
  return absl::OkStatus();
}

absl::StatusOr<GenerateInfo> InfoOf(const Options& options) {
  TP_ASSIGN_OR_RETURN(PackageManifest manifest,
                      PackageManifest::Read(options.package));
  TP_RETURN_IF_ERROR(CheckOperators(manifest));
  GenerateInfo info;
  if (const llvm::json::Object* object =
          manifest.root().getObject("generate")) {
    absl::StatusOr<GenerateInfo> parsed = ParseGenerateInfo(*object);
    if (!parsed.ok())
      return manifest.Bad(std::string(parsed.status().message()));
    info = *std::move(parsed);
  }
  if (options.no_eos) info.eos.clear();
  return info;
}

std::string Join(const TokenIds& ids) { return absl::StrJoin(ids, ","); }

absl::Status Generate(Options& options) {
  TP_RETURN_IF_ERROR(LoadLibraries(options.libraries));
  TP_ASSIGN_OR_RETURN(GenerateInfo info, InfoOf(options));
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                      Session::Open(options.package, options.session));
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Generator> generator,
                      Generator::Create(*session, info));
  const bool streams = !options.json && options.prompts.size() == 1 &&
                       options.generate.num_beams == 1;
  bool begun = false;
  if (streams) {
    options.generate.on_token = [&](size_t, int64_t token) {
      std::cout << (begun ? "," : "") << token << std::flush;
      begun = true;
    };
  }
  GenerateReport report;
  absl::StatusOr<std::vector<TokenIds>> texts =
      generator->Run(options.prompts, options.generate, &report);
  if (begun) std::cout << "\n";
  if (!texts.ok()) return texts.status();
  int64_t tokens = 0;
  for (size_t i = 0; i < texts->size(); ++i) {
    const TokenIds& ids = (*texts)[i];
    tokens += static_cast<int64_t>(ids.size());
    if (options.json)
      std::cout << "{\"prompt\": [" << Join(options.prompts[i])
                << "], \"ids\": [" << Join(ids) << "]}\n";
    else if (!streams)
      std::cout << Join(ids) << "\n";
  }
  if (!std::cout.flush())
    return absl::UnavailableError("cannot write to standard output");
  if (options.quiet) return absl::OkStatus();
  const double seconds = report.prefill_seconds + report.step_seconds;
  std::cerr << absl::StrFormat(
      "%d tokens in %.3f s: first after %.3f s, then %.1f tokens/s; caches "
      "%.2f MB on rank 0 of %d\n",
      tokens, seconds, report.prefill_seconds,
      report.step_seconds > 0
          ? static_cast<double>(tokens - static_cast<int64_t>(texts->size())) /
                report.step_seconds
          : 0.0,
      static_cast<double>(report.cache_bytes[0]) / 1e6, session->num_ranks());
  return absl::OkStatus();
}

}  // namespace

int GenerateMain(int argc, char** argv) {
  Options options;
  const absl::Status parsed = ParseOptions(argc, argv, options);
  if (std::optional<int> answer = AnswerCommon(kTool, parsed, options.common))
    return *answer;
  absl::Status status;
  try {
    status = Generate(options);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  return status.ok() ? 0 : Fail(kTool, status);
}

}  // namespace tp
