#include "codegen/weight_sharder.h"

#include "absl/strings/str_cat.h"
#include "ir/safetensors.h"
#include "ir/shard_extent.h"
#include "ir/status.h"

namespace tp {
namespace {

absl::StatusOr<int64_t> Constant(const SymExpr& expr) {
  std::optional<int64_t> value = expr.AsConstant();
  if (!value)
    return absl::InternalError(
        absl::StrCat("a weight has the symbolic size ", expr.ToString()));
  return *value;
}

// The intervals of a dim that is split once.
absl::StatusOr<DimIntervals> SplitDim(const DimFactor& factor,
                                      int64_t axis_size, int64_t coordinate) {
  const ShardExtent part =
      ShardExtentOf(factor.size, axis_size, coordinate);
  TP_ASSIGN_OR_RETURN(int64_t left, Constant(factor.left));
  TP_ASSIGN_OR_RETURN(int64_t size, Constant(factor.size));
  TP_ASSIGN_OR_RETURN(int64_t right, Constant(factor.right));
  TP_ASSIGN_OR_RETURN(int64_t offset, Constant(part.offset));
  TP_ASSIGN_OR_RETURN(int64_t extent, Constant(part.extent));
  DimIntervals intervals;
  for (int64_t block = 0; block < left; ++block)
    intervals.push_back(
        {(block * size + offset) * right, extent * right});
  return intervals;
}

}  // namespace

absl::StatusOr<std::vector<DimIntervals>> BlockOf(const Value& weight,
                                                  const Mesh& mesh,
                                                  int64_t rank) {
  llvm::SmallVector<int64_t, 4> sizes;
  for (const SymExpr& dim : weight.type().dims) {
    TP_ASSIGN_OR_RETURN(int64_t size, Constant(dim));
    sizes.push_back(size);
  }
  std::vector<DimIntervals> block = WholeBlock(sizes);
  const auto coordinates = mesh.Coordinates(rank);
  std::vector<bool> split(block.size(), false);
  for (int axis = 0; axis < static_cast<int>(weight.spec().size()); ++axis) {
    const Placement& placement = weight.spec()[axis];
    if (!placement.is_shard()) continue;
    if (split[placement.dim()])
      return absl::UnimplementedError(
          "a weight dim that is split on two mesh axes");
    split[placement.dim()] = true;
    TP_ASSIGN_OR_RETURN(block[placement.dim()],
                        SplitDim(placement.factor(), mesh.axis(axis).size,
                                 coordinates[axis]));
  }
  return block;
}

absl::StatusOr<RankWeights> WriteRankWeights(const Module& planned,
                                             const Function& function,
                                             int64_t rank,
                                             const WeightSource& source,
                                             const std::string& path) {
  struct Item {
    const WeightInfo* info;
    std::vector<DimIntervals> block;
  };
  TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                      SafetensorsWriter::Create(path));
  RankWeights written;
  std::vector<Item> items;
  for (size_t i = 0; i < function.arguments().size(); ++i) {
    const ArgumentInfo& argument = function.arguments()[i];
    if (!argument.is_weight()) continue;
    TP_ASSIGN_OR_RETURN(const WeightInfo* info, source.Get(argument.name));
    TP_ASSIGN_OR_RETURN(
        std::vector<DimIntervals> block,
        BlockOf(*function.body().arguments()[i], planned.mesh(), rank));
    llvm::SmallVector<int64_t, 4> sizes;
    for (const DimIntervals& intervals : block) {
      sizes.push_back(0);
      for (const Interval& interval : intervals)
        sizes.back() += interval.extent;
    }
    TP_RETURN_IF_ERROR(writer->Declare(argument.name, info->dtype, sizes));
    items.push_back({info, std::move(block)});
  }
  std::vector<char> buffer;
  for (const Item& item : items) {
    TP_ASSIGN_OR_RETURN(Bytes storage, source.View(*item.info));
    buffer.resize(BlockElements(item.block) * ByteSize(item.info->dtype));
    TP_RETURN_IF_ERROR(Annotate(CopyBlock(*item.info, storage, item.block,
                                          buffer.data(), buffer.size()),
                                item.info->name));
    TP_RETURN_IF_ERROR(writer->Append(buffer.data(), buffer.size()));
    written.tensor_bytes += static_cast<int64_t>(buffer.size());
  }
  TP_RETURN_IF_ERROR(writer->Finish());
  written.file_bytes = static_cast<int64_t>(writer->file_size());
  written.sha256 = writer->sha256();
  return written;
}

}  // namespace tp
