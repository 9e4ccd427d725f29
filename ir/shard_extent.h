// The only code that computes how much of a sharded factor a rank holds.
//
// n indices over W ranks: the first n mod W ranks get one more.
// 5 over 3 is 2, 2, 1; 1 over 2 is 1, 0.
#ifndef TP_IR_SHARD_EXTENT_H_
#define TP_IR_SHARD_EXTENT_H_

#include <cstdint>

#include "ir/sym_expr.h"

namespace tp {

struct ShardExtent {
  SymExpr offset;  // first index held
  SymExpr extent;  // number of indices held
};

// Requires 0 <= coordinate < axis_size.
ShardExtent ShardExtentOf(const SymExpr& factor_size, int64_t axis_size,
                          int64_t coordinate);

}  // namespace tp

#endif  // TP_IR_SHARD_EXTENT_H_
