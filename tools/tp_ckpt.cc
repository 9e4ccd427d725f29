// tp-ckpt: checkpoints of tp-run train, looked at and turned into other
// things.
#include <csignal>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/checkpoint_convert.h"
#include "ir/checkpoint_reader.h"
#include "ir/file_digest.h"
#include "ir/json_nesting.h"
#include "ir/status.h"
#include "ir/text.h"
#include "llvm/Support/JSON.h"
#include "tools/command_line.h"

namespace tp {
namespace {

constexpr char kUsage[] =
    R"(usage: tp-ckpt info CKPT [--tensors | --json]
       tp-ckpt export CKPT [--package DIR] -o FILE.safetensors
       tp-ckpt import FILE|FOLDER --package DIR -o CKPT
       tp-ckpt reshard CKPT --to PACKAGE -o DIR [--weights-only]

CKPT is a folder that tp-run train wrote checkpoints to (the latest is taken)
or one checkpoint in it (DIR/step-500). Hashes are checked before anything is
read.

  info      what a checkpoint holds
  export    one ordinary safetensors file with original names; a tied weight
            stands under each of its names. Weights that training leaves alone
            are not in checkpoints: they come from --package
  import    a checkpoint of step 0 of ordinary weights, one file or a
            HuggingFace folder; every name is accounted for
            (--allow-unexpected lets names pass that the package has not)
  reshard   the same checkpoint as PACKAGE lays its weights out, for any
            number of ranks, with the optimizer's state (--weights-only:
            without)
  --help  --version

Exit codes: 0 ok, 1 error, 2 usage, 3 bad input.
)";

struct Options {
  std::string package;
  std::string to;
  std::string output;
  bool tensors = false;
  bool json = false;
  bool weights_only = false;
  bool allow_unexpected = false;
};

std::string In(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

// The hash the manifest has of a file.
absl::StatusOr<std::string> ListedHash(const std::string& package,
                                       const std::string& name) {
  const std::string path = In(package, "manifest.json");
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok())
    return Annotate(text.status(),
                    package + " is not a package made by tp-compile");
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  if (NestedTooDeep(*text, 16)) return error("nested too deeply");
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(*text);
  if (!parsed) return error(llvm::toString(parsed.takeError()));
  const llvm::json::Object* manifest = parsed->getAsObject();
  const llvm::json::Object* files =
      manifest ? manifest->getObject("files") : nullptr;
  const llvm::json::Object* file = files ? files->getObject(name) : nullptr;
  const auto hash = file ? file->getString("sha256") : std::nullopt;
  if (!hash) return error(absl::StrCat("'files' has no entry for ", name));
  return hash->str();
}

absl::StatusOr<std::unique_ptr<Module>> ReadPlan(const std::string& package) {
  const std::string path = In(package, "plan.tpir");
  TP_ASSIGN_OR_RETURN(std::string hash, ListedHash(package, "plan.tpir"));
  TP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  if (Sha256Hex(text) != hash)
    return absl::DataLossError(absl::StrCat(
        path,
        " is not the file tp-compile wrote: its SHA-256 differs from "
        "the manifest's; compile again"));
  return Parse(text, path);
}

absl::StatusOr<PackageWeights> ReadPackageWeights(const std::string& package) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> planned, ReadPlan(package));
  PackageWeights weights;
  TP_ASSIGN_OR_RETURN(weights.tensors, PlannedWeights(*planned));
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (int64_t rank = 0; rank < planned->mesh().num_ranks(); ++rank) {
    TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file,
                        SafetensorsFile::Open(In(package, RankFileName(rank))));
    files.push_back(std::move(file));
  }
  weights.files = ShardedFiles(planned->mesh(), std::move(files));
  for (const CheckpointTensor& tensor : weights.tensors)
    TP_RETURN_IF_ERROR(weights.files.Check(tensor.sharded()));
  return weights;
}

std::string LineOf(const CheckpointTensor& tensor) {
  return absl::StrCat(tensor.key(), "  ", std::string(Name(tensor.dtype)), "[",
                      absl::StrJoin(tensor.sizes, ","), "] ",
                      ToString(tensor.spec),
                      tensor.aliases.empty() ? "" : "  also ",
                      absl::StrJoin(tensor.aliases, ", "));
}

absl::Status Info(const std::string& path, const Options& options) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                      CheckpointReader::Open(path));
  const Checkpoint& checkpoint = reader->checkpoint();
  if (options.json) {
    std::cout << CheckpointJson(checkpoint);
    return absl::OkStatus();
  }
  int64_t counts[3] = {}, bytes[3] = {};
  for (const CheckpointTensor& tensor : checkpoint.tensors) {
    ++counts[static_cast<int>(tensor.kind)];
    bytes[static_cast<int>(tensor.kind)] += tensor.sharded().NumBytes();
  }
  std::cout << reader->folder() << ": complete, every hash fits\n"
            << "step " << checkpoint.step << ", epoch " << checkpoint.epoch
            << ", " << checkpoint.position
            << " micro-batches of it used up, seed " << checkpoint.seed
            << "\nmesh " << checkpoint.mesh.ToString() << "\n"
            << counts[0] << " parameters (" << bytes[0] << " bytes), "
            << counts[1] << " buffers (" << bytes[1] << " bytes), " << counts[2]
            << " states (" << bytes[2] << " bytes) of "
            << (checkpoint.optimizer.empty() ? "no optimizer"
                                             : checkpoint.optimizer)
            << "\n";
  if (!checkpoint.optimizer_options.empty())
    std::cout << "optimizer options: " << checkpoint.optimizer_options << "\n";
  for (const auto& [key, value] : checkpoint.extra)
    std::cout << key << ": " << value << "\n";
  if (options.tensors)
    for (const CheckpointTensor& tensor : checkpoint.tensors)
      std::cout << LineOf(tensor) << "\n";
  return absl::OkStatus();
}

absl::Status Export(const std::string& path, const Options& options) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                      CheckpointReader::Open(path));
  if (options.package.empty())
    return ExportCheckpoint(*reader, nullptr, options.output);
  TP_ASSIGN_OR_RETURN(PackageWeights package,
                      ReadPackageWeights(options.package));
  return ExportCheckpoint(*reader, &package, options.output);
}

absl::Status Import(const std::string& path, const Options& options) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> planned,
                      ReadPlan(options.package));
  TP_ASSIGN_OR_RETURN(std::unique_ptr<WeightSource> given, OpenWeights(path));
  MatchOptions match;
  match.allow_unexpected = options.allow_unexpected;
  return ImportCheckpoint(*given, *planned, options.output, match);
}

absl::Status Reshard(const std::string& path, const Options& options) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> planned, ReadPlan(options.to));
  TP_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                      CheckpointReader::Open(path));
  ReshardOptions reshard;
  reshard.weights_only = options.weights_only;
  return ReshardCheckpoint(*reader, *planned, options.output, reshard);
}

struct Command {
  const char* name;
  // Flags it cannot do without.
  std::vector<std::pair<const char*, std::string Options::*>> needs;
  absl::Status (*run)(const std::string& path, const Options& options);
};

const std::vector<Command>& Commands() {
  static const auto& commands = *new std::vector<Command>{
      {"info", {}, Info},
      {"export", {{"-o", &Options::output}}, Export},
      {"import",
       {{"--package", &Options::package}, {"-o", &Options::output}},
       Import},
      {"reshard", {{"--to", &Options::to}, {"-o", &Options::output}}, Reshard},
  };
  return commands;
}

// The command, or a usage error.
absl::StatusOr<const Command*> FindCommand(
    const std::vector<std::string>& positional, const Options& options) {
  if (positional.empty())
    return absl::InvalidArgumentError(
        "give a command: info, export, import or reshard");
  for (const Command& command : Commands()) {
    if (positional[0] != command.name) continue;
    if (positional.size() != 2)
      return absl::InvalidArgumentError(
          absl::StrCat(command.name, " takes one path"));
    for (const auto& [flag, member] : command.needs)
      if ((options.*member).empty())
        return absl::InvalidArgumentError(
            absl::StrCat(command.name, " needs ", flag));
    return &command;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no command '", positional[0],
                   "': give info, export, import or reshard"));
}

int Main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  Options options;
  bool help = false, version = false;
  CommandLine line;
  line.String("--package", &options.package);
  line.String("--to", &options.to);
  line.String("-o", &options.output);
  line.Switch("--tensors", &options.tensors);
  line.Switch("--json", &options.json);
  line.Switch("--weights-only", &options.weights_only);
  line.Switch("--allow-unexpected", &options.allow_unexpected);
  line.Switch("--help", &help);
  line.Switch("--version", &version);
  std::vector<std::string> positional;
  absl::Status status = line.Parse(argc, argv, positional);
  if (status.ok() && help) {
    std::cout << kUsage;
    return 0;
  }
  if (status.ok() && version) {
    std::cout << "tp-ckpt " << TP_VERSION << "\n";
    return 0;
  }
  const Command* command = nullptr;
  if (status.ok()) {
    absl::StatusOr<const Command*> found = FindCommand(positional, options);
    status = found.status();
    if (found.ok()) command = *found;
  }
  if (!status.ok()) {
    std::cerr << "tp-ckpt: " << status.message() << "\nTry tp-ckpt --help.\n";
    return static_cast<int>(ExitCode::kUsage);
  }
  try {
    status = command->run(positional[1], options);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("out of memory");
  }
  if (status.ok()) return 0;
  std::cerr << "tp-ckpt: " << status.message() << "\n";
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) { return tp::Main(argc, argv); }
