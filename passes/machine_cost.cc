#include "passes/machine_cost.h"

#include <algorithm>

namespace tp {

CostModel CostModelOf(const Machine& machine, const Mesh& mesh) {
  CostModel cost;
  cost.flops_per_us = machine.flops_per_us;
  cost.memory_bytes_per_us = machine.memory_bytes_per_us;
  cost.kernel_us = machine.kernel_us;
  cost.link_latency_us = machine.link.latency_us;
  cost.link_bytes_per_us = machine.link.bytes_per_us;
  // The slowest link counts for all axes.
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    const Link& link = machine.LinkOf(mesh.axis(axis).name);
    if (axis == 0 || link.latency_us > cost.link_latency_us)
      cost.link_latency_us = link.latency_us;
    if (axis == 0 || link.bytes_per_us < cost.link_bytes_per_us)
      cost.link_bytes_per_us = link.bytes_per_us;
  }
  return cost;
}

}  // namespace tp
