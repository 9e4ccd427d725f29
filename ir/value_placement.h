// Where a value lies on one axis of the mesh.
#ifndef TP_IR_VALUE_PLACEMENT_H_
#define TP_IR_VALUE_PLACEMENT_H_

#include "ir/module.h"
#include "ir/placement.h"
#include "ir/value.h"

namespace tp {

// The placement of a value on an axis: Replicate while nothing is decided.
inline Placement AxisPlacement(const Value& value, int axis) {
  return axis < static_cast<int>(value.spec().size()) ? value.spec()[axis]
                                                      : Placement();
}

// The argument that a result becomes, of its function or another; null if it
// becomes none.
inline const Value* ArgumentOfResult(const Module& module,
                                     const Function& function, size_t result) {
  const ResultInfo info = function.result_info(result);
  const Function* of =
      info.feeds() ? module.function(info.feeds_function) : &function;
  const int argument =
      info.feeds() && of ? of->FindInput(info.feeds_input) : info.argument;
  return argument < 0 ? nullptr : of->body().arguments()[argument].get();
}

// How a result of a function has to lie: whole, or as the argument that it
// becomes.
inline Placement ResultPlacement(const Module& module, const Function& function,
                                 size_t result, int axis) {
  const Value* argument = ArgumentOfResult(module, function, result);
  return argument == nullptr ? Placement() : AxisPlacement(*argument, axis);
}

}  // namespace tp

#endif  // TP_IR_VALUE_PLACEMENT_H_
