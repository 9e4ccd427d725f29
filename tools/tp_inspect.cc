// tp-inspect: shows the plan of a package.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "frontend/machine_reader.h"
#include "ir/file_digest.h"
#include "ir/package_manifest.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/machine_cost.h"
#include "passes/plan_diff.h"
#include "passes/plan_json.h"
#include "passes/plan_summary.h"
#include "passes/plan_why.h"
#include "tools/command_line.h"

namespace tp {
namespace {

constexpr char kUsage[] =
    R"(usage: tp-inspect DIR [--ops | --json | --why NAME | --diff OTHER |
                       --measured FILE]

Shows the plan of a package that tp-compile wrote: mesh, memory per rank,
collectives, and every weight's placement.

  --ops    one line per op: module path, op, placements, source line
  --json   the summary as JSON
  --why NAME       of a weight or value, by the end of its name: what made it lie
                   as it does, and where ranks exchange what becomes of it
  --diff OTHER     another package: what is predicted of both, and the weights
                   and values that lie otherwise
  --measured FILE  predictions beside what tp-run DIR --bench N --json printed
  --help  --version

Exit codes: 0 ok, 2 usage, 3 bad input.
)";

constexpr ToolText kTool = {"tp-inspect", kUsage, TP_VERSION};

constexpr char kPlan[] = "plan.tpir";
constexpr char kMachine[] = "machine.yaml";

absl::StatusOr<std::unique_ptr<Module>> ReadPlan(const std::string& dir) {
  TP_ASSIGN_OR_RETURN(PackageManifest manifest, PackageManifest::Read(dir));
  TP_ASSIGN_OR_RETURN(std::string text, manifest.ReadText(kPlan));
  return Parse(text, manifest.Path(kPlan));
}

// Of the machine that the package was planned for.
absl::StatusOr<CostModel> CostOf(const std::string& dir, const Mesh& mesh) {
  TP_ASSIGN_OR_RETURN(PackageManifest manifest, PackageManifest::Read(dir));
  TP_ASSIGN_OR_RETURN(std::string text, manifest.ReadText(kMachine));
  TP_ASSIGN_OR_RETURN(Machine machine,
                      ParseMachine(text, manifest.Path(kMachine)));
  return CostModelOf(machine, mesh);
}

struct Options {
  bool ops = false;
  bool json = false;
  std::string why;
  std::string diff;
  std::string measured;
};

absl::Status Diff(const Module& planned, const PlanSummary& summary,
                  const std::string& dir) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> other, ReadPlan(dir));
  TP_ASSIGN_OR_RETURN(const CostModel cost, CostOf(dir, other->mesh()));
  TP_ASSIGN_OR_RETURN(PlanSummary of_other, Summarize(*other, cost));
  std::cout << PlanDiffText({planned, summary}, {*other, of_other});
  return absl::OkStatus();
}

absl::Status Inspect(const std::string& dir, const Options& options) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> planned, ReadPlan(dir));
  if (options.ops) {
    std::cout << OpsText(*planned);
    return absl::OkStatus();
  }
  TP_ASSIGN_OR_RETURN(const CostModel cost, CostOf(dir, planned->mesh()));
  if (!options.why.empty()) {
    TP_ASSIGN_OR_RETURN(std::string text, WhyText(*planned, cost, options.why));
    std::cout << text;
    return absl::OkStatus();
  }
  TP_ASSIGN_OR_RETURN(PlanSummary summary, Summarize(*planned, cost));
  if (!options.diff.empty()) return Diff(*planned, summary, options.diff);
  if (!options.measured.empty()) {
    TP_ASSIGN_OR_RETURN(std::string record, ReadTextFile(options.measured));
    TP_ASSIGN_OR_RETURN(std::string text, MeasuredText(summary, record));
    std::cout << text;
    return absl::OkStatus();
  }
  TP_ASSIGN_OR_RETURN(PackageManifest manifest, PackageManifest::Read(dir));
  const auto search =
      SearchReport::FromJson(manifest.root().getObject("search"));
  std::cout << (options.json ? PlanJson(summary, planned->mesh(), search)
                             : SummaryText(summary, /*all_weights=*/true));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CommonOptions common;
  CommandLine line;
  line.Switch("--ops", &options.ops);
  line.Switch("--json", &options.json);
  line.String("--why", &options.why);
  line.String("--diff", &options.diff);
  line.String("--measured", &options.measured);
  absl::Status status = line.ParseCommon(argc, argv, "package folder",
                                         /*required=*/true, common);
  if (std::optional<int> code = AnswerCommon(kTool, status, common))
    return *code;
  status = Inspect(common.positional, options);
  return status.ok() ? 0 : Fail(kTool, status);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) { return tp::Main(argc, argv); }
