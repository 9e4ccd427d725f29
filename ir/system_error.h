// What the system says of a file, as a Status.
#ifndef TP_IR_SYSTEM_ERROR_H_
#define TP_IR_SYSTEM_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// "cannot <action> <path>: <reason>" of an errno: kNotFound,
// kInvalidArgument (a folder), kPermissionDenied, or kUnavailable, which says
// what to do where a disk is full.
absl::Status SystemError(llvm::StringRef action, const std::string& path,
                         int error);

}  // namespace tp

#endif  // TP_IR_SYSTEM_ERROR_H_
