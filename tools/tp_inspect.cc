// tp-inspect: shows the plan of a package.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "frontend/machine_reader.h"
#include "ir/package_manifest.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/machine_cost.h"
#include "passes/plan_summary.h"
#include "tools/command_line.h"

namespace tp {
namespace {

constexpr char kUsage[] =
    R"(usage: tp-inspect DIR [--ops | --json]

Shows the plan of a package that tp-compile wrote: mesh, memory per rank,
collectives, and every weight's placement.

  --ops    one line per op: module path, op, placements, source line
  --json   the summary as JSON
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

absl::Status Inspect(const std::string& dir, bool ops, bool json) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> planned, ReadPlan(dir));
  if (ops) {
    std::cout << OpsText(*planned);
    return absl::OkStatus();
  }
  TP_ASSIGN_OR_RETURN(const CostModel cost, CostOf(dir, planned->mesh()));
  TP_ASSIGN_OR_RETURN(PlanSummary summary, Summarize(*planned, cost));
  std::cout << (json ? SummaryJson(summary)
                     : SummaryText(summary, /*all_weights=*/true));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  bool ops = false;
  bool json = false;
  CommonOptions common;
  CommandLine line;
  line.Switch("--ops", &ops);
  line.Switch("--json", &json);
  absl::Status status = line.ParseCommon(argc, argv, "package folder",
                                         /*required=*/true, common);
  if (std::optional<int> code = AnswerCommon(kTool, status, common))
    return *code;
  status = Inspect(common.positional, ops, json);
  return status.ok() ? 0 : Fail(kTool, status);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) { return tp::Main(argc, argv); }
