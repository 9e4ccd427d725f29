// Which ATen ops give views, and of what.
#ifndef TP_FRONTEND_VIEW_OPS_H_
#define TP_FRONTEND_VIEW_OPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "frontend/op_call.h"

namespace tp {

enum class Aliasing {
  kFresh,       // memory of its own
  kView,        // always a view of the first argument
  kViewPieces,  // a list of views that cut the first argument along a dim
  kMaybe,       // a view or a copy, as strides decide
};

// Of an op that is not in place. `annotated`: the schema says that a result
// may share memory with an argument.
Aliasing AliasingOf(llvm::StringRef base_name, bool annotated);

// Whether all results of `op`, called with these arguments, are contiguous.
// False where that is not known.
bool GivesContiguous(const Op& op, llvm::ArrayRef<AbstractValue> arguments);

// Spells an op one way: narrow as slice, expand_as as expand, ...
absl::StatusOr<OpCall> NormalizeView(OpCall call, ImportContext& context);

// The results of `op`, made by a call of that aliasing whose first argument
// is `base`, as tensors that know what they share.
absl::StatusOr<std::vector<AbstractValue>> TrackResults(Op& op,
                                                        Aliasing aliasing,
                                                        const TensorRef& base,
                                                        ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_VIEW_OPS_H_
