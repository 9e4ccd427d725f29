// tp-opt: runs passes on a program in text, and shows what the op table says.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "ir/text.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/pass.h"

namespace tp {
namespace {

constexpr char kUsage[] =
    R"(usage: tp-opt [--passes=a,b,...] [--rank=K] FILE.tpir [-o OUT.tpir]
       tp-opt --show-rules [--markdown] [FILE.tpir]
       tp-opt --list-passes

Runs passes on a program in text and prints the result. FILE may be - for
standard input; without --passes the program is only checked and printed.

  --passes=a,b     passes to run, in this order ("plan" is the whole pipeline
                   from an imported program to one with collectives)
  --rank=K         then make the program of rank K
  -o FILE          write there instead of standard output
  --list-passes    print every pass with what it does
  --show-rules     print the op table; with FILE, the rule of every op in it
                   (after --passes)
  --markdown       with --show-rules and no FILE: as a Markdown table
  --help           print this
  --version        print the version

Exit codes: 0 ok, 1 a pass failed in itself, 2 usage, 3 bad input,
4 unsupported op or plan.
)";

struct Options {
  std::string input;
  std::string output = "-";
  std::vector<std::string> passes;
  int64_t rank = -1;
  bool list_passes = false;
  bool show_rules = false;
  bool markdown = false;
  bool help = false;
  bool version = false;
};

int UsageError(const std::string& message) {
  std::cerr << "tp-opt: " << message << "\nTry tp-opt --help.\n";
  return static_cast<int>(ExitCode::kUsage);
}

int Fail(const absl::Status& status) {
  std::cerr << "tp-opt: " << status.message() << "\n";
  return static_cast<int>(ExitCodeOf(status));
}

// One entry per flag that takes a value; they accept --flag=value and
// --flag value.
absl::Status SetValue(llvm::StringRef flag, llvm::StringRef value,
                      Options& options) {
  if (flag == "o") {
    options.output = value.str();
  } else if (flag == "passes") {
    std::vector<std::string> names =
        absl::StrSplit(value.str(), ',', absl::SkipEmpty());
    for (std::string& name : names) {
      if (name == "plan") {
        for (std::string& step : PlanPipeline())
          options.passes.push_back(std::move(step));
      } else {
        options.passes.push_back(std::move(name));
      }
    }
  } else if (value.getAsInteger(10, options.rank) || options.rank < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank=", value.str(), " is not a rank"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> ParseCommandLine(llvm::ArrayRef<const char*> args) {
  Options options;
  const std::pair<llvm::StringRef, bool*> switches[] = {
      {"list-passes", &options.list_passes},
      {"show-rules", &options.show_rules},
      {"markdown", &options.markdown},
      {"help", &options.help},
      {"version", &options.version},
  };
  for (size_t i = 0; i < args.size(); ++i) {
    const llvm::StringRef arg = args[i];
    if (arg == "-" || !arg.starts_with("-")) {
      if (!options.input.empty())
        return absl::InvalidArgumentError(absl::StrCat(
            "one FILE at a time, not ", options.input, " and ", arg.str()));
      options.input = arg.str();
      continue;
    }
    auto [flag, value] = arg.ltrim('-').split('=');
    if (flag == "o" || flag == "passes" || flag == "rank") {
      if (!arg.contains('=')) {
        if (++i == args.size())
          return absl::InvalidArgumentError(
              absl::StrCat(arg.str(), " needs a value"));
        value = args[i];
      }
      TP_RETURN_IF_ERROR(SetValue(flag, value, options));
      continue;
    }
    const auto* found = std::find_if(
        std::begin(switches), std::end(switches),
        [&, flag = flag](const auto& entry) { return entry.first == flag; });
    if (found == std::end(switches) || arg.contains('='))
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", arg.str()));
    *found->second = true;
  }
  return options;
}

absl::StatusOr<std::string> ReadInput(const std::string& path) {
  if (path == "-")
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return text;
}

absl::Status WriteOutput(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) return absl::InternalError("cannot write to the output");
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file)
    return absl::PermissionDeniedError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

// Rows of cells; the first is the heading.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows,
                        bool markdown) {
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line = markdown ? "|" : "";
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string& cell = rows[r][i];
      if (markdown)
        absl::StrAppend(&line, " ", absl::StrReplaceAll(cell, {{"|", "\\|"}}),
                        " |");
      else
        absl::StrAppend(&line, cell,
                        std::string(widths[i] - cell.size() + 2, ' '));
    }
    absl::StrAppend(&text, llvm::StringRef(line).rtrim().str(), "\n");
    if (markdown && r == 0) {
      text += "|";
      for (size_t i = 0; i < rows[0].size(); ++i) text += "---|";
      text += "\n";
    }
  }
  return text;
}

std::string TraitsText(uint32_t traits) {
  const std::pair<uint32_t, const char*> names[] = {{kView, "view"},
                                                    {kRandom, "random"},
                                                    {kCollective, "collective"},
                                                    {kDecompose, "decompose"}};
  std::vector<std::string> set;
  for (const auto& [trait, name] : names)
    if (traits & trait) set.push_back(name);
  return absl::StrJoin(set, " ");
}

std::string OpTableText(bool markdown) {
  std::vector<std::vector<std::string>> rows = {
      {"op", "rule", "partial", "saves", "traits"}};
  auto code = [&](const std::string& text) {
    return markdown ? absl::StrCat("`", text, "`") : text;
  };
  for (const OpDef* def : AllOpDefs())
    rows.push_back({def->name, def->rule.empty() ? "computed" : code(def->rule),
                    code(def->partial), def->saves, TraitsText(def->traits)});
  return FormatTable(rows, markdown);
}

absl::Status AppendRules(const Block& block, std::string& text) {
  for (const std::unique_ptr<Op>& op : block.ops()) {
    absl::StatusOr<OpRule> rule = RuleOf(*op);
    absl::StrAppend(&text, Print(*op), "\n    ");
    if (rule.ok())
      absl::StrAppend(&text, rule->ToString(),
                      FindOpDef(*op) ? "" : "  (no row in the op table)", "\n");
    else
      absl::StrAppend(&text, "no rule: ", rule.status().message(), "\n");
    for (const std::unique_ptr<Block>& region : op->regions())
      TP_RETURN_IF_ERROR(AppendRules(*region, text));
  }
  return absl::OkStatus();
}

bool IsPass(const std::string& name) {
  return llvm::any_of(AllPasses(),
                      [&](const PassInfo& pass) { return pass.name == name; });
}

absl::StatusOr<std::string> Process(const Options& options) {
  TP_ASSIGN_OR_RETURN(std::string text, ReadInput(options.input));
  TP_ASSIGN_OR_RETURN(
      std::unique_ptr<Module> module,
      Parse(text, options.input == "-" ? "<stdin>" : options.input));
  PassContext context;
  context.remark = [](const std::string& remark) {
    std::cerr << "tp-opt: remark: " << remark << "\n";
  };
  TP_RETURN_IF_ERROR(RunPasses(*module, options.passes, context));
  if (options.rank >= 0) {
    TP_ASSIGN_OR_RETURN(module, LocalizeForRank(*module, options.rank));
  }
  if (!options.show_rules) return Print(*module);
  std::string rules;
  for (const std::unique_ptr<Function>& function : module->functions()) {
    absl::StrAppend(&rules, "@", function->name(), "\n");
    TP_RETURN_IF_ERROR(AppendRules(function->body(), rules));
  }
  return rules;
}

int Main(llvm::ArrayRef<const char*> args) {
  absl::StatusOr<Options> options = ParseCommandLine(args);
  if (!options.ok()) return UsageError(std::string(options.status().message()));
  for (const std::string& pass : options->passes)
    if (!IsPass(pass))
      return UsageError(absl::StrCat("there is no pass named \"", pass,
                                     "\"; tp-opt --list-passes lists them"));
  absl::StatusOr<std::string> output;
  if (options->help) {
    output = kUsage;
  } else if (options->version) {
    output = "tp-opt " TP_VERSION "\n";
  } else if (options->list_passes) {
    std::vector<std::vector<std::string>> rows = {{"pass", "what it does"}};
    for (const PassInfo& pass : AllPasses())
      rows.push_back({pass.name, pass.summary});
    output = FormatTable(rows, options->markdown);
  } else if (options->show_rules && options->input.empty()) {
    output = OpTableText(options->markdown);
  } else if (options->input.empty()) {
    return UsageError("which FILE? (- is standard input)");
  } else {
    output = Process(*options);
  }
  if (!output.ok()) return Fail(output.status());
  if (absl::Status status = WriteOutput(options->output, *output); !status.ok())
    return Fail(status);
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  return tp::Main(llvm::ArrayRef<const char*>(argv + 1, argv + argc));
}
