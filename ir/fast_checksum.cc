#include "ir/fast_checksum.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/xxhash.h"

namespace tp {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

}  // namespace

void FastChecksum::Add(llvm::ArrayRef<uint8_t> piece) {
  uint8_t sum[8];
  llvm::support::endian::write64le(sum, llvm::xxh3_64bits(piece));
  sums_.insert(sums_.end(), sum, sum + sizeof sum);
}

void FastChecksum::Update(llvm::ArrayRef<uint8_t> bytes) {
  if (!pending_.empty()) {
    const size_t taken = std::min(bytes.size(), kPiece - pending_.size());
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + taken);
    bytes = bytes.drop_front(taken);
    if (pending_.size() < kPiece) return;
    Add(pending_);
    pending_.clear();
  }
  for (; bytes.size() >= kPiece; bytes = bytes.drop_front(kPiece))
    Add(bytes.take_front(kPiece));
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

std::string FastChecksum::FinishHex() {
  if (!pending_.empty()) Add(pending_);
  return absl::StrCat(
      absl::Hex(llvm::xxh3_64bits(llvm::ArrayRef(sums_)), absl::kZeroPad16));
}

}  // namespace tp
