#include "runtime/shard_tensor.h"

#include <algorithm>
#include <vector>

#include "ir/shard_extent.h"
#include "ir/status.h"

namespace tp {
namespace {

// The block that one rank holds of a split dim.
struct PartBox {
  int64_t left = 1;
  int64_t size = 1;
  int64_t right = 1;
  int64_t offset = 0;
  int64_t extent = 0;
};

absl::StatusOr<PartBox> BoxOf(const Placement& placement, int64_t axis_size,
                              int64_t coordinate, const SymbolValues& sizes) {
  const DimFactor& factor = placement.factor();
  PartBox box;
  TP_ASSIGN_OR_RETURN(box.left, factor.left.Evaluate(sizes));
  TP_ASSIGN_OR_RETURN(box.size, factor.size.Evaluate(sizes));
  TP_ASSIGN_OR_RETURN(box.right, factor.right.Evaluate(sizes));
  const ShardExtent extent =
      ShardExtentOf(SymExpr(box.size), axis_size, coordinate);
  box.offset = extent.offset.constant();
  box.extent = extent.extent.constant();
  return box;
}

at::Tensor Narrow(const at::Tensor& tensor, int dim, const PartBox& box) {
  return tensor.unflatten(dim, {box.left, box.size, box.right})
      .narrow(dim + 1, box.offset, box.extent);
}

}  // namespace

bool IsWhole(const ShardingSpec& spec) {
  return llvm::none_of(spec, [](const Placement& p) { return p.is_shard(); });
}

absl::StatusOr<at::Tensor> ShardOf(const at::Tensor& whole,
                                   const ShardingSpec& spec, const Mesh& mesh,
                                   int rank, const SymbolValues& sizes) {
  at::Tensor part = whole;
  const auto coordinates = mesh.Coordinates(rank);
  for (size_t axis = 0; axis < spec.size(); ++axis) {
    if (!spec[axis].is_shard()) continue;
    const int64_t axis_size = mesh.axis(static_cast<int>(axis)).size;
    TP_ASSIGN_OR_RETURN(PartBox box,
                        BoxOf(spec[axis], axis_size, coordinates[axis], sizes));
    const int dim = spec[axis].dim();
    part = Narrow(part, dim, box).flatten(dim, dim + 2);
  }
  return part.contiguous();
}

absl::StatusOr<at::Tensor> Assemble(
    const TensorType& whole, const ShardingSpec& spec, const Mesh& mesh,
    const SymbolValues& sizes, llvm::function_ref<at::Tensor(int rank)> part) {
  if (IsWhole(spec)) return part(0);
  std::vector<int64_t> dims;
  for (const SymExpr& dim : whole.dims) {
    TP_ASSIGN_OR_RETURN(int64_t size, dim.Evaluate(sizes));
    dims.push_back(size);
  }
  // The last dims first: taking one apart moves those behind it.
  std::vector<int> axes;
  for (size_t axis = 0; axis < spec.size(); ++axis) {
    if (spec[axis].is_shard()) axes.push_back(static_cast<int>(axis));
  }
  std::sort(axes.begin(), axes.end(),
            [&](int a, int b) { return spec[a].dim() > spec[b].dim(); });
  at::Tensor result = at::empty(dims, part(0).options());
  for (int rank = 0; rank < static_cast<int>(mesh.num_ranks()); ++rank) {
    const auto coordinates = mesh.Coordinates(rank);
    at::Tensor piece = part(rank);
    at::Tensor place = result;
    for (int axis : axes) {
      TP_ASSIGN_OR_RETURN(PartBox box, BoxOf(spec[axis], mesh.axis(axis).size,
                                             coordinates[axis], sizes));
      const int dim = spec[axis].dim();
      place = Narrow(place, dim, box);
      piece = piece.unflatten(dim, {box.left, box.extent, box.right});
    }
    if (piece.numel() > 0) place.copy_(piece);
  }
  return result;
}

}  // namespace tp
