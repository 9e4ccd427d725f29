// What a plan costs, in microseconds. One table prices reshards and ops for
// the search; lowering uses the same transitions (ir/collectives.h).
#ifndef TP_PASSES_COST_MODEL_H_
#define TP_PASSES_COST_MODEL_H_

#include <cstdint>

#include "ir/assumptions.h"
#include "ir/collectives.h"
#include "ir/sharding_rule.h"
#include "ir/value.h"

namespace tp {

// Rates of one device and of the links of an axis. The defaults describe two
// threads of a server CPU that share memory.
struct CostModel {
  double flops_per_us = 50e3;         // multiply-adds count twice
  double memory_bytes_per_us = 10e3;  // reads and writes of a kernel
  double kernel_us = 1.0;             // floor of every op that is no view
  double link_latency_us = 5.0;       // of one collective
  double link_bytes_per_us = 5e3;     // bytes leaving a rank
};

// Bytes of a whole tensor under the example sizes.
double HintBytes(const TensorType& type, const Assumptions& assumptions);

// Microseconds to take a value of that type from one placement to another;
// infinity where impossible.
double ReshardMicroseconds(const CostModel& model, const TensorType& type,
                           const Placement& from, const Placement& to,
                           int64_t axis_size, const Assumptions& assumptions);

// Microseconds of an op on the busiest rank, to which `share` (0 < share <= 1)
// of the multiply-adds falls and which reads and writes `bytes`.
double OpMicroseconds(const CostModel& model, const Op& op, double share,
                      double bytes, const Assumptions& assumptions);

// The share of the busiest rank: ceil(size / W) / size under the hints.
double LargestShare(const SymExpr& factor_size, int64_t axis_size,
                    const Assumptions& assumptions);

}  // namespace tp

#endif  // TP_PASSES_COST_MODEL_H_
