// Read-only access to a file by position: small reads copied, large ones
// mapped. Only what is asked for is mapped, so that a file much larger than
// the address space a process is allowed still can be read.
#ifndef TP_IR_MAPPED_FILE_H_
#define TP_IR_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tp {

// Bytes that stay valid as long as a copy of this object lives: a mapped part
// of a file, or a buffer. Cheap to copy, safe to share between threads.
class Bytes {
 public:
  Bytes() = default;
  Bytes(const uint8_t* data, size_t size, std::shared_ptr<const void> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  // Takes over `buffer`.
  static Bytes FromString(std::string buffer);

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const uint8_t* begin() const { return data_; }
  const uint8_t* end() const { return data_ + size_; }

  // The part [offset, offset + size), which must lie inside; same owner.
  Bytes Slice(size_t offset, size_t size) const;

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

// Has the system map these pages now, all at once, which is faster than one by
// one as they are read. A hint, for what is about to be read whole.
void PopulatePages(const void* data, size_t size);

// Thread-safe after opening. The file must not be shortened while in use:
// reading a mapped page beyond its new end kills the process.
class MappedFile {
 public:
  // NotFound, PermissionDenied or InvalidArgument (a folder, a pipe) when
  // `path` cannot be opened as a regular file.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(
      const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Copies bytes [offset, offset + size) to `out`; OutOfRange when they are
  // not all inside the file, DataLoss when reading fails.
  absl::Status Read(uint64_t offset, size_t size, void* out) const;
  absl::StatusOr<std::string> Read(uint64_t offset, size_t size) const;

  // Maps bytes [offset, offset + size); the same errors, and
  // ResourceExhausted when there is no address space left.
  absl::StatusOr<Bytes> Map(uint64_t offset, size_t size) const;

 private:
  MappedFile(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}
  absl::Status CheckRange(uint64_t offset, size_t size) const;

  std::string path_;
  int fd_;
  uint64_t size_;
};

}  // namespace tp

#endif  // TP_IR_MAPPED_FILE_H_
