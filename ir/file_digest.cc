#include "ir/file_digest.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "ir/sha256.h"
#include "ir/system_error.h"

namespace tp {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

}  // namespace

std::string Sha256Hex(llvm::StringRef bytes) {
  Sha256 hasher;
  hasher.Update(bytes);
  return hasher.FinishHex();
}

absl::Status WriteTextFile(const std::string& path, llvm::StringRef text) {
  File file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return SystemError("create", path, errno);
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
      std::fflush(file.get()) != 0)
    return SystemError("write", path, errno);
  if (std::fclose(file.release()) != 0)
    return SystemError("write", path, errno);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return SystemError("open", path, errno);
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (size_t read =
             std::fread(buffer.data(), 1, buffer.size(), file.get()))
    text.append(buffer.data(), read);
  if (std::ferror(file.get())) return SystemError("read", path, errno);
  return text;
}

}  // namespace tp
