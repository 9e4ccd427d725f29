// Reads the zip container of a model archive, trusting nothing in it: every
// rule that an archive must keep before any other part looks at it is checked
// here, and nothing is read whole. Tensor records are mapped where they lie.
#ifndef TP_FRONTEND_ZIP_READER_H_
#define TP_FRONTEND_ZIP_READER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/mapped_file.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// What an archive may ask of memory. Stored entries need no limit of their
// own: together they cannot be larger than the file.
struct ZipLimits {
  uint64_t max_entries = uint64_t{1} << 20;
  uint64_t max_directory_bytes = uint64_t{256} << 20;
  // Compressed entries: bytes of one and of all together once inflated.
  uint64_t max_inflated_entry = uint64_t{4} << 30;
  uint64_t max_inflated_total = uint64_t{64} << 30;
  // An entry larger than `free_inflated_bytes` must not be more than
  // `max_ratio` times its compressed size. Random weights do not compress;
  // only records of zeros come near.
  uint64_t max_ratio = 200;
  uint64_t free_inflated_bytes = uint64_t{64} << 20;
};

struct ZipEntry {
  std::string name;       // with the top folder: "gpt2/data/0"
  std::string record;     // without it: "data/0"
  bool deflated = false;  // else stored
  uint32_t crc = 0;
  uint64_t compressed_size = 0;
  uint64_t size = 0;
  uint64_t data_offset = 0;  // of the first (compressed) byte in the file
  size_t index = 0;          // in entries()
};

// Thread-safe after Open. The file must not change while in use.
class ZipReader {
 public:
  static constexpr uint64_t kSmallRecord = uint64_t{256} << 20;

  // Reads the directory and checks all of: entries stored or deflated within
  // `limits`, no encryption, one disk, zip64 fields consistent, local headers
  // equal to the directory, no overlaps and nothing hidden behind the
  // directory, plain relative names (no "..", backslash or control byte, no
  // two equal when case is ignored), one top folder. InvalidArgument says
  // which rule is broken, and DataLoss that the file is cut or damaged.
  static absl::StatusOr<std::unique_ptr<ZipReader>> Open(
      const std::string& path, const ZipLimits& limits = {});

  const std::string& path() const { return file_->path(); }
  const std::string& top_folder() const { return top_folder_; }
  uint64_t file_size() const { return file_->size(); }

  // In the order of their bytes in the file.
  llvm::ArrayRef<ZipEntry> entries() const { return entries_; }

  // The entry of a record name such as "data.pkl", or null.
  const ZipEntry* Find(llvm::StringRef record) const;

  // A copy of the entry's bytes, inflated; CRC checked (DataLoss). For small
  // records: InvalidArgument above `max_bytes`. NotFound for the second form
  // when there is no such record.
  absl::StatusOr<std::string> Read(const ZipEntry& entry,
                                   uint64_t max_bytes = kSmallRecord) const;
  absl::StatusOr<std::string> Read(llvm::StringRef record,
                                   uint64_t max_bytes = kSmallRecord) const;

  // The entry's bytes: mapped when stored, a buffer when deflated. The CRC is
  // checked the first time an entry is read.
  absl::StatusOr<Bytes> View(const ZipEntry& entry) const;

  // Checks the CRC now, with little memory.
  absl::Status Verify(const ZipEntry& entry) const;

 private:
  ZipReader(std::unique_ptr<MappedFile> file, const ZipLimits& limits)
      : file_(std::move(file)), limits_(limits) {}

  absl::Status ReadDirectory();
  absl::Status CheckNames();
  absl::Status CheckSizes() const;
  absl::Status CheckLocalHeaders();
  absl::Status Inflate(const ZipEntry& entry, uint8_t* out) const;
  absl::Status CheckCrc(const ZipEntry& entry, uint64_t found) const;

  std::unique_ptr<MappedFile> file_;
  ZipLimits limits_;
  std::string top_folder_;
  std::vector<ZipEntry> entries_;
  uint64_t directory_offset_ = 0;
  llvm::StringMap<size_t> by_record_;
  std::unique_ptr<std::atomic<bool>[]> verified_;
};

}  // namespace tp

#endif  // TP_FRONTEND_ZIP_READER_H_
