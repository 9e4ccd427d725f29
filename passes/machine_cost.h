// The cost model of a machine.
#ifndef TP_PASSES_MACHINE_COST_H_
#define TP_PASSES_MACHINE_COST_H_

#include "ir/machine.h"
#include "ir/mesh.h"
#include "passes/cost_model.h"

namespace tp {

CostModel CostModelOf(const Machine& machine, const Mesh& mesh);

}  // namespace tp

#endif  // TP_PASSES_MACHINE_COST_H_
