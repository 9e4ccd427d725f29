#include "ir/system_error.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tp {

absl::Status SystemError(llvm::StringRef action, const std::string& path,
                         int error) {
  const std::string text = absl::StrCat("cannot ", action.str(), " ", path,
                                        ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EISDIR:
      return absl::InvalidArgumentError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
      return absl::UnavailableError(
          absl::StrCat(text, "; free some space or write to another disk"));
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace tp
