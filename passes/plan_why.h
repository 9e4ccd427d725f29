// Why a weight or value of a plan lies as it does.
#ifndef TP_PASSES_PLAN_WHY_H_
#define TP_PASSES_PLAN_WHY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "passes/cost_model.h"

namespace tp {

// A weight by any of its names or a value by its name (ir/value_names.h).
struct PlanSubject {
  std::string name;
  Value* value = nullptr;
  const Function* function = nullptr;
  const ArgumentInfo* weight = nullptr;  // null of a value
};

// What a name, or the end of one, stands for. kInvalidArgument if it is the
// end of several or of none; near names are listed.
absl::StatusOr<PlanSubject> FindSubject(const Module& module,
                                        const std::string& name);

// Of a module that PlanPipeline finished: on each axis what made the value,
// back to the weights it follows from, and on to where ranks exchange what
// became of it, with predicted times.
absl::StatusOr<std::string> WhyText(const Module& planned,
                                    const CostModel& cost,
                                    const std::string& name);

}  // namespace tp

#endif  // TP_PASSES_PLAN_WHY_H_
