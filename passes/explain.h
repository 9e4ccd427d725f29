// What other placements of one weight or value would cost.
#ifndef TP_PASSES_EXPLAIN_H_
#define TP_PASSES_EXPLAIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "passes/pass.h"

namespace tp {

// `imported`: the module before any pass; `planned`: the same one when
// PlanPipeline with `context` finished it. Every placement that propagation
// knows of a weight, and every one that the op knows of its result, is pinned
// in turn, the rest is searched again, and the plan is priced: a line each
// with the predicted time, what the fullest rank holds, collectives, and why
// it lost. Names as in plan_why.h.
absl::StatusOr<std::string> ExplainText(const Module& imported,
                                        const Module& planned,
                                        const PassContext& context,
                                        const std::string& name);

}  // namespace tp

#endif  // TP_PASSES_EXPLAIN_H_
