// tp-run: runs a package that tp-compile wrote, one thread per rank.
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#if __has_include("frontend/reference_model.h")
#include "frontend/reference_model.h"
#define TP_HAS_REFERENCE_MODEL
#endif
#include "ir/package_manifest.h"
#include "ir/status.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "runtime/model_inputs.h"
#include "runtime/session.h"
#include "runtime/tensor_io.h"
#include "tools/command_line.h"
#include "tools/compare_outputs.h"
#include "tools/load_library.h"
#include "tools/tp_run_calibrate.h"
#include "tools/tp_run_generate.h"
#include "tools/tp_run_grads.h"
#include "tools/tp_run_train.h"

namespace tp {
namespace {

constexpr char kUsage[] =
    R"(usage: tp-run DIR --inputs X.safetensors [--outputs Y.safetensors]
       tp-run DIR --inputs X.safetensors --verify MODEL.pt [--verify-dtype f64]
       tp-run DIR --inputs X.safetensors --bench 20
       tp-run train DIR --data FOLDER ...
       tp-run generate DIR --prompt-ids 1,2,3 ...
       tp-run calibrate -o MACHINE.yaml
       tp-run doctor

Runs the package DIR that tp-compile wrote, one thread per rank.

  --inputs FILE        inputs by name (or input_0, input_1, ... by position)
  --outputs FILE       writes output_0, output_1, ..., and inputs that the
                       model writes in place under their names
  --weights PATH       weights by original name from safetensors instead of
                       the package's: one file, or a HuggingFace folder
  --arg NAME=VALUE     a number as an input of one element; of a scalar that
                       is compiled in, checks that it is this one
  --verify MODEL.pt    compares every output with the unsharded model
  --verify-dtype f64   does both in f64, where rounding hides nothing
  --grads [FILE]       of a package made with --train: gradients of output_0 by
                       parameter name, written and, with --verify, compared
  --expect FILE        compares with the output_* tensors of FILE
  --tolerance T        largest error relative to the largest expected value
                       (default by dtype: f32 1e-4, f64 1e-9, f16 1e-2,
                       bf16 5e-2)
  --load-state FILE    buffers that the model writes, as a call before left
  --save-state FILE    them: read before the run, written after it
  --entry NAME         of a package with several entries, which one to run
  --bench N            times N runs
  --json               prints what --bench measured as JSON
  --output-rank R      whose outputs to take (default 0)
  --check-replicas     all ranks' outputs have to be equal, bit for bit
  --nan-check off|outputs|all
                       stops at a NaN in an output, or at the op that made it
  --threads N          threads inside each rank (default: cores / ranks)
  --timeout 60s        how long a rank waits for another
  --devices LIST       cpu for each rank: cpu,cpu
  --comm threads       how ranks talk
  --seed S             of random ops
  --load-library FILE  loads a shared library of operators that the package
                       was compiled with
  --no-verify-hash     trusts the weight files: starts faster
  -q                   prints errors only
  --help  --version

Exit codes: 0 ok, 1 run error, 2 usage, 3 bad input, 4 unsupported,
5 verification failed, 6 rank died, 7 timeout, 8 out of memory.
)";

struct Options {
  std::string package;
  std::string inputs;
  std::string outputs;
  std::vector<std::string> arguments;
  std::vector<std::string> libraries;
  std::string verify;
  std::string verify_dtype = "model";
  std::string expect;
  std::string load_state;
  std::string save_state;
  std::string nan_check = "off";
  std::string devices;
  std::string device = "cpu";
  std::string comm = "threads";
  double tolerance = 0;
  int bench = 0;
  int seed = 0;
  bool grads = false;
  std::string grads_file;
  bool no_verify_hash = false;
  bool quiet = false;
  bool json = false;
  CommonOptions common;
  SessionOptions session;
};

constexpr ToolText kTool = {"tp-run", kUsage,
                            TP_VERSION " (LibTorch " TP_TORCH_VERSION ")"};

absl::Status ParseOptions(int argc, char** argv, Options& options) {
  CommandLine line;
  line.String("--inputs", &options.inputs);
  line.String("--outputs", &options.outputs);
  line.String("--weights", &options.session.weights);
  line.Strings("--arg", &options.arguments);
  line.Strings("--load-library", &options.libraries);
  line.String("--verify", &options.verify);
  line.String("--verify-dtype", &options.verify_dtype);
  line.String("--expect", &options.expect);
  line.String("--load-state", &options.load_state);
  line.String("--save-state", &options.save_state);
  line.OptionalString("--grads", ".safetensors", &options.grads,
                      &options.grads_file);
  line.Double("--tolerance", &options.tolerance);
  line.String("--entry", &options.session.entry);
  line.Int("--bench", &options.bench);
  line.Int("--output-rank", &options.session.output_rank);
  line.Switch("--check-replicas", &options.session.check_replicas);
  line.String("--nan-check", &options.nan_check);
  line.Int("--threads", &options.session.group.threads);
  line.Duration("--timeout", &options.session.group.timeout);
  line.String("--devices", &options.devices);
  line.String("--device", &options.device);
  line.String("--comm", &options.comm);
  line.Int("--seed", &options.seed);
  line.Switch("--no-verify-hash", &options.no_verify_hash);
  line.Switch("-q", &options.quiet);
  line.Switch("--json", &options.json);
  TP_RETURN_IF_ERROR(line.ParseCommon(argc, argv, "package folder",
                                      /*required=*/true, options.common));
  if (options.common.answers()) return absl::OkStatus();
  options.package = options.common.positional;
  if (options.bench < 0 || options.session.group.threads < 0 ||
      options.tolerance < 0)
    return absl::InvalidArgumentError(
        "--bench, --threads and --tolerance cannot be negative");
  if (options.nan_check == "outputs")
    options.session.executor.nan_check = NanCheck::kOutputs;
  else if (options.nan_check == "all")
    options.session.executor.nan_check = NanCheck::kAll;
  else if (options.nan_check != "off")
    return absl::InvalidArgumentError("--nan-check is off, outputs or all");
  if (options.json && options.bench == 0)
    return absl::InvalidArgumentError("--json needs --bench");
  if (options.verify_dtype == "f64")
    options.session.f64 = true;
  else if (options.verify_dtype != "model")
    return absl::InvalidArgumentError("--verify-dtype is f64 or model");
  if (options.session.f64 && options.verify.empty())
    return absl::InvalidArgumentError("--verify-dtype needs --verify");
  options.session.package.hash_weights = !options.no_verify_hash;
  return absl::OkStatus();
}

absl::Status CheckDevices(const Options& options, int ranks) {
  if (options.comm != "threads")
    return absl::UnimplementedError(absl::StrCat(
        "--comm ", options.comm, " is not built in; this tp-run has: threads"));
  std::vector<std::string> devices(ranks, options.device);
  if (!options.devices.empty()) devices = absl::StrSplit(options.devices, ',');
  if (static_cast<int>(devices.size()) != ranks)
    return absl::InvalidArgumentError(
        absl::StrCat("--devices names ", devices.size(),
                     " devices, the package has ", ranks, " ranks"));
  for (const std::string& device : devices) {
    if (device == "cpu" || device == "cpu:0") continue;
    return absl::UnimplementedError(absl::StrCat(
        "device ", device, " is not built in; this tp-run has: cpu"));
  }
  return absl::OkStatus();
}

// A number as a tensor of the input's dtype, with as many dims of size 1.
absl::StatusOr<at::Tensor> ArgumentTensor(const ProgramArgument& input,
                                          const std::string& text) {
  std::vector<int64_t> sizes(input.type.ndim(), 1);
  const auto dtype = at::dtype(ScalarTypeOf(input.type.dtype));
  int64_t integer = 0;
  double number = 0;
  if (text == "true" || text == "false")
    return at::full(sizes, text == "true" ? 1 : 0, dtype);
  if (absl::SimpleAtoi(text, &integer)) return at::full(sizes, integer, dtype);
  if (absl::SimpleAtod(text, &number)) return at::full(sizes, number, dtype);
  return absl::InvalidArgumentError(
      absl::StrCat("--arg ", input.info.name, "=", text, ": not a number"));
}

using Argument = std::pair<std::string, std::string>;

absl::StatusOr<NamedTensors> GatherInputs(
    const Options& options, const std::vector<ProgramArgument>& program_inputs,
    llvm::ArrayRef<ModelArgument> model_arguments) {
  NamedTensors inputs;
  if (!options.inputs.empty()) {
    TP_ASSIGN_OR_RETURN(inputs, ReadTensors(options.inputs));
  }
  for (const std::string& argument : options.arguments) {
    const Argument parts = absl::StrSplit(argument, absl::MaxSplits('=', 1));
    TP_ASSIGN_OR_RETURN(
        bool found, IsCompiledIn(model_arguments, parts.first, parts.second));
    for (const ProgramArgument& input : program_inputs) {
      if (input.info.name != parts.first) continue;
      found = true;
      TP_ASSIGN_OR_RETURN(at::Tensor tensor,
                          ArgumentTensor(input, parts.second));
      inputs.emplace_back(parts.first, std::move(tensor));
    }
    if (!found)
      return absl::InvalidArgumentError(absl::StrCat(
          "--arg ", argument, ": the model has no input '", parts.first, "'"));
  }
  return inputs;
}

std::string Describe(const at::Tensor& tensor) {
  const std::optional<DType> dtype = DTypeOf(tensor.scalar_type());
  return absl::StrCat(
      dtype ? std::string(Name(*dtype)) : toString(tensor.scalar_type()), "[",
      absl::StrJoin(tensor.sizes(), ","), "]");
}

// What a call gave, or should have given, by name: output_0, ...; inputs
// that it wrote in place; buffers as it left them.
using Results = NamedTensors;

// Prints a line per tensor and the verdict; false if one is too far off.
bool Report(const Options& options, const Results& results,
            const Results& expected, const std::string& expected_name) {
  bool passed = true;
  double worst = 0;
  double loosest = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& [name, tensor] = results[i];
    const Difference difference = Compare(tensor, expected[i].second);
    const double tolerance =
        options.tolerance > 0
            ? options.tolerance
            : DefaultTolerance(expected[i].second.scalar_type());
    const bool good = difference.comparable && difference.relative <= tolerance;
    if (!good || !options.quiet) {
      std::cout << absl::StrFormat("%s  %s  ", name,
                                   Describe(expected[i].second));
      if (!difference.comparable)
        std::cout << difference.why_not << "  FAILED\n";
      else
        std::cout << absl::StrFormat(
            "max abs error %.1e, rel %.1e, tolerance %.0e%s\n",
            difference.absolute, difference.relative, tolerance,
            good ? "" : "  FAILED");
    }
    passed = passed && good;
    worst = std::max(worst, difference.relative);
    loosest = std::max(loosest, tolerance);
  }
  const auto is_output = [](const auto& result) {
    return absl::StartsWith(result.first, "output_");
  };
  const size_t outputs =
      std::count_if(results.begin(), results.end(), is_output);
  if (!passed) {
    std::cout << "failed: the outputs differ from " << expected_name << "\n";
  } else if (!options.quiet) {
    const size_t others = results.size() - outputs;
    std::cout << absl::StrFormat(
        "verified: %d output%s%s equal %s (max rel error %.1e, tolerance "
        "%.0e)\n",
        outputs, outputs == 1 ? "" : "s",
        others == 0 ? ""
                    : absl::StrCat(" and ", others, " written tensor",
                                   others == 1 ? "" : "s"),
        expected_name, worst, loosest);
  }
  return passed;
}

// Of what a call gave, what the file holds: every output, and what else it
// names.
absl::StatusOr<bool> CompareWithFile(const Options& options,
                                     const Results& results) {
  TP_ASSIGN_OR_RETURN(NamedTensors tensors, ReadTensors(options.expect));
  Results given;
  Results expected;
  for (const auto& result : results) {
    const auto found = std::find_if(
        tensors.begin(), tensors.end(),
        [&](const auto& tensor) { return tensor.first == result.first; });
    if (found == tensors.end()) {
      if (!absl::StartsWith(result.first, "output_")) continue;
      if (result.first == "output_0")
        return absl::InvalidArgumentError(
            absl::StrCat(options.expect, " has no tensor output_0"));
      std::cout << "failed: " << options.expect << " has no " << result.first
                << "\n";
      return false;
    }
    given.push_back(result);
    expected.push_back(*found);
  }
  for (const auto& [name, tensor] : tensors) {
    const bool known = std::any_of(
        given.begin(), given.end(),
        [&name = name](const auto& result) { return result.first == name; });
    if (known || !absl::StartsWith(name, "output_")) continue;
    std::cout << "failed: " << options.expect << " has " << name
              << ", which the package does not give\n";
    return false;
  }
  return Report(options, given, expected, options.expect);
}

absl::StatusOr<bool> CompareWithModel(
    const Options& options, const PackageManifest& manifest,
    const NamedTensors& inputs, llvm::ArrayRef<ModelArgument> model_arguments,
    const NamedTensors& state, const Results& results) {
#ifdef TP_HAS_REFERENCE_MODEL
  ReferenceOptions reference;
  reference.allow_ops = CustomNamespaces(manifest);
  reference.f64 = options.session.f64;
  reference.arguments = CompiledIn(model_arguments);
  TP_ASSIGN_OR_RETURN(std::unique_ptr<ReferenceModel> model,
                      ReferenceModel::Load(options.verify, reference));
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) {
    at::Tensor attribute = model->Attribute(name);
    if (!attribute.defined())
      return absl::InvalidArgumentError(absl::StrCat(
          options.verify, " has no tensor '", name, "' to set the state of"));
    attribute.copy_(tensor);
  }
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs, model->Run(inputs));
  Results expected;
  size_t count = 0;
  for (const auto& [name, tensor] : results) {
    at::Tensor wanted;
    if (absl::StartsWith(name, "output_")) {
      if (count < outputs.size()) wanted = outputs[count];
      ++count;
    } else {
      for (const auto& [input, left] : model->inputs())
        if (input == name) wanted = left;
      if (!wanted.defined()) wanted = model->Attribute(name);
    }
    if (!wanted.defined()) {
      std::cout << "failed: the unsharded model gives no " << name << "\n";
      return false;
    }
    expected.emplace_back(name, std::move(wanted));
  }
  if (count != outputs.size()) {
    std::cout << "failed: " << count << " outputs, the unsharded model has "
              << outputs.size() << "\n";
    return false;
  }
  return Report(options, results, expected, "the unsharded model");
#else
  static_cast<void>(manifest);
  static_cast<void>(inputs);
  static_cast<void>(model_arguments);
  static_cast<void>(state);
  static_cast<void>(results);
  return absl::UnimplementedError(absl::StrCat(
      "--verify ", options.verify, " is not built in; use --expect"));
#endif
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

// High-water mark of this process, in bytes; 0 where /proc is not there.
int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int64_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %ld kB", &kilobytes) == 1)
      return kilobytes * 1024;
  }
  return 0;
}

// The record that tp-inspect --measured reads.
std::string BenchJson(Session& session, const std::vector<double>& milliseconds,
                      const std::vector<RankTimes>& times, int profiled) {
  using llvm::json::Array;
  using llvm::json::Object;
  Array ranks;
  for (int rank = 0; rank < session.num_ranks(); ++rank) {
    const RankTimes& t = times[rank];
    ranks.push_back(Object{
        {"compute_us", t.compute() * 1e6 / profiled},
        {"communicate_us", t.communicate * 1e6 / profiled},
        {"wait_us", t.wait * 1e6 / profiled},
        {"weight_bytes", static_cast<int64_t>(session.WeightBytes(rank))}});
  }
  Object root{
      {"version", 1},
      {"runs", static_cast<int64_t>(milliseconds.size())},
      {"threads_per_rank", session.threads_per_rank()},
      {"median_us", Median(milliseconds) * 1e3},
      {"min_us",
       *std::min_element(milliseconds.begin(), milliseconds.end()) * 1e3},
      {"max_us",
       *std::max_element(milliseconds.begin(), milliseconds.end()) * 1e3},
      {"ranks", std::move(ranks)},
      {"collectives", times[0].collectives / profiled},
      {"collective_bytes", times[0].collective_bytes / profiled},
      {"process_peak_bytes", static_cast<int64_t>(PeakBytes())}};
  return llvm::formatv("{0:2}", llvm::json::Value(std::move(root))).str() +
         "\n";
}

absl::Status Bench(const Options& options, Session& session,
                   const NamedTensors& inputs) {
  for (int i = 0; i < 3; ++i) TP_RETURN_IF_ERROR(session.Run(inputs).status());
  std::vector<double> milliseconds;
  for (int i = 0; i < options.bench; ++i) {
    const auto start = std::chrono::steady_clock::now();
    TP_RETURN_IF_ERROR(session.Run(inputs).status());
    milliseconds.push_back(std::chrono::duration<double, std::milli>(
                               std::chrono::steady_clock::now() - start)
                               .count());
  }
  // Telling waiting from communicating costs a barrier per collective, so
  // the shares come from runs of their own.
  const int profiled = std::min(options.bench, 5);
  CallReport report;
  report.measure = true;
  for (int i = 0; i < profiled; ++i)
    TP_RETURN_IF_ERROR(session.Run(inputs, &report).status());
  const std::vector<RankTimes>& times = report.times;
  if (options.json) {
    std::cout << BenchJson(session, milliseconds, times, profiled);
    return absl::OkStatus();
  }
  std::cout << absl::StrFormat(
      "%d runs on %d ranks x %d threads: median %.3f ms, min %.3f ms, max "
      "%.3f ms\n",
      options.bench, session.num_ranks(), session.threads_per_rank(),
      Median(milliseconds),
      *std::min_element(milliseconds.begin(), milliseconds.end()),
      *std::max_element(milliseconds.begin(), milliseconds.end()));
  for (int rank = 0; rank < session.num_ranks(); ++rank) {
    const RankTimes& t = times[rank];
    std::cout << absl::StrFormat(
        "rank %d: compute %.3f ms, communicate %.3f ms, wait %.3f ms; weights "
        "%.1f MB\n",
        rank, t.compute() * 1e3 / profiled, t.communicate * 1e3 / profiled,
        t.wait * 1e3 / profiled, session.WeightBytes(rank) / 1e6);
  }
  std::cout << absl::StrFormat(
      "%d collectives of %.3f MB per run; peak memory of the process %.1f "
      "MB\n",
      times[0].collectives / profiled,
      times[0].collective_bytes / 1e6 / profiled, PeakBytes() / 1e6);
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunGrads(const Options& options,
                                  const PackageManifest& manifest) {
  GradientsRequest request;
  request.allow_ops = CustomNamespaces(manifest);
  request.package = options.package;
  request.model = options.verify;
  request.output = options.grads_file;
  request.tolerance = options.tolerance;
  request.quiet = options.quiet;
  request.session.package = options.session.package;
  request.session.weights = options.session.weights;
  request.session.group = options.session.group;
  request.session.f64 = options.session.f64;
  request.session.output_rank = options.session.output_rank;
  for (const std::string& argument : options.arguments) {
    const Argument parts = absl::StrSplit(argument, absl::MaxSplits('=', 1));
    TP_ASSIGN_OR_RETURN(
        const bool compiled_in,
        IsCompiledIn(manifest.Arguments(), parts.first, parts.second));
    if (!compiled_in)
      return absl::InvalidArgumentError(absl::StrCat(
          "--arg ", argument, ": with --grads, give tensors by --inputs"));
  }
  NamedTensors inputs;
  if (!options.inputs.empty()) {
    TP_ASSIGN_OR_RETURN(inputs, ReadTensors(options.inputs));
  }
  TP_ASSIGN_OR_RETURN(bool passed, RunGradients(request, inputs));
  return passed ? ExitCode::kOk : ExitCode::kVerificationFailed;
}

absl::StatusOr<ExitCode> Run(const Options& options) {
  if (options.seed != 0) at::manual_seed(options.seed);
  TP_RETURN_IF_ERROR(LoadLibraries(options.libraries));
  TP_ASSIGN_OR_RETURN(PackageManifest manifest,
                      PackageManifest::Read(options.package));
  TP_RETURN_IF_ERROR(CheckOperators(manifest));
  if (options.grads) return RunGrads(options, manifest);
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                      Session::Open(options.package, options.session));
  TP_RETURN_IF_ERROR(CheckDevices(options, session->num_ranks()));
  const std::vector<ModelArgument> arguments =
      manifest.Arguments(session->entries()[0]);
  TP_ASSIGN_OR_RETURN(NamedTensors given,
                      GatherInputs(options, session->inputs(), arguments));
  TP_ASSIGN_OR_RETURN(NamedTensors inputs, ProgramInputs(arguments, given));
  NamedTensors before;
  if (!options.load_state.empty()) {
    TP_ASSIGN_OR_RETURN(before, ReadTensors(options.load_state));
    TP_RETURN_IF_ERROR(Annotate(session->SetState(before), options.load_state));
  }
  CallReport report;
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs,
                      session->Run(inputs, &report));
  TP_ASSIGN_OR_RETURN(NamedTensors state, session->State());
  Results results;
  for (size_t i = 0; i < outputs.size(); ++i)
    results.emplace_back(absl::StrCat("output_", i), outputs[i]);
  results.insert(results.end(), report.written.begin(), report.written.end());
  if (!options.outputs.empty())
    TP_RETURN_IF_ERROR(WriteTensors(options.outputs, results));
  if (!options.save_state.empty())
    TP_RETURN_IF_ERROR(WriteTensors(options.save_state, state));
  results.insert(results.end(), state.begin(), state.end());
  bool passed = true;
  if (!options.verify.empty()) {
    TP_ASSIGN_OR_RETURN(passed, CompareWithModel(options, manifest, given,
                                                 arguments, before, results));
  }
  if (!options.expect.empty()) {
    TP_ASSIGN_OR_RETURN(bool good, CompareWithFile(options, results));
    passed = passed && good;
  }
  if (options.bench > 0) TP_RETURN_IF_ERROR(Bench(options, *session, inputs));
  const bool silent = options.quiet || !options.verify.empty() ||
                      !options.expect.empty() || options.bench > 0;
  if (!silent) {
    for (const auto& [name, tensor] : results)
      std::cout << name << "  " << Describe(tensor) << "\n";
    if (!options.outputs.empty())
      std::cout << "written to " << options.outputs << "\n";
  }
  return passed ? ExitCode::kOk : ExitCode::kVerificationFailed;
}

int Doctor() {
  std::cout << "tp-run " << TP_VERSION << ", LibTorch " << TP_TORCH_VERSION
            << "\ncores: " << std::thread::hardware_concurrency()
            << "\ncpu kernels: " << at::get_cpu_capability() << "\ndevices: cpu"
            << "\ncommunicators: threads\n";
  const bool works =
      at::ones({2, 2}).matmul(at::ones({2, 2})).eq(2).all().item<bool>();
  std::cout << "matrix product: " << (works ? "ok" : "WRONG") << "\n";
  return works ? 0 : 1;
}

int Main(int argc, char** argv) {
  // A limit on file sizes is then an error of write(), told like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  if (argc > 1) {
    const std::string command = argv[1];
    if (command == "doctor") return Doctor();
    if (command == "train") return TrainMain(argc - 1, argv + 1);
    if (command == "generate") return GenerateMain(argc - 1, argv + 1);
    if (command == "calibrate") return CalibrateMain(argc - 1, argv + 1);
  }
  Options options;
  const absl::Status parsed = ParseOptions(argc, argv, options);
  if (std::optional<int> answer = AnswerCommon(kTool, parsed, options.common))
    return *answer;
  absl::StatusOr<ExitCode> code = absl::InternalError("nothing ran");
  try {
    code = Run(options);
    if (code.ok() && !std::cout.flush())
      code = absl::UnavailableError("cannot write to standard output");
  } catch (const std::bad_alloc&) {
    code = absl::ResourceExhaustedError("out of memory");
  } catch (const c10::Error& error) {
    code = absl::InternalError(error.what_without_backtrace());
  } catch (const std::exception& error) {
    code = absl::InternalError(error.what());
  }
  return code.ok() ? static_cast<int>(*code) : Fail(kTool, code.status());
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) { return tp::Main(argc, argv); }
