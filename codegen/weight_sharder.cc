#include "codegen/weight_sharder.h"

#include "absl/strings/str_cat.h"
#include "ir/safetensors.h"
#include "ir/shard_block.h"
#include "ir/status.h"
#include "llvm/ADT/StringSet.h"

namespace tp {
namespace {

absl::StatusOr<int64_t> Constant(const SymExpr& expr) {
  std::optional<int64_t> value = expr.AsConstant();
  if (!value)
    return absl::InternalError(
        absl::StrCat("a weight has the symbolic size ", expr.ToString()));
  return *value;
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
  return BlockOf(sizes, weight.spec(), mesh, rank);
}

absl::StatusOr<RankWeights> WriteRankWeights(const Module& planned,
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
  llvm::StringSet<> seen;
  for (const auto& function : planned.functions()) {
    for (size_t i = 0; i < function->arguments().size(); ++i) {
      const ArgumentInfo& argument = function->arguments()[i];
      if (!argument.is_weight() || !seen.insert(argument.name).second) continue;
      TP_ASSIGN_OR_RETURN(const WeightInfo* info, source.Get(argument.name));
      TP_ASSIGN_OR_RETURN(
          std::vector<DimIntervals> block,
          BlockOf(*function->body().arguments()[i], planned.mesh(), rank));
      TP_RETURN_IF_ERROR(
          writer->Declare(argument.name, info->dtype, ExtentsOf(block)));
      items.push_back({info, std::move(block)});
    }
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
  written.checksum = writer->checksum();
  return written;
}

}  // namespace tp
