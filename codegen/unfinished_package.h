// The temporary folder that a package is written to.
#ifndef TP_CODEGEN_UNFINISHED_PACKAGE_H_
#define TP_CODEGEN_UNFINISHED_PACKAGE_H_

#include <filesystem>
#include <mutex>
#include <vector>

#include "absl/status/status.h"

namespace tp {

// A writer creates the folder, fills it and installs it; until then whoever
// holds this object may abandon it, from any thread, and nothing of it stays.
// Also abandoned when it goes out of scope. For one package.
class UnfinishedPackage {
 public:
  UnfinishedPackage() = default;
  ~UnfinishedPackage() { Abandon(); }
  UnfinishedPackage(const UnfinishedPackage&) = delete;
  UnfinishedPackage& operator=(const UnfinishedPackage&) = delete;

  // Creates the folder beside `target` and the folders above it; kCancelled
  // after Abandon(), else the system's reason.
  absl::Status Create(const std::filesystem::path& target);
  const std::filesystem::path& path() const { return path_; }
  // Puts the folder in the target's place, where an old one may be.
  absl::Status Install();
  // Removes the folder, and those above it that Create() made. Waits for an
  // Install() that has begun, which then stays.
  void Abandon();
  bool abandoned() const;

 private:
  absl::Status Replace();

  mutable std::mutex mutex_;
  std::filesystem::path target_;
  std::filesystem::path path_;                  // empty: nothing to remove
  std::vector<std::filesystem::path> created_;  // the innermost first
  bool abandoned_ = false;
};

}  // namespace tp

#endif  // TP_CODEGEN_UNFINISHED_PACKAGE_H_
