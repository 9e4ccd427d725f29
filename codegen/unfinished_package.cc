#include "codegen/unfinished_package.h"

#include <unistd.h>

#include <cstdint>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/system_error.h"

namespace tp {

namespace fs = std::filesystem;

absl::Status UnfinishedPackage::Create(const fs::path& target) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (abandoned_) return absl::CancelledError("the package was abandoned");
  target_ = target;
  path_ = absl::StrCat(target.string(), ".tmp", static_cast<int64_t>(getpid()));
  std::error_code error;
  for (fs::path above = path_.parent_path();
       !above.empty() && !fs::exists(above, error); above = above.parent_path())
    created_.push_back(above);
  // Of a process of that number that was killed.
  fs::remove_all(path_, error);
  fs::create_directories(path_, error);
  if (error) return SystemError("create", path_.string(), error.value());
  return absl::OkStatus();
}

absl::Status UnfinishedPackage::Install() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (abandoned_) return absl::CancelledError("the package was abandoned");
  TP_RETURN_IF_ERROR(Replace());
  path_.clear();
  created_.clear();
  return absl::OkStatus();
}

absl::Status UnfinishedPackage::Replace() {
  std::error_code error;
  if (!fs::exists(target_, error)) {
    fs::rename(path_, target_, error);
    if (error) return SystemError("create", target_.string(), error.value());
    return absl::OkStatus();
  }
  const fs::path old = path_.string() + ".old";
  fs::rename(target_, old, error);
  if (error) return SystemError("replace", target_.string(), error.value());
  fs::rename(path_, target_, error);
  if (error) {
    std::error_code ignored;
    fs::rename(old, target_, ignored);
    return SystemError("create", target_.string(), error.value());
  }
  fs::remove_all(old, error);
  return absl::OkStatus();
}

void UnfinishedPackage::Abandon() {
  const std::lock_guard<std::mutex> lock(mutex_);
  abandoned_ = true;
  if (path_.empty()) return;
  // Under another name first: a writer that still runs can add nothing.
  const fs::path gone = path_.string() + ".gone";
  std::error_code ignored;
  fs::rename(path_, gone, ignored);
  fs::remove_all(gone, ignored);
  for (const fs::path& above : created_) fs::remove(above, ignored);
  path_.clear();
  created_.clear();
}

bool UnfinishedPackage::abandoned() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return abandoned_;
}

}  // namespace tp
