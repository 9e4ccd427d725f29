// Ops of TorchScript on lists, tuples, dicts and strings as sequences,
// evaluated while importing: every container has known elements.
#ifndef TP_FRONTEND_CONTAINER_OPS_H_
#define TP_FRONTEND_CONTAINER_OPS_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// Evaluates `op` ("aten::append", "prim::TupleUnpack", ...), which gives
// `num_results` values; nothing for any other op. Containers are changed in
// place, as in Python. kInvalidArgument: an index out of range, a key that is
// not there, an unpacking of the wrong length.
absl::StatusOr<std::optional<std::vector<AbstractValue>>> EvaluateContainerOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    size_t num_results, ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_CONTAINER_OPS_H_
