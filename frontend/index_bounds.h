// Sizes that a table of fixed length allows: position ids counted up to the
// length of the input must stay inside the position embedding.
#ifndef TP_FRONTEND_INDEX_BOUNDS_H_
#define TP_FRONTEND_INDEX_BOUNDS_H_

#include "absl/status/status.h"
#include "frontend/import_context.h"
#include "ir/value.h"

namespace tp {

// For aten.embedding(table, ids) whose ids are a range moved by constants
// (arange(seq) + 2), guards that the largest is inside the table:
//     guard seq + 1 < 66
// Does nothing for ids that depend on data. InvalidArgument if the example
// itself is too long.
absl::Status GuardEmbeddingIndices(const Op& op, ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_INDEX_BOUNDS_H_
