#include "runtime/shard_tensor.h"

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
  if (mesh.ndim() != 1) {
    return absl::UnimplementedError(
        "tensors on a mesh of several axes are not put together yet");
  }
  std::vector<int64_t> dims;
  for (const SymExpr& dim : whole.dims) {
    TP_ASSIGN_OR_RETURN(int64_t size, dim.Evaluate(sizes));
    dims.push_back(size);
  }
  at::Tensor result = at::empty(dims, part(0).options());
  const int64_t ranks = mesh.num_ranks();
  const int dim = spec[0].dim();
  for (int rank = 0; rank < ranks; ++rank) {
    TP_ASSIGN_OR_RETURN(PartBox box, BoxOf(spec[0], ranks, rank, sizes));
    const at::Tensor piece = part(rank);
    if (piece.numel() == 0) continue;
    Narrow(result, dim, box)
        .copy_(piece.unflatten(dim, {box.left, box.extent, box.right}));
  }
  return result;
}

}  // namespace tp
