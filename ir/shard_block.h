// The block of a tensor that a rank of a mesh holds, and copies between blocks
// that lie differently.
#ifndef TP_IR_SHARD_BLOCK_H_
#define TP_IR_SHARD_BLOCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/weight_source.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace tp {

// The block of a tensor of these (whole) sizes that a rank holds: per dim the
// index intervals, in order. A split factor with indices to its left gives one
// interval for each of those: S(1:3x[8]x12) on rank 0 of 2 takes
// [0,48) [96,144) [192,240). On axes where the placement is Partial or R the
// rank holds everything. Requires one placement per mesh axis.
// kUnimplemented: one dim split on two axes; kInvalidArgument: symbolic boxes,
// or boxes that do not fit the sizes.
absl::StatusOr<std::vector<DimIntervals>> BlockOf(
    llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<Placement> spec,
    const Mesh& mesh, int64_t rank);

// How many indices of each dim a block holds.
llvm::SmallVector<int64_t, 4> ExtentsOf(llvm::ArrayRef<DimIntervals> block);

// False for a rank whose block another, lower rank holds as well: one that is
// not the first of an axis on which the tensor is replicated.
bool HoldsFirstCopy(llvm::ArrayRef<Placement> spec, const Mesh& mesh,
                    int64_t rank);

// Copies the elements that two blocks of one tensor have in common from `from`
// to `to`, each laid out row-major without gaps, `item` bytes an element.
// Returns how many elements that were. Intervals of a dim must be in order and
// apart from each other.
int64_t CopyCommon(llvm::ArrayRef<DimIntervals> from_block, const void* from,
                   llvm::ArrayRef<DimIntervals> to_block, void* to,
                   int64_t item);

// The block in pieces of at most `max_elements` elements each (or one index of
// its first dim with several), whose row-major layouts one after the other are
// that of the block.
std::vector<std::vector<DimIntervals>> SplitBlock(
    llvm::ArrayRef<DimIntervals> block, int64_t max_elements);

}  // namespace tp

#endif  // TP_IR_SHARD_BLOCK_H_
