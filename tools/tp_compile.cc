// tp-compile: a TorchScript model in, one program and one weight file per
// rank out.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "codegen/package_writer.h"
#include "codegen/plan_yaml.h"
#include "frontend/config_reader.h"
#include "frontend/entries.h"
#include "frontend/machine_reader.h"
#include "frontend/presets.h"
#include "frontend/tensor_parallel_config.h"
#include "ir/cache_links.h"
#include "ir/file_digest.h"
#include "ir/generate_info.h"
#include "ir/safetensors.h"
#include "ir/status.h"
#include "ir/text.h"
#include "ir/value_names.h"
#include "ir/weights_by_name.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/explain.h"
#include "passes/machine_cost.h"
#include "passes/pass.h"
#include "passes/plan_json.h"
#include "passes/plan_summary.h"
#include "passes/unknown_ops.h"
#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/load_library.h"

namespace tp {
namespace {

// What tp-run reads.
constexpr int64_t kMaxRanks = 1024;

constexpr char kUsage[] =
    R"(usage: tp-compile MODEL.pt --inputs A.safetensors [--inputs B.safetensors ...]
                  [--tp N | --mesh dp=N,tp=M] -o DIR
       tp-compile ENC.pt STEP.pt --entry encode,step --inputs encode=E.safetensors
                  --inputs step=S.safetensors [--cache LINK ...] ... -o DIR
       tp-compile --generate MODEL.generate.json [--tp N] -o DIR

Splits a TorchScript model over N ranks and writes a package that tp-run runs.

  --inputs FILE      example inputs; dims that differ between two files become
                     symbols, and the package then serves any size
  --arg NAME=VALUE   a scalar argument of the model
  --tp N             one mesh axis "tp" of N ranks (default 2)
  --mesh A=N,B=M     named axes, as tp=4 or dp=2,tp=4; the one called dp splits
                     the batch
  --dynamic SPEC     names dims that vary: 'input_ids:0=batch,1=seq'
  --static           bakes every size in
  --train            keeps parameters trainable: forward and backward passes of
                     a model whose first output is a loss
  --loss NAME        puts cross_entropy or mse around the first output
  --labels NAME      the input that holds its labels
  --shift N          position i is to predict the label at i + N (default 0)
  --zero3 WHEN       shards at rest what the plan leaves whole: auto (when
                     training), on or off; rules of --config come first: state
                     zero3 shards what it names, replicate keeps it whole
  --zero3-keep       keeps what was gathered for forward until backward
  --config FILE      rules (YAML) on weights, modules and values, or a plan.yaml;
                     the rest is searched
  --machine FILE     what devices and links can do (YAML, as tp-run calibrate
                     writes it), or cpu-shm (default), h100-nvlink, pcie,
                     ethernet
  --preset NAME      the plan that people write by hand for a family of models:
                     bert, bloom, codegen, falcon, gpt2, gpt_neox, llama,
                     mixtral, t5; auto: the one whose names the weights have
  --from-tensor-parallel FILE.json
                     rules in the string forms of the tensor_parallel library
  --weights PATH     weights by original name from safetensors instead of the
                     archive's: one file, or a HuggingFace folder
  --method NAME      the method to compile (default forward); with --entry a
                     list, one per entry
  --entry A,B,...    names the entries of a package of several models, or
                     methods of one, over one set of weights; --inputs, --arg
                     and --dynamic then begin with an entry: step=FILE,
                     step=NAME=VALUE, step=input_ids:0=batch
  --cache LINK       output_1=past: what output_1 gives is the input "past" of
                     the next call, and stays split over the ranks; between
                     entries prefill.output_1=step.past; may repeat
  --generate FILE    entries, inputs and caches from the file that tp_export.py
                     --generate writes, for tp-run generate
  --allow-op NAME    lets an operator through the archive check (lib::op, or
                     lib::* for all of a library)
  --load-library F   loads a shared library of operators first; tp-run needs it
                     too
  --strict           an op without a row in the op table is an error; else every
                     rank runs it whole, with a warning
  -o DIR             the package; replaced whole if it is one already
  --plan-only        prints the plan and writes nothing
  --explain NAME     of a weight or value: what its other placements would cost,
                     and why they lost; writes nothing
  --json             prints the plan as JSON
  --dump-after PASS  prints the program after a pass ("all": writes
                     NN-<pass>.tpir for every one into the current folder)
  --stop-after PASS  stops there and prints the program
  -v                 says how long each step takes
  -q                 says nothing but errors
  --help  --version

Exit codes: 0 ok, 1 error, 2 usage, 3 bad or unsafe input, 4 unsupported op or
plan, 8 out of memory.
)";

struct Options {
  std::vector<std::string> models;
  std::string entries;
  std::vector<std::string> caches;
  std::string generate;
  std::optional<GenerateInfo> generate_info;  // of `generate`
  std::vector<std::string> inputs;
  std::vector<std::string> arguments;
  std::vector<std::string> dynamic;
  std::vector<std::string> allow_ops;
  std::vector<std::string> libraries;
  std::string mesh;
  std::string config;
  std::string library_config;  // of tensor_parallel
  std::string preset;
  std::string machine = "cpu-shm";
  std::string explain;
  std::string weights;
  std::string method;
  std::string output;
  std::string dump_after;
  std::string stop_after;
  Mesh ranks;  // what --mesh or --tp says
  bool train = false;
  std::string zero3 = "auto";
  bool zero3_keep = false;
  LossOptions loss;
  int shift = 0;
  bool static_sizes = false;
  bool strict = false;
  bool plan_only = false;
  bool json = false;
  bool verbose = false;
  bool quiet = false;
  CommonOptions common;
};

constexpr ToolText kTool = {"tp-compile", kUsage,
                            TP_VERSION " (LibTorch " TP_TORCH_VERSION ")"};

absl::Status ParseMesh(const std::string& tp, Options& options) {
  int ranks = 2;
  if (!tp.empty()) {
    if (!absl::SimpleAtoi(tp, &ranks) || ranks < 1)
      return absl::InvalidArgumentError(
          absl::StrCat("--tp ", tp, ": give a number of ranks, 1 or more"));
    if (!options.mesh.empty())
      return absl::InvalidArgumentError("give --tp or --mesh, not both");
  }
  TP_ASSIGN_OR_RETURN(
      options.ranks,
      Mesh::Parse(options.mesh.empty() ? absl::StrCat("tp=", ranks)
                                       : options.mesh));
  if (options.ranks.num_ranks() > kMaxRanks)
    return absl::InvalidArgumentError(
        absl::StrCat("a mesh of ", options.ranks.num_ranks(),
                     " ranks: a package has at most ", kMaxRanks));
  return absl::OkStatus();
}

// The passes up to and with `stop_after` (all of them if it is empty).
absl::StatusOr<std::vector<std::string>> PassesToRun(
    const std::string& stop_after, bool train) {
  std::vector<std::string> names;
  for (const std::string& name : PlanPipeline(train)) {
    names.push_back(name);
    if (name == stop_after) return names;
  }
  if (!stop_after.empty())
    return absl::NotFoundError(absl::StrCat("--stop-after ", stop_after,
                                            ": no such pass; see tp-opt "
                                            "--list-passes"));
  return names;
}

absl::Status CheckModels(const Options& options) {
  if (!options.generate.empty()) {
    if (!options.models.empty() || !options.entries.empty() ||
        !options.inputs.empty() || !options.method.empty())
      return absl::InvalidArgumentError(
          "--generate FILE says which models, entries and inputs there are; "
          "leave MODEL.pt, --entry, --inputs and --method out");
  } else if (options.models.empty() ||
             (options.models.size() > 1 && options.entries.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "give exactly one MODEL.pt",
        options.models.empty()
            ? ""
            : absl::StrCat(", not ", absl::StrJoin(options.models, " and "),
                           "; for several in one package, name them by "
                           "--entry A,B")));
  }
  const bool several = !options.generate.empty() || !options.entries.empty();
  if (several && (options.train || !options.loss.kind.empty()))
    return absl::InvalidArgumentError(
        "--train and --loss are for a package of one model");
  return absl::OkStatus();
}

absl::Status ParseOptions(int argc, char** argv, Options& options) {
  CommandLine line;
  std::string tp;
  line.Strings("--inputs", &options.inputs);
  line.Strings("--arg", &options.arguments);
  line.Strings("--dynamic", &options.dynamic);
  line.Strings("--allow-op", &options.allow_ops);
  line.Strings("--load-library", &options.libraries);
  line.Switch("--strict", &options.strict);
  line.String("--mesh", &options.mesh);
  line.String("--tp", &tp);
  line.String("--config", &options.config);
  line.String("--from-tensor-parallel", &options.library_config);
  line.String("--preset", &options.preset);
  line.String("--machine", &options.machine);
  line.String("--explain", &options.explain);
  line.String("--weights", &options.weights);
  line.String("--method", &options.method);
  line.String("--entry", &options.entries);
  line.Strings("--cache", &options.caches);
  line.String("--generate", &options.generate);
  line.String("-o", &options.output);
  line.String("--dump-after", &options.dump_after);
  line.String("--stop-after", &options.stop_after);
  line.Switch("--train", &options.train);
  line.String("--zero3", &options.zero3);
  line.Switch("--zero3-keep", &options.zero3_keep);
  line.String("--loss", &options.loss.kind);
  line.String("--labels", &options.loss.labels);
  line.Int("--shift", &options.shift);
  line.Switch("--static", &options.static_sizes);
  line.Switch("--plan-only", &options.plan_only);
  line.Switch("--json", &options.json);
  line.Switch("-v", &options.verbose);
  line.Switch("-q", &options.quiet);
  line.Switch("--help", &options.common.help);
  line.Switch("--version", &options.common.version);
  TP_RETURN_IF_ERROR(line.Parse(argc, argv, options.models));
  if (options.common.answers()) return absl::OkStatus();
  TP_RETURN_IF_ERROR(CheckModels(options));
  TP_RETURN_IF_ERROR(ParseMesh(tp, options));
  if (options.loss.kind.empty() != options.loss.labels.empty())
    return absl::InvalidArgumentError(
        "--loss and --labels go together: --loss cross_entropy --labels NAME");
  if (options.shift < 0)
    return absl::InvalidArgumentError("--shift cannot be negative");
  options.loss.shift = options.shift;
  if (options.zero3 != "auto" && options.zero3 != "on" &&
      options.zero3 != "off")
    return absl::InvalidArgumentError("--zero3 is auto, on or off");
  if (options.zero3 == "on" && !options.train)
    return absl::InvalidArgumentError("--zero3 on needs --train");
  for (const std::string& argument : options.arguments)
    if (argument.find('=') == std::string::npos)
      return absl::InvalidArgumentError(
          absl::StrCat("--arg ", argument, ": write NAME=VALUE"));
  TP_RETURN_IF_ERROR(PassesToRun(options.stop_after, options.train).status());
  // What --explain prints takes the place of the plan.
  options.plan_only |= !options.explain.empty();
  const bool prints_only = options.plan_only || !options.stop_after.empty();
  if (options.output.empty() && !prints_only)
    return absl::InvalidArgumentError(
        "say where the package goes with -o DIR (or --plan-only)");
  return absl::OkStatus();
}

// Steps and their times on stderr.
class Progress {
 public:
  explicit Progress(const Options& options) : options_(options) {}

  void Step(const std::string& text) {
    Close();
    text_ = text;
    start_ = Clock::now();
  }
  void Close() {
    if (options_.verbose && !text_.empty())
      std::cerr << absl::StrFormat("[%6.2f s] %s\n", Seconds(), text_);
    text_.clear();
  }
  void Remark(const std::string& text) const {
    if (options_.verbose) std::cerr << text << "\n";
  }
  void Note(const std::string& text) const {
    if (!options_.quiet) std::cerr << "note: " << text << "\n";
  }
  void Warn(const std::string& text) const {
    if (!options_.quiet) std::cerr << "warning: " << text << "\n";
  }

 private:
  using Clock = std::chrono::steady_clock;
  double Seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  const Options& options_;
  std::string text_;
  Clock::time_point start_ = Clock::now();
};

// A number held by a tensor of one element, if it is one we know.
std::optional<Attribute> ScalarOf(const WeightInfo& info, const Bytes& bytes) {
  const char* data = reinterpret_cast<const char*>(bytes.data()) +
                     info.offset * ByteSize(info.dtype);
  const auto load = [&](auto value) {
    std::memcpy(&value, data, sizeof(value));
    return value;
  };
  switch (info.dtype) {
    case DType::kF32:
      return Attribute(static_cast<double>(load(float{})));
    case DType::kF64:
      return Attribute(load(double{}));
    case DType::kI64:
      return Attribute(load(int64_t{}));
    case DType::kI32:
      return Attribute(int64_t{load(int32_t{})});
    case DType::kBool:
      return Attribute(load(uint8_t{}) != 0);
    default:
      return std::nullopt;
  }
}

absl::StatusOr<ExampleInputs> ReadExample(const std::string& path) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file,
                      SafetensorsFile::Open(path));
  ExampleInputs example;
  for (const WeightInfo& info : file->weights()) {
    ExampleTensor tensor;
    tensor.name = info.name;
    tensor.dtype = info.dtype;
    tensor.sizes.assign(info.sizes.begin(), info.sizes.end());
    if (info.NumElements() == 1) {
      TP_ASSIGN_OR_RETURN(Bytes bytes, file->View(info));
      tensor.scalar = ScalarOf(info, bytes);
    }
    example.push_back(std::move(tensor));
  }
  return example;
}

// Takes the labels of --loss out of an example: the model has no such input.
void TakeLabels(LossOptions& loss, ExampleInputs& example) {
  llvm::erase_if(example, [&](const ExampleTensor& tensor) {
    if (loss.labels.empty() || tensor.name != loss.labels) return false;
    loss.labels_dtype = tensor.dtype;
    return true;
  });
}

// "step=FILE" as "step" and "FILE"; of a package of one model all of it.
absl::StatusOr<std::string> TextFor(const std::string& flag,
                                    const std::string& text,
                                    const std::vector<std::string>& entries,
                                    std::string& entry) {
  entry = entries[0];
  if (entries.size() == 1) return text;
  const size_t equal = text.find('=');
  entry = text.substr(0, equal);
  if (equal == std::string::npos || !llvm::is_contained(entries, entry))
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " ", text, ": begin with the entry it is for, one of ",
        absl::StrJoin(entries, ", "), ": ", flag, " ", entries[0], "=", text));
  return text.substr(equal + 1);
}

// A model, method or name for each entry: one serves them all.
absl::StatusOr<std::vector<std::string>> OnePerEntry(
    const std::string& flag, std::vector<std::string> given, size_t entries) {
  if (given.size() == 1) given.resize(entries, given[0]);
  if (given.size() == entries) return given;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", given.size(),
                                                 " for ", entries,
                                                 " entries: give one, or one "
                                                 "per entry"));
}

bool IsEntryName(const std::string& name) {
  return !name.empty() && absl::ascii_isalpha(name[0]) &&
         llvm::all_of(
             name, [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// Entries, their models, inputs and caches as --generate says.
absl::Status ReadGenerate(Options& options) {
  if (options.generate.empty()) return absl::OkStatus();
  TP_ASSIGN_OR_RETURN(options.generate_info,
                      ReadGenerateInfo(options.generate));
  std::vector<std::string> names;
  for (const GenerateEntry& entry : options.generate_info->entries) {
    names.push_back(entry.name);
    options.models.push_back(entry.file);
    for (const std::string& input : entry.inputs)
      options.inputs.push_back(options.generate_info->entries.size() == 1
                                   ? input
                                   : absl::StrCat(entry.name, "=", input));
  }
  options.entries = absl::StrJoin(names, ",");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<EntrySource>> MakeSources(Options& options) {
  TP_RETURN_IF_ERROR(ReadGenerate(options));
  std::vector<std::string> entries = {"forward"};
  if (!options.entries.empty()) entries = absl::StrSplit(options.entries, ',');
  for (size_t i = 0; i < entries.size(); ++i)
    if (!IsEntryName(entries[i]) ||
        llvm::is_contained(llvm::ArrayRef(entries).take_front(i), entries[i]))
      return absl::InvalidArgumentError(absl::StrCat(
          "--entry ", options.entries, ": '", entries[i],
          "' is given twice, or is no name (letters, digits and _)"));
  TP_ASSIGN_OR_RETURN(std::vector<std::string> models,
                      OnePerEntry("MODEL.pt", options.models, entries.size()));
  std::vector<std::string> methods = {"forward"};
  if (!options.method.empty()) methods = absl::StrSplit(options.method, ',');
  TP_ASSIGN_OR_RETURN(methods,
                      OnePerEntry("--method", methods, entries.size()));
  std::map<std::string, EntrySource> sources;
  for (size_t i = 0; i < entries.size(); ++i) {
    EntrySource& source = sources[entries[i]];
    source.path = models[i];
    source.options.entry = entries[i];
    source.options.method = methods[i];
    source.options.train = options.train;
    source.options.static_sizes = options.static_sizes;
    source.options.strict = options.strict;
    source.options.allow_ops = options.allow_ops;
    source.options.mesh = options.ranks;
  }
  std::string entry;
  for (const std::string& given : options.inputs) {
    TP_ASSIGN_OR_RETURN(const std::string path,
                        TextFor("--inputs", given, entries, entry));
    TP_ASSIGN_OR_RETURN(ExampleInputs example, ReadExample(path));
    TakeLabels(options.loss, example);
    sources[entry].options.examples.push_back(std::move(example));
    sources[entry].options.example_files.push_back(path);
  }
  for (const std::string& given : options.arguments) {
    TP_ASSIGN_OR_RETURN(const std::string argument,
                        TextFor("--arg", given, entries, entry));
    const size_t equal = argument.find('=');
    if (equal == std::string::npos)
      return absl::InvalidArgumentError(
          absl::StrCat("--arg ", given, ": write NAME=VALUE"));
    sources[entry].options.arguments.push_back(
        {argument.substr(0, equal), argument.substr(equal + 1)});
  }
  for (const std::string& given : options.dynamic) {
    TP_ASSIGN_OR_RETURN(const std::string dynamic,
                        TextFor("--dynamic", given, entries, entry));
    sources[entry].options.dynamic.push_back(dynamic);
  }
  std::vector<EntrySource> list;
  for (const std::string& name : entries)
    list.push_back(std::move(sources[name]));
  return list;
}

absl::StatusOr<ImportedEntries> ImportSources(
    const Options& options, const std::vector<EntrySource>& sources) {
  std::shared_ptr<const WeightSource> given;
  if (!options.weights.empty()) {
    TP_ASSIGN_OR_RETURN(given, OpenWeights(options.weights));
  }
  absl::StatusOr<ImportedEntries> model = ImportEntries(sources, given);
  if (!model.ok()) return model.status();
  std::vector<CacheLink> links;
  if (options.generate_info) links = options.generate_info->caches;
  for (const std::string& text : options.caches) {
    TP_ASSIGN_OR_RETURN(
        CacheLink link,
        ParseCacheLink(text,
                       sources.size() == 1 ? sources[0].options.entry : ""));
    links.push_back(std::move(link));
  }
  TP_RETURN_IF_ERROR(AddCacheLinks(*model->module, links));
  return model;
}

// "encoder.pt", or all of several.
std::string ModelName(const std::vector<EntrySource>& sources) {
  std::vector<std::string> names;
  for (const EntrySource& source : sources) {
    std::string name = std::filesystem::path(source.path).filename().string();
    if (!llvm::is_contained(names, name)) names.push_back(std::move(name));
  }
  return absl::StrJoin(names, ", ");
}

// The rules of all configs; those of the user's own come first.
absl::StatusOr<UserRules> RulesOf(const Options& options, const Module& module,
                                  std::vector<std::string>& notes) {
  UserRules rules;
  if (!options.config.empty()) {
    TP_ASSIGN_OR_RETURN(rules, ReadConfig(options.config));
  }
  const auto add = [&](const UserRules& more) {
    rules.insert(rules.end(), more.begin(), more.end());
  };
  if (!options.library_config.empty()) {
    TP_ASSIGN_OR_RETURN(
        UserRules more,
        ReadTensorParallelConfig(options.library_config, notes));
    add(more);
  }
  if (options.preset.empty()) return rules;
  std::string preset = options.preset;
  if (preset == "auto") {
    std::vector<std::string> names;
    for (const auto& function : module.functions())
      for (const ArgumentInfo& info : function->arguments())
        if (info.is_weight()) names.push_back(info.name);
    TP_ASSIGN_OR_RETURN(preset, RecognizePreset(names));
    notes.push_back(absl::StrCat("the preset is ", preset));
  }
  TP_ASSIGN_OR_RETURN(UserRules more, PresetRules(preset));
  add(more);
  return rules;
}

// Whether the rules place what every op makes, as a plan does.
bool IsWholePlan(const UserRules& rules, const Module& module) {
  const auto placed = llvm::count_if(rules, [](const UserRule& rule) {
    return rule.of == UserRule::Of::kProduced;
  });
  const auto made = llvm::count_if(
      NamedValues(module),
      [](const NamedValue& named) { return named.value->op() != nullptr; });
  return placed >= made;
}

std::vector<std::string> NotesOf(const PlanSummary& summary,
                                 std::vector<std::string> notes) {
  const auto ranks = static_cast<int64_t>(summary.memory.size());
  if (ranks > 1 && summary.split_weight_bytes() == 0 &&
      !summary.weights.empty())
    notes.push_back(absl::StrCat("nothing in this model splits over ", ranks,
                                 " ranks; every rank computes all of it"));
  int short_weights = 0;
  std::string example;
  for (const WeightSummary& weight : summary.weights) {
    if (weight.bytes == 0 || !llvm::is_contained(weight.local_bytes, 0))
      continue;
    if (short_weights++ == 0) example = weight.name;
  }
  if (short_weights > 0)
    notes.push_back(absl::StrCat(short_weights, " weights (", example,
                                 ", ...) split into fewer parts "
                                 "than the ",
                                 ranks,
                                 " ranks; some ranks hold nothing of them"));
  return notes;
}

absl::Status Compile(Options& options, UnfinishedPackage& unfinished) {
  Progress progress(options);
  if (!options.plan_only && options.stop_after.empty())
    TP_RETURN_IF_ERROR(CheckPackageTarget(options.output));
  TP_RETURN_IF_ERROR(LoadLibraries(options.libraries));
  progress.Step("import");
  TP_ASSIGN_OR_RETURN(std::vector<EntrySource> sources, MakeSources(options));
  TP_ASSIGN_OR_RETURN(ImportedEntries model, ImportSources(options, sources));
  PassContext context;
  context.train = options.train;
  context.loss = options.loss;
  context.zero3 = options.zero3 != "off";
  context.zero3_keep = options.zero3_keep;
  TP_ASSIGN_OR_RETURN(const Machine machine, ReadMachine(options.machine));
  for (const auto& [axis, link] : machine.axes)
    if (options.ranks.AxisIndex(axis) < 0)
      model.notes.push_back(absl::StrCat(
          "the machine has a link of axis \"", axis, "\", which the mesh ",
          options.ranks.ToString(), " has not"));
  context.cost = CostModelOf(machine, options.ranks);
  TP_ASSIGN_OR_RETURN(context.rules,
                      RulesOf(options, *model.module, model.notes));
  PackageOptions package;
  context.on_zero3 = [&](const std::string& name) {
    package.zero3.push_back(name);
  };
  context.on_search = [&](const SearchReport& report) {
    package.search = report;
    // As plan.yaml writes it, so that it reads the same.
    package.search->gap = std::round(report.gap * 1e6) / 1e6;
  };
  context.remark = [&](const std::string& text) { progress.Remark(text); };
  absl::Status dumped;
  context.dump = [&](int index, const std::string& pass, const Module& module) {
    if (options.dump_after == pass) std::cout << Print(module);
    if (options.dump_after == "all" && dumped.ok())
      dumped = WriteTextFile(absl::StrFormat("%02d-%s.tpir", index, pass),
                             Print(module));
  };
  progress.Step("plan");
  TP_ASSIGN_OR_RETURN(std::vector<std::string> passes,
                      PassesToRun(options.stop_after, options.train));
  std::unique_ptr<Module> imported;
  if (!options.explain.empty()) imported = CloneModule(*model.module);
  TP_RETURN_IF_ERROR(RunPasses(*model.module, passes, context));
  TP_RETURN_IF_ERROR(dumped);
  TP_RETURN_IF_ERROR(CheckExamples(model, sources));
  if (!options.stop_after.empty()) {
    std::cout << Print(*model.module);
    return absl::OkStatus();
  }
  if (imported != nullptr) {
    progress.Step("explain");
    TP_ASSIGN_OR_RETURN(
        const std::string text,
        ExplainText(*imported, *model.module, context, options.explain));
    progress.Close();
    std::cout << text;
    return absl::OkStatus();
  }
  TP_ASSIGN_OR_RETURN(PlanSummary summary,
                      Summarize(*model.module, context.cost));
  // A whole plan left nothing to search for: what was said of it stands.
  if (context.rules.search && IsWholePlan(context.rules, *model.module)) {
    const auto seconds =
        package.search ? package.search->seconds : std::optional<double>();
    package.search = context.rules.search;
    package.search->seconds = seconds;
  }
  package.model = ModelName(sources);
  package.generate = options.generate_info;
  package.torch_version = TP_TORCH_VERSION;
  package.notes = NotesOf(summary, model.notes);
  package.rules = context.rules;
  package.machine = machine;
  package.arguments = model.arguments;
  package.libraries = LibraryNames(options.libraries);
  for (const std::string& note : package.notes) progress.Note(note);
  for (const std::string& warning : UnknownOpWarnings(*model.module)) {
    progress.Warn(warning);
    package.notes.push_back(warning);
  }
  if (!options.plan_only) {
    progress.Step("rank programs");
    TP_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Module>> programs,
                        MakeRankPrograms(*model.module));
    progress.Step("write package");
    package.unfinished = &unfinished;
    package.progress = [&](int64_t rank, int64_t num_ranks) {
      if (!options.quiet && isatty(STDERR_FILENO))
        std::cerr << "\rwriting rank " << rank + 1 << " of " << num_ranks
                  << (rank + 1 == num_ranks ? "\n" : "");
    };
    TP_RETURN_IF_ERROR(WritePackage(options.output, *model.module, programs,
                                    *model.weights, package));
  }
  progress.Close();
  if (options.json)
    std::cout << PlanJson(summary, options.ranks, package.search);
  else if (!options.quiet)
    std::cout << SummaryText(summary, options.plan_only);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  // A limit on file sizes is then an error of write(), told like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  Options options;
  const absl::Status parsed = ParseOptions(argc, argv, options);
  if (std::optional<int> code = AnswerCommon(kTool, parsed, options.common))
    return *code;
  // Shared with the thread that waits for signals, which outlives Main.
  const auto unfinished = std::make_shared<UnfinishedPackage>();
  CleanUpWhenInterrupted([unfinished] { unfinished->Abandon(); });
  try {
    absl::Status status = Compile(options, *unfinished);
    // The other thread ends the process, and what failed here failed for it.
    while (absl::IsCancelled(status)) pause();
    if (status.ok() && !std::cout.flush())
      status = absl::UnavailableError("cannot write to standard output");
    return status.ok() ? 0 : Fail(kTool, status);
  } catch (const std::bad_alloc&) {
    return Fail(kTool, absl::ResourceExhaustedError("out of memory"));
  } catch (const std::exception& error) {
    return Fail(kTool, absl::InternalError(error.what()));
  }
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) { return tp::Main(argc, argv); }
