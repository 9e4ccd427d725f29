#include "ir/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

absl::Status OpenError(const std::string& path, int error) {
  std::string message =
      absl::StrCat("cannot open ", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM)
    return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

}  // namespace

Bytes Bytes::FromString(std::string buffer) {
  auto owner = std::make_shared<const std::string>(std::move(buffer));
  const auto* data = reinterpret_cast<const uint8_t*>(owner->data());
  size_t size = owner->size();
  return Bytes(data, size, std::move(owner));
}

Bytes Bytes::Slice(size_t offset, size_t size) const {
  TP_CHECK(offset <= size_ && size <= size_ - offset, "slice out of range");
  return Bytes(data_ + offset, size, owner_);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(
    const std::string& path) {
  // Non-blocking, so that a named pipe given by mistake does not hang.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return OpenError(path, errno);
  struct stat info;
  if (::fstat(fd, &info) != 0) {
    int error = errno;
    ::close(fd);
    return OpenError(path, error);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return absl::InvalidArgumentError(absl::StrCat(
        path, S_ISDIR(info.st_mode) ? " is a folder" : " is not a regular file",
        "; give the path of a file"));
  }
  return std::unique_ptr<MappedFile>(
      new MappedFile(path, fd, static_cast<uint64_t>(info.st_size)));
}

void PopulatePages(const void* data, size_t size) {
#ifdef MADV_POPULATE_READ
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(data) + size;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
#else
  static_cast<void>(data);
  static_cast<void>(size);
#endif
}

MappedFile::~MappedFile() { ::close(fd_); }

absl::Status MappedFile::CheckRange(uint64_t offset, size_t size) const {
  if (offset <= size_ && size <= size_ - offset) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(path_, ": ", size, " bytes at ", offset,
                   " reach beyond the end of the file (", size_, " bytes)"));
}

absl::Status MappedFile::Read(uint64_t offset, size_t size, void* out) const {
  TP_RETURN_IF_ERROR(CheckRange(offset, size));
  char* next = static_cast<char*>(out);
  while (size > 0) {
    ssize_t got = ::pread(fd_, next, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrCat(
          path_, ": reading at ", offset,
          " failed: ", got < 0 ? std::strerror(errno) : "end of file"));
    }
    next += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MappedFile::Read(uint64_t offset,
                                             size_t size) const {
  TP_RETURN_IF_ERROR(CheckRange(offset, size));
  std::string out(size, '\0');
  TP_RETURN_IF_ERROR(Read(offset, size, out.data()));
  return out;
}

absl::StatusOr<Bytes> MappedFile::Map(uint64_t offset, size_t size) const {
  TP_RETURN_IF_ERROR(CheckRange(offset, size));
  if (size == 0) return Bytes();
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t start = offset / page * page;
  const size_t skip = static_cast<size_t>(offset - start);
  const size_t length = size + skip;
  void* address = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd_,
                         static_cast<off_t>(start));
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": cannot map ", size, " bytes at ", offset, ": ",
                     std::strerror(errno)));
  }
  std::shared_ptr<const void> owner(address, [length](const void* p) {
    ::munmap(const_cast<void*>(p), length);
  });
  return Bytes(static_cast<const uint8_t*>(address) + skip, size,
               std::move(owner));
}

}  // namespace tp
