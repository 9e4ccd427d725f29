// The definition of a placement, element by element, to compare with.
#ifndef TESTS_UNIT_PLACED_ELEMENTS_H_
#define TESTS_UNIT_PLACED_ELEMENTS_H_

#include <vector>

#include "ir/placement.h"

namespace tp {

// The row-major indices of the elements of a tensor of constant dims that a
// rank holds under a placement, in the order it holds them.
inline std::vector<int64_t> PlacedElements(llvm::ArrayRef<SymExpr> dims,
                                           const Placement& placement,
                                           int64_t axis_size, int64_t rank) {
  int64_t outer = 1, dim_size = 1, inner = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t size = dims[i].constant();
    if (!placement.is_shard() || static_cast<int>(i) < placement.dim())
      outer *= size;
    else if (static_cast<int>(i) == placement.dim())
      dim_size = size;
    else
      inner *= size;
  }
  // Which indices of the dim are held: the block of the middle index.
  const bool is_shard = placement.is_shard();
  const int64_t size = is_shard ? placement.factor().size.constant() : 1;
  const int64_t right = is_shard ? placement.factor().right.constant() : 1;
  std::vector<int64_t> elements;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t d = 0; d < dim_size; ++d) {
      const int64_t middle = d / right % size;
      // The first size mod W ranks hold one more.
      const int64_t base = size / axis_size;
      const int64_t extra = size % axis_size;
      const int64_t begin = rank * base + std::min(rank, extra);
      const int64_t end = begin + base + (rank < extra ? 1 : 0);
      if (is_shard && (middle < begin || middle >= end)) continue;
      for (int64_t i = 0; i < inner; ++i)
        elements.push_back((o * dim_size + d) * inner + i);
    }
  }
  return elements;
}

}  // namespace tp

#endif  // TESTS_UNIT_PLACED_ELEMENTS_H_
