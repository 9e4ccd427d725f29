// Where a value lies on one axis of the mesh.
#ifndef TP_IR_VALUE_PLACEMENT_H_
#define TP_IR_VALUE_PLACEMENT_H_

#include "ir/placement.h"
#include "ir/value.h"

namespace tp {

// The placement of a value on an axis: Replicate while nothing is decided.
inline Placement AxisPlacement(const Value& value, int axis) {
  return axis < static_cast<int>(value.spec().size()) ? value.spec()[axis]
                                                      : Placement();
}

}  // namespace tp

#endif  // TP_IR_VALUE_PLACEMENT_H_
