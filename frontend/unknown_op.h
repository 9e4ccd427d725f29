// Ops without a row in the op table: custom ones, and ATen ops that nobody
// described yet. They run whole on every rank.
//
// What their results look like is asked of the op itself: of its meta kernel,
// which computes sizes only, or of one trial run on made-up values where it
// has none. Asking at several sizes tells how the results' sizes depend on
// the arguments'; where that stays open, the sizes are fixed to those of the
// first example. tp-run compares what it gets with what was found here.
#ifndef TP_FRONTEND_UNKNOWN_OP_H_
#define TP_FRONTEND_UNKNOWN_OP_H_

#include <ATen/core/function_schema.h>

#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "frontend/op_call.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// Appends the op and gives one value per return of the schema. kUnimplemented
// where the op cannot run whole on every rank (it is random, gives no
// tensors, or nothing is known of its results).
absl::StatusOr<std::vector<AbstractValue>> ImportUnknownOp(
    const c10::FunctionSchema& schema, const OpCall& call,
    llvm::ArrayRef<AbstractValue> arguments, ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_UNKNOWN_OP_H_
