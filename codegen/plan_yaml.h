// plan.yaml: every placement and why, for people; as --config it gives the
// same plan.
#ifndef TP_CODEGEN_PLAN_YAML_H_
#define TP_CODEGEN_PLAN_YAML_H_

#include <string>

#include "ir/module.h"

namespace tp {

struct PackageOptions;

// The plan of a module that PlanPipeline finished with the rules of `options`.
std::string PlanYaml(const Module& planned, const PackageOptions& options);

// "split 1 groups=3 chunk=12", "replicate": a placement as rules say it.
std::string StateText(const Placement& placement);

}  // namespace tp

#endif  // TP_CODEGEN_PLAN_YAML_H_
