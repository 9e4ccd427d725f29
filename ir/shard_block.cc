#include "ir/shard_block.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "ir/shard_extent.h"
#include "ir/status.h"

namespace tp {
namespace {

absl::StatusOr<int64_t> Constant(const SymExpr& expr) {
  std::optional<int64_t> value = expr.AsConstant();
  if (!value)
    return absl::InvalidArgumentError(
        absl::StrCat("a placement has the symbolic size ", expr.ToString()));
  return *value;
}

// The intervals of a dim of `dim_size` that is split once.
absl::StatusOr<DimIntervals> SplitDim(const DimFactor& factor, int64_t dim_size,
                                      int64_t axis_size, int64_t coordinate) {
  const ShardExtent part = ShardExtentOf(factor.size, axis_size, coordinate);
  TP_ASSIGN_OR_RETURN(int64_t left, Constant(factor.left));
  TP_ASSIGN_OR_RETURN(int64_t size, Constant(factor.size));
  TP_ASSIGN_OR_RETURN(int64_t right, Constant(factor.right));
  TP_ASSIGN_OR_RETURN(int64_t whole, Constant(factor.dim_size()));
  TP_ASSIGN_OR_RETURN(int64_t offset, Constant(part.offset));
  TP_ASSIGN_OR_RETURN(int64_t extent, Constant(part.extent));
  if (whole != dim_size)
    return absl::InvalidArgumentError(
        absl::StrCat("a placement splits a dim of size ", whole,
                     ", the tensor's has size ", dim_size));
  DimIntervals intervals;
  for (int64_t block = 0; block < left; ++block)
    intervals.push_back({(block * size + offset) * right, extent * right});
  return intervals;
}

// Indices [from, from + extent) of the one block's dim are
// [to, to + extent) of the other's.
struct Run {
  int64_t from = 0;
  int64_t to = 0;
  int64_t extent = 0;
};

std::vector<Run> CommonRuns(const DimIntervals& from, const DimIntervals& to) {
  std::vector<Run> runs;
  size_t i = 0, j = 0;
  int64_t before_i = 0, before_j = 0;  // indices held by earlier intervals
  while (i < from.size() && j < to.size()) {
    const int64_t start = std::max(from[i].start, to[j].start);
    const int64_t from_end = from[i].start + from[i].extent;
    const int64_t to_end = to[j].start + to[j].extent;
    const int64_t extent = std::min(from_end, to_end) - start;
    if (extent > 0) {
      const Run run = {before_i + start - from[i].start,
                       before_j + start - to[j].start, extent};
      if (!runs.empty() && runs.back().from + runs.back().extent == run.from &&
          runs.back().to + runs.back().extent == run.to)
        runs.back().extent += extent;
      else
        runs.push_back(run);
    }
    if (from_end <= to_end)
      before_i += from[i++].extent;
    else
      before_j += to[j++].extent;
  }
  return runs;
}

// By dim, from the outside in. Strides are in bytes; runs of the last dim are
// contiguous on both sides.
struct CopyPlan {
  std::vector<std::vector<Run>> runs;
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
};

void CopyDims(const CopyPlan& plan, size_t dim, const char* from, char* to) {
  const int64_t from_stride = plan.from_strides[dim];
  const int64_t to_stride = plan.to_strides[dim];
  for (const Run& run : plan.runs[dim]) {
    const char* source = from + run.from * from_stride;
    char* target = to + run.to * to_stride;
    if (dim + 1 == plan.runs.size()) {
      std::memcpy(target, source,
                  static_cast<size_t>(run.extent * from_stride));
      continue;
    }
    for (int64_t i = 0; i < run.extent; ++i)
      CopyDims(plan, dim + 1, source + i * from_stride, target + i * to_stride);
  }
}

bool IsAll(const std::vector<Run>& runs, int64_t extent) {
  return runs.size() == 1 && runs[0].from == 0 && runs[0].to == 0 &&
         runs[0].extent == extent;
}

}  // namespace

absl::StatusOr<std::vector<DimIntervals>> BlockOf(
    llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<Placement> spec,
    const Mesh& mesh, int64_t rank) {
  std::vector<DimIntervals> block = WholeBlock(sizes);
  const auto coordinates = mesh.Coordinates(rank);
  std::vector<bool> split(block.size(), false);
  for (int axis = 0; axis < static_cast<int>(spec.size()); ++axis) {
    const Placement& placement = spec[axis];
    if (!placement.is_shard()) continue;
    const auto dim = static_cast<size_t>(placement.dim());
    if (dim >= block.size())
      return absl::InvalidArgumentError(
          absl::StrCat("a placement splits dim ", placement.dim(),
                       " of a tensor of ", block.size(), " dims"));
    if (split[dim])
      return absl::UnimplementedError(
          "a weight dim that is split on two mesh axes");
    split[dim] = true;
    TP_ASSIGN_OR_RETURN(block[dim],
                        SplitDim(placement.factor(), sizes[dim],
                                 mesh.axis(axis).size, coordinates[axis]));
  }
  return block;
}

llvm::SmallVector<int64_t, 4> ExtentsOf(llvm::ArrayRef<DimIntervals> block) {
  llvm::SmallVector<int64_t, 4> extents;
  for (const DimIntervals& intervals : block) {
    extents.push_back(0);
    for (const Interval& interval : intervals)
      extents.back() += interval.extent;
  }
  return extents;
}

bool HoldsFirstCopy(llvm::ArrayRef<Placement> spec, const Mesh& mesh,
                    int64_t rank) {
  const auto coordinates = mesh.Coordinates(rank);
  for (size_t axis = 0; axis < spec.size(); ++axis)
    if (spec[axis].is_replicate() && coordinates[axis] != 0) return false;
  return true;
}

int64_t CopyCommon(llvm::ArrayRef<DimIntervals> from_block, const void* from,
                   llvm::ArrayRef<DimIntervals> to_block, void* to,
                   int64_t item) {
  const auto from_extents = ExtentsOf(from_block);
  const auto to_extents = ExtentsOf(to_block);
  CopyPlan plan;
  int64_t elements = 1;
  for (size_t d = 0; d < from_block.size(); ++d) {
    plan.runs.push_back(CommonRuns(from_block[d], to_block[d]));
    int64_t common = 0;
    for (const Run& run : plan.runs.back()) common += run.extent;
    elements *= common;
  }
  if (elements == 0) return 0;
  // Inner dims that both blocks hold in full make longer elements.
  size_t ndim = plan.runs.size();
  int64_t bytes = item;
  while (ndim > 0 && from_extents[ndim - 1] == to_extents[ndim - 1] &&
         IsAll(plan.runs[ndim - 1], from_extents[ndim - 1])) {
    bytes *= from_extents[--ndim];
  }
  if (ndim == 0) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return elements;
  }
  plan.runs.resize(ndim);
  plan.from_strides.resize(ndim);
  plan.to_strides.resize(ndim);
  int64_t from_stride = bytes, to_stride = bytes;
  for (size_t d = ndim; d-- > 0;) {
    plan.from_strides[d] = from_stride;
    plan.to_strides[d] = to_stride;
    from_stride *= from_extents[d];
    to_stride *= to_extents[d];
  }
  CopyDims(plan, 0, static_cast<const char*>(from), static_cast<char*>(to));
  return elements;
}

std::vector<std::vector<DimIntervals>> SplitBlock(
    llvm::ArrayRef<DimIntervals> block, int64_t max_elements) {
  const auto extents = ExtentsOf(block);
  size_t dim = 0;
  while (dim < extents.size() && extents[dim] == 1) ++dim;
  if (dim == extents.size() || BlockElements(block) <= max_elements)
    return {block.vec()};
  int64_t per_index = 1;
  for (size_t d = dim + 1; d < extents.size(); ++d) per_index *= extents[d];
  const int64_t step =
      std::max<int64_t>(1, max_elements / std::max<int64_t>(per_index, 1));
  std::vector<std::vector<DimIntervals>> pieces;
  int64_t room = 0;  // indices the last piece can still take
  for (const Interval& interval : block[dim]) {
    for (int64_t done = 0; done < interval.extent;) {
      if (room == 0) {
        pieces.push_back(block.vec());
        pieces.back()[dim].clear();
        room = step;
      }
      const int64_t take = std::min(room, interval.extent - done);
      pieces.back()[dim].push_back({interval.start + done, take});
      done += take;
      room -= take;
    }
  }
  return pieces;
}

}  // namespace tp
