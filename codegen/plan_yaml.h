// plan.yaml: every placement and why, for people; as --config it gives the
// same plan.
#ifndef TP_CODEGEN_PLAN_YAML_H_
#define TP_CODEGEN_PLAN_YAML_H_

#include <string>

#include "ir/module.h"
#include "ir/user_rules.h"

namespace tp {

// The plan of a module that PlanPipeline finished. `model` is the file name
// of the source model, `rules` the config it was compiled with, `zero3` the
// parameters that are sharded at rest only.
std::string PlanYaml(const Module& planned, const std::string& model,
                     const UserRules& rules,
                     llvm::ArrayRef<std::string> zero3);

// "split 1 groups=3 chunk=12", "replicate": a placement as rules say it.
std::string StateText(const Placement& placement);

}  // namespace tp

#endif  // TP_CODEGEN_PLAN_YAML_H_
