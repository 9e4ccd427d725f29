// tp-opt: runs passes on a program in text, and shows what the op table says.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "ir/text.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/pass.h"
#include "tools/command_line.h"

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
  int rank = -1;
  bool list_passes = false;
  bool show_rules = false;
  bool markdown = false;
  CommonOptions common;
};

constexpr ToolText kTool = {"tp-opt", kUsage, TP_VERSION};

bool IsPass(const std::string& name) {
  return llvm::any_of(AllPasses(),
                      [&](const PassInfo& pass) { return pass.name == name; });
}

// Names of passes; "plan" stands for the pipeline.
absl::Status AddPasses(const std::string& list,
                       std::vector<std::string>& passes) {
  const std::vector<std::string> names =
      absl::StrSplit(list, ',', absl::SkipEmpty());
  for (const std::string& name : names) {
    if (name == "plan") {
      for (std::string& step : PlanPipeline())
        passes.push_back(std::move(step));
    } else if (IsPass(name)) {
      passes.push_back(name);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no pass named \"", name,
                       "\"; tp-opt --list-passes lists them"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseOptions(int argc, char** argv, Options& options) {
  CommandLine line;
  std::vector<std::string> passes;
  std::string rank;
  line.String("-o", &options.output);
  line.Strings("--passes", &passes);
  line.String("--rank", &rank);
  line.Switch("--list-passes", &options.list_passes);
  line.Switch("--show-rules", &options.show_rules);
  line.Switch("--markdown", &options.markdown);
  TP_RETURN_IF_ERROR(
      line.ParseCommon(argc, argv, "FILE", /*required=*/false, options.common));
  if (options.common.answers()) return absl::OkStatus();
  options.input = options.common.positional;
  for (const std::string& list : passes)
    TP_RETURN_IF_ERROR(AddPasses(list, options.passes));
  if (!rank.empty() &&
      (!absl::SimpleAtoi(rank, &options.rank) || options.rank < 0))
    return absl::InvalidArgumentError(
        absl::StrCat("--rank=", rank, " is not a rank"));
  if (options.input.empty() && !options.list_passes && !options.show_rules)
    return absl::InvalidArgumentError("which FILE? (- is standard input)");
  return absl::OkStatus();
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

int Main(int argc, char** argv) {
  Options options;
  const absl::Status parsed = ParseOptions(argc, argv, options);
  if (std::optional<int> code = AnswerCommon(kTool, parsed, options.common))
    return *code;
  absl::StatusOr<std::string> output;
  if (options.list_passes) {
    std::vector<std::vector<std::string>> rows = {{"pass", "what it does"}};
    for (const PassInfo& pass : AllPasses())
      rows.push_back({pass.name, pass.summary});
    output = FormatTable(rows, options.markdown);
  } else if (options.show_rules && options.input.empty()) {
    output = OpTableText(options.markdown);
  } else {
    output = Process(options);
  }
  if (!output.ok()) return Fail(kTool, output.status());
  const absl::Status written = WriteOutput(options.output, *output);
  return written.ok() ? 0 : Fail(kTool, written);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) { return tp::Main(argc, argv); }
