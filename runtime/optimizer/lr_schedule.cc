#include "runtime/optimizer/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace tp {

absl::Status CheckLrSchedule(const LrScheduleOptions& options) {
  const bool decays = options.name == "linear" || options.name == "cosine";
  if (!decays && options.name != "constant") {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no schedule '", options.name,
                     "'; the schedules are constant, linear and cosine"));
  }
  if (options.warmup < 0 || (decays && options.total < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", options.name,
                     " schedule needs a number of steps, and no negative "
                     "warmup"));
  }
  return absl::OkStatus();
}

double LrFactor(const LrScheduleOptions& options, int64_t step) {
  const auto done = static_cast<double>(step - 1);
  const auto warmup = static_cast<double>(options.warmup);
  const auto total = static_cast<double>(options.total);
  if (done < warmup) return done / std::max(1.0, warmup);
  if (options.name == "constant") return 1;
  const double rest = std::max(1.0, total - warmup);
  if (options.name == "linear") return std::max(0.0, (total - done) / rest);
  return std::max(0.0, 0.5 * (1 + std::cos(M_PI * (done - warmup) / rest)));
}

}  // namespace tp
