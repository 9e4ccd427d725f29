#include "ir/shard_extent.h"

#include "ir/status.h"

namespace tp {

// Rank r holds ceil((n - r) / W) indices, which is floor((n + W-1-r) / W): one
// more than n // W exactly for r < n mod W. Before it come r times n // W and
// the min(r, n mod W) extra ones.
ShardExtent ShardExtentOf(const SymExpr& factor_size, int64_t axis_size,
                          int64_t coordinate) {
  TP_CHECK(0 <= coordinate && coordinate < axis_size,
           "a coordinate outside its mesh axis");
  const SymExpr quotient = FloorDiv(factor_size, axis_size);
  const SymExpr remainder = Mod(factor_size, axis_size);
  return {quotient * coordinate + Min(coordinate, remainder),
          FloorDiv(factor_size + (axis_size - 1 - coordinate), axis_size)};
}

}  // namespace tp
