// Learning rates over the steps of a training.
#ifndef TP_RUNTIME_OPTIMIZER_LR_SCHEDULE_H_
#define TP_RUNTIME_OPTIMIZER_LR_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tp {

struct LrScheduleOptions {
  std::string name = "constant";  // constant, linear or cosine
  int64_t warmup = 0;             // steps from 0 to the full rate
  int64_t total = 0;              // steps until the rate is 0
};

// kInvalidArgument: an unknown name, or a decay without an end.
absl::Status CheckLrSchedule(const LrScheduleOptions& options);

// The share of the full rate in step `step` (from 1): the formulas of
// transformers' get_*_schedule_with_warmup, where the first step of a warmup
// has rate 0.
double LrFactor(const LrScheduleOptions& options, int64_t step);

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_LR_SCHEDULE_H_
