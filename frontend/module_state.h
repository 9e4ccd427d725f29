// What the model leaves for its next call: inputs and buffers that it wrote,
// attributes that it set.
#ifndef TP_FRONTEND_MODULE_STATE_H_
#define TP_FRONTEND_MODULE_STATE_H_

#include "absl/status/status.h"
#include "frontend/import_context.h"
#include "frontend/weight_table.h"

namespace tp {

// Adds a result to the function for everything whose content changed, which
// becomes its argument at the next call. What cannot be kept (a number, a
// list of another length, a tensor of another shape) is noted: every call
// then starts from the saved one.
absl::Status AddState(const WeightTable& weights, ImportContext& context,
                      Function& function);

}  // namespace tp

#endif  // TP_FRONTEND_MODULE_STATE_H_
