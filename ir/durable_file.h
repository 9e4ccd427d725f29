// Files and folders that are complete on the disk or not there at all,
// whatever interrupts the program or the machine.
#ifndef TP_IR_DURABLE_FILE_H_
#define TP_IR_DURABLE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// Errors name the path and the system's reason: kNotFound, kPermissionDenied,
// kUnavailable (a full disk).

// Writes `path`.tmp, waits for the disk, renames it to `path`.
absl::Status WriteDurably(const std::string& path, llvm::StringRef text);

// Waits until the names in a folder are on the disk.
absl::Status SyncFolder(const std::string& folder);

// Makes the finished folder `from` appear as `to`, beside it, in one step. A
// folder that was at `to` is gone afterwards. Waits for the disk.
absl::Status InstallFolder(const std::string& from, const std::string& to);

}  // namespace tp

#endif  // TP_IR_DURABLE_FILE_H_
