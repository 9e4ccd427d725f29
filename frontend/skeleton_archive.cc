#include "frontend/skeleton_archive.h"

#include <zlib.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/StringRef.h"

namespace tp {
namespace {

using llvm::StringRef;

// Enough for one element of any dtype.
constexpr size_t kWeightRecordBytes = 64;
// PyTorch's writer starts every record at a multiple of this.
constexpr size_t kAlignment = 64;

// Appends stored entries to a zip archive in memory.
class ZipBuilder {
 public:
  void Add(StringRef name, StringRef data);
  std::string Finish();

 private:
  static void Put(std::string& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      out += static_cast<char>((value >> (8 * i)) & 0xff);
  }
  // What the local and the central header have in common.
  static void PutCommon(std::string& out, uint32_t crc, size_t size,
                        size_t name_size, size_t extra_size);

  std::string out_;
  std::string directory_;
  uint64_t entries_ = 0;
};

void ZipBuilder::PutCommon(std::string& out, uint32_t crc, size_t size,
                           size_t name_size, size_t extra_size) {
  Put(out, 0, 2);           // version needed
  Put(out, 1 << 11, 2);     // the name is UTF-8
  Put(out, 0, 2);           // stored
  Put(out, 0x21 << 16, 4);  // 1980-01-01 00:00
  Put(out, crc, 4);
  Put(out, size, 4);
  Put(out, size, 4);
  Put(out, name_size, 2);
  Put(out, extra_size, 2);
}

void ZipBuilder::Add(StringRef name, StringRef data) {
  const size_t header = out_.size();
  const size_t fixed = 30 + name.size() + 4;
  const size_t padding =
      (kAlignment - (header + fixed) % kAlignment) % kAlignment;
  const auto crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
  Put(out_, 0x04034b50, 4);
  PutCommon(out_, crc, data.size(), name.size(), 4 + padding);
  out_ += name;
  out_ += "FB";  // the tag that PyTorch gives its padding
  Put(out_, padding, 2);
  out_.append(padding, 'Z');
  out_ += data;

  Put(directory_, 0x02014b50, 4);
  Put(directory_, 0, 2);  // version made by
  PutCommon(directory_, crc, data.size(), name.size(), 0);
  Put(directory_, 0, 2);  // comment size
  Put(directory_, 0, 2);  // disk
  Put(directory_, 0, 6);  // attributes
  Put(directory_, header, 4);
  directory_ += name;
  ++entries_;
}

std::string ZipBuilder::Finish() {
  const uint64_t offset = out_.size();
  const uint64_t size = directory_.size();
  out_ += directory_;
  const uint64_t end64 = out_.size();
  // Always with the 64-bit form, as there may be more than 65535 entries.
  Put(out_, 0x06064b50, 4);
  Put(out_, 44, 8);
  Put(out_, 45, 2);
  Put(out_, 45, 2);
  Put(out_, 0, 8);  // disks
  Put(out_, entries_, 8);
  Put(out_, entries_, 8);
  Put(out_, size, 8);
  Put(out_, offset, 8);
  Put(out_, 0x07064b50, 4);
  Put(out_, 0, 4);
  Put(out_, end64, 8);
  Put(out_, 1, 4);
  const uint64_t short_count = entries_ < 0xffff ? entries_ : 0xffff;
  Put(out_, 0x06054b50, 4);
  Put(out_, 0, 4);  // disks
  Put(out_, short_count, 2);
  Put(out_, short_count, 2);
  Put(out_, size, 4);
  Put(out_, offset, 4);
  Put(out_, 0, 2);  // comment
  return std::move(out_);
}

enum class Treatment { kLeaveOut, kCopy, kPickle, kWeight, kConstant };

Treatment TreatmentOf(StringRef record) {
  if (record == "data.pkl") return Treatment::kPickle;
  if (record.starts_with("data/")) return Treatment::kWeight;
  if (record.starts_with("constants/")) return Treatment::kConstant;
  if (record == "constants.pkl" || record == "version" ||
      record == "byteorder" || record.starts_with(".data/"))
    return Treatment::kCopy;
  if (record.starts_with("code/") &&
      (record.ends_with(".py") || record.ends_with(".debug_pkl")))
    return Treatment::kCopy;
  return Treatment::kLeaveOut;
}

}  // namespace

absl::StatusOr<std::string> BuildSkeleton(const CheckedArchive& archive,
                                          const SkeletonOptions& options) {
  const ZipReader& zip = *archive.zip;
  const std::string nothing(kWeightRecordBytes, '\0');
  ZipBuilder builder;
  uint64_t constant_bytes = 0;
  for (const ZipEntry& entry : zip.entries()) {
    const Treatment treatment = TreatmentOf(entry.record);
    std::string bytes;
    switch (treatment) {
      case Treatment::kLeaveOut:
        continue;
      case Treatment::kPickle:
        bytes = SkeletonPickle(archive.data_pickle, archive.data);
        break;
      case Treatment::kWeight:
        bytes = nothing;
        break;
      case Treatment::kConstant:
        constant_bytes += entry.size;
        if (constant_bytes > options.max_constant_bytes)
          return absl::UnimplementedError(absl::StrCat(
              zip.path(), ": the graph's constants have more than ",
              options.max_constant_bytes,
              " bytes; torch.jit.freeze turns weights into nameless constants: "
              "save the model without freezing it"));
        [[fallthrough]];
      case Treatment::kCopy:
        TP_ASSIGN_OR_RETURN(bytes, zip.Read(entry));
        break;
    }
    builder.Add(entry.name, bytes);
  }
  return builder.Finish();
}

}  // namespace tp
