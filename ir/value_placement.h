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

// How a result of a function has to lie: whole, or as the argument that it
// becomes.
inline Placement ResultPlacement(const Function& function, size_t result,
                                 int axis) {
  const int argument = function.result_info(result).argument;
  return argument < 0
             ? Placement()
             : AxisPlacement(*function.body().arguments()[argument], axis);
}

}  // namespace tp

#endif  // TP_IR_VALUE_PLACEMENT_H_
