// SHA-256 of text, and small files read and written whole.
#ifndef TP_IR_FILE_DIGEST_H_
#define TP_IR_FILE_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// Lower-case hex.
std::string Sha256Hex(llvm::StringRef bytes);

// Writes and flushes a file; kUnavailable with the system's reason (disk
// full, no permission).
absl::Status WriteTextFile(const std::string& path, llvm::StringRef text);
// kNotFound, or kUnavailable with the system's reason.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace tp

#endif  // TP_IR_FILE_DIGEST_H_
