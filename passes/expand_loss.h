// Losses as what their parts make up.
#ifndef TP_PASSES_EXPAND_LOSS_H_
#define TP_PASSES_EXPAND_LOSS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "ir/builder.h"

namespace tp {

// The values that replace the op's results; none if it is no loss, or has no
// better form. A mean becomes a sum and a count; cross entropy over a
// vocabulary becomes ops that work on a part of the vocabulary each.
absl::StatusOr<std::vector<Value*>> ExpandLoss(const Op& op, Builder& builder);

}  // namespace tp

#endif  // TP_PASSES_EXPAND_LOSS_H_
