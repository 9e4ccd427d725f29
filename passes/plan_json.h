// The stable JSON of a plan.
#ifndef TP_PASSES_PLAN_JSON_H_
#define TP_PASSES_PLAN_JSON_H_

#include <optional>
#include <string>

#include "ir/mesh.h"
#include "ir/search_report.h"
#include "passes/plan_summary.h"

namespace tp {

// What tp-inspect --json and tp-compile --plan-only --json print: the summary,
// the mesh as axes and sizes, and what the search says of itself.
std::string PlanJson(const PlanSummary& summary, const Mesh& mesh,
                     const std::optional<SearchReport>& search);

}  // namespace tp

#endif  // TP_PASSES_PLAN_JSON_H_
