#include "ir/sharded_files.h"

#include "absl/strings/str_cat.h"
#include "ir/shard_block.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;

bool Fits(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<DimIntervals> block) {
  if (block.size() != sizes.size()) return false;
  for (size_t d = 0; d < block.size(); ++d)
    for (const Interval& part : block[d])
      if (part.start < 0 || part.extent < 0 ||
          part.extent > sizes[d] - part.start)
        return false;
  return true;
}

}  // namespace

bool ShardedTensor::HasOwnValues() const {
  return llvm::any_of(spec, [](const Placement& p) { return p.is_partial(); });
}

int64_t ShardedTensor::NumBytes() const {
  return BlockElements(WholeBlock(sizes)) * ByteSize(dtype);
}

absl::Status ShardedFiles::Check(const ShardedTensor& tensor) const {
  for (int64_t rank = 0; rank < mesh_.num_ranks(); ++rank) {
    if (!HoldsFirstCopy(tensor.spec, mesh_, rank)) continue;
    const SafetensorsFile& file = *files_[static_cast<size_t>(rank)];
    const WeightInfo* stored = file.Find(tensor.key);
    if (stored == nullptr)
      return absl::DataLossError(
          absl::StrCat(file.path(), " has no tensor ", tensor.key));
    TP_ASSIGN_OR_RETURN(std::vector<DimIntervals> block,
                        BlockOf(tensor.sizes, tensor.spec, mesh_, rank));
    if (stored->dtype != tensor.dtype || stored->sizes != ExtentsOf(block))
      return absl::DataLossError(absl::StrCat(file.path(), ": tensor ",
                                              tensor.key,
                                              " has another dtype or shape "
                                              "than the part of rank ",
                                              rank));
  }
  return absl::OkStatus();
}

absl::Status ShardedFiles::ReadBlock(const ShardedTensor& tensor,
                                     llvm::ArrayRef<DimIntervals> block,
                                     void* out, size_t out_bytes) const {
  if (tensor.HasOwnValues())
    return absl::FailedPreconditionError(
        absl::StrCat(tensor.key,
                     ": every rank has a value of its own, which means nothing "
                     "on another mesh"));
  const int64_t item = ByteSize(tensor.dtype);
  if (!Fits(tensor.sizes, block) ||
      static_cast<uint64_t>(BlockElements(block) * item) != out_bytes)
    return absl::InvalidArgumentError(absl::StrCat(
        tensor.key, ": the block does not fit the tensor or the room"));
  int64_t copied = 0;
  for (int64_t rank = 0; rank < mesh_.num_ranks(); ++rank) {
    if (!HoldsFirstCopy(tensor.spec, mesh_, rank)) continue;
    TP_ASSIGN_OR_RETURN(std::vector<DimIntervals> held,
                        BlockOf(tensor.sizes, tensor.spec, mesh_, rank));
    TP_ASSIGN_OR_RETURN(Bytes bytes, ReadOwn(tensor, rank));
    if (bytes.size() != static_cast<uint64_t>(BlockElements(held) * item))
      return Check(tensor);
    copied += CopyCommon(held, bytes.data(), block, out, item);
  }
  if (copied != BlockElements(block))
    return absl::InternalError(absl::StrCat(
        tensor.key, ": the parts of the ranks do not make up the tensor"));
  return absl::OkStatus();
}

absl::StatusOr<Bytes> ShardedFiles::ReadOwn(const ShardedTensor& tensor,
                                            int64_t rank) const {
  const auto index = static_cast<size_t>(rank);
  const WeightInfo* stored = rank >= 0 && index < files_.size()
                                 ? files_[index]->Find(tensor.key)
                                 : nullptr;
  if (stored == nullptr)
    return absl::NotFoundError(
        absl::StrCat("rank ", rank, " stores nothing of ", tensor.key));
  return files_[index]->View(*stored);
}

absl::Status ShardedFiles::Stream(
    const ShardedTensor& tensor, llvm::ArrayRef<DimIntervals> block,
    llvm::function_ref<absl::Status(const void* data, size_t size)> take)
    const {
  const int64_t item = ByteSize(tensor.dtype);
  std::vector<char> buffer;
  for (const std::vector<DimIntervals>& piece :
       SplitBlock(block, kPieceBytes / item)) {
    buffer.resize(static_cast<size_t>(BlockElements(piece) * item));
    TP_RETURN_IF_ERROR(ReadBlock(tensor, piece, buffer.data(), buffer.size()));
    TP_RETURN_IF_ERROR(take(buffer.data(), buffer.size()));
  }
  return absl::OkStatus();
}

}  // namespace tp
