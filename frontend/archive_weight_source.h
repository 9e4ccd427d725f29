// The weights of a TorchScript archive, read where they lie in it.
#ifndef TP_FRONTEND_ARCHIVE_WEIGHT_SOURCE_H_
#define TP_FRONTEND_ARCHIVE_WEIGHT_SOURCE_H_

#include <memory>

#include "frontend/archive_check.h"
#include "ir/weight_source.h"

namespace tp {

// Every tensor attribute of the archive's module, by dotted name. Stored
// records are mapped; compressed ones are inflated by each View and freed with
// its result. View gives DataLoss for a damaged record, and FailedPrecondition
// for a model saved without data (on the meta device).
std::unique_ptr<WeightSource> MakeArchiveWeightSource(
    const CheckedArchive& archive);

}  // namespace tp

#endif  // TP_FRONTEND_ARCHIVE_WEIGHT_SOURCE_H_
