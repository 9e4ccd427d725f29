#include "ir/durable_file.h"

#include <fcntl.h>
#include <stdio.h>  // renameat2, RENAME_EXCHANGE
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ir/status.h"
#include "ir/system_error.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }
  int Close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

absl::Status WriteAndSync(const std::string& path, llvm::StringRef text) {
  OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.fd() < 0) return SystemError("create", path, errno);
  while (!text.empty()) {
    const ssize_t done = ::write(file.fd(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return SystemError("write", path, errno);
    text = text.drop_front(static_cast<size_t>(done));
  }
  if (::fsync(file.fd()) != 0) return SystemError("sync", path, errno);
  if (file.Close() != 0) return SystemError("close", path, errno);
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

absl::Status WriteDurably(const std::string& path, llvm::StringRef text) {
  const std::string temporary = path + ".tmp";
  absl::Status status = WriteAndSync(temporary, text);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    status = SystemError("create", path, errno);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncFolder(FolderOf(path));
}

absl::Status SyncFolder(const std::string& folder) {
  OpenFile opened(folder, O_RDONLY | O_DIRECTORY);
  if (opened.fd() < 0) return SystemError("open", folder, errno);
  // Some file systems cannot sync folders and say so.
  if (::fsync(opened.fd()) != 0 && errno != EINVAL && errno != EROFS)
    return SystemError("sync", folder, errno);
  return absl::OkStatus();
}

absl::Status InstallFolder(const std::string& from, const std::string& to) {
  TP_RETURN_IF_ERROR(SyncFolder(from));
  std::error_code error;
  if (!fs::exists(to, error)) {
    if (::rename(from.c_str(), to.c_str()) != 0)
      return SystemError("create", to, errno);
    return SyncFolder(FolderOf(to));
  }
  // Exchanging leaves no moment without a folder at `to`. Where the file
  // system cannot, the old one keeps another name until the new one is there.
  std::string old = from;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                  RENAME_EXCHANGE) != 0) {
    old = to + ".old";
    fs::remove_all(old, error);
    if (::rename(to.c_str(), old.c_str()) != 0)
      return SystemError("replace", to, errno);
    if (::rename(from.c_str(), to.c_str()) != 0) {
      const int reason = errno;
      ::rename(old.c_str(), to.c_str());
      return SystemError("create", to, reason);
    }
  }
  TP_RETURN_IF_ERROR(SyncFolder(FolderOf(to)));
  fs::remove_all(old, error);
  if (error) return SystemError("remove", old, error.value());
  return absl::OkStatus();
}

}  // namespace tp
