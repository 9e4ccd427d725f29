// Two plans side by side, and a plan beside what was measured of it.
#ifndef TP_PASSES_PLAN_DIFF_H_
#define TP_PASSES_PLAN_DIFF_H_

#include <string>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "llvm/ADT/StringRef.h"
#include "passes/plan_summary.h"

namespace tp {

struct PlanOfPackage {
  const Module& planned;
  const PlanSummary& summary;
};

// What is predicted of both, then weights and values that lie otherwise.
// "no difference" if there is none.
std::string PlanDiffText(const PlanOfPackage& a, const PlanOfPackage& b);

// Predictions beside the record that `tp-run --bench N --json` printed.
// kInvalidArgument if it is none, or one of another number of ranks.
absl::StatusOr<std::string> MeasuredText(const PlanSummary& summary,
                                         llvm::StringRef record);

}  // namespace tp

#endif  // TP_PASSES_PLAN_DIFF_H_
