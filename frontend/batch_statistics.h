// batch_norm and instance_norm in training mode: they normalize by the
// statistics of the batch, and move running statistics towards them.
#ifndef TP_FRONTEND_BATCH_STATISTICS_H_
#define TP_FRONTEND_BATCH_STATISTICS_H_

#include <ATen/core/function_schema.h>

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// Nothing where the op does not write running statistics. Their schemas do
// not say that they do.
absl::StatusOr<std::optional<std::vector<AbstractValue>>> ImportBatchStatistics(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_BATCH_STATISTICS_H_
