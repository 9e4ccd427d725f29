// What manifest.json says of a package, and whether the files beside it are
// the ones it was written with.
#ifndef TP_IR_PACKAGE_MANIFEST_H_
#define TP_IR_PACKAGE_MANIFEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/model_argument.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

namespace tp {

// The format that this version writes and reads.
inline constexpr int64_t kPackageFormatVersion = 1;

class PackageManifest {
 public:
  // kNotFound for a folder without a manifest, kFailedPrecondition for
  // another format version, kInvalidArgument for a file that is no manifest.
  static absl::StatusOr<PackageManifest> Read(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const llvm::json::Object& root() const { return *json_.getAsObject(); }
  // Of a file of the package.
  std::string Path(llvm::StringRef name) const;

  // Of the model, by position; none if the manifest does not say. Of the first
  // entry if no name is given.
  std::vector<ModelArgument> Arguments(llvm::StringRef entry = "") const;
  // Names of the entries; those of a training package's backward pass too.
  std::vector<std::string> Entries() const;

  // kDataLoss if the file `name` was written with another size or SHA-256
  // (hex), kInvalidArgument if the manifest does not know it.
  absl::Status CheckSize(llvm::StringRef name, uint64_t bytes) const;
  absl::Status CheckHash(llvm::StringRef name, llvm::StringRef sha256) const;
  // Of a large file on the disk: its size and, with `content`, its checksum,
  // or its SHA-256 where the manifest has no checksum of it.
  absl::Status CheckFile(llvm::StringRef name, bool content) const;
  // The text of a file that passes both.
  absl::StatusOr<std::string> ReadText(llvm::StringRef name) const;

  // kDataLoss: the file is not the one tp-compile wrote.
  absl::Status Differs(llvm::StringRef name, llvm::StringRef how) const;
  // kInvalidArgument: the manifest itself is wrong.
  absl::Status Bad(llvm::StringRef what) const;

 private:
  struct FileEntry {
    std::string sha256;
    std::string checksum;
    uint64_t bytes = 0;
  };

  explicit PackageManifest(std::string directory)
      : directory_(std::move(directory)), json_(nullptr) {}
  absl::Status CheckVersion() const;
  absl::Status ReadFiles();
  absl::StatusOr<const FileEntry*> EntryOf(llvm::StringRef name) const;

  std::string directory_;
  llvm::json::Value json_;
  llvm::StringMap<FileEntry> files_;
};

// Whether a text is the manifest of a package, of any version. Other programs
// have files of that name too; ours says how its programs fit together.
bool IsPackageManifest(llvm::StringRef text);

}  // namespace tp

#endif  // TP_IR_PACKAGE_MANIFEST_H_
