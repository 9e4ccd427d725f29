// Status macros (Debian's Abseil has none) and the error categories that
// become exit codes.
#ifndef TP_IR_STATUS_H_
#define TP_IR_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define TP_STATUS_CONCAT_INNER(a, b) a##b
#define TP_STATUS_CONCAT(a, b) TP_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expr` is a non-OK absl::Status.
#define TP_RETURN_IF_ERROR(expr)                         \
  do {                                                   \
    if (absl::Status tp_status = (expr); !tp_status.ok()) \
      return tp_status;                                  \
  } while (false)

// Declares/assigns `lhs` from an absl::StatusOr, or returns its status.
#define TP_ASSIGN_OR_RETURN(lhs, expr) \
  TP_ASSIGN_OR_RETURN_INNER(           \
      TP_STATUS_CONCAT(tp_status_or_, __LINE__), lhs, expr)
#define TP_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return std::move(tmp).status();  \
  lhs = std::move(tmp).value()

namespace tp {

// Exit codes of every program (see the command-line contract). A status maps
// to one by its code:
//   kInvalidArgument, kDataLoss, kNotFound, kAlreadyExists,
//   kPermissionDenied, kFailedPrecondition, kOutOfRange -> kBadInput
//   kUnimplemented -> kUnsupported        kDeadlineExceeded -> kTimeout
//   kResourceExhausted -> kOutOfMemory    kAborted -> kRankDied
//   anything else -> kRunError
// Usage errors and failed verifications are reported by the tools themselves.
enum class ExitCode {
  kOk = 0,
  kRunError = 1,
  kUsage = 2,
  kBadInput = 3,
  kUnsupported = 4,
  kVerificationFailed = 5,
  kRankDied = 6,
  kTimeout = 7,
  kOutOfMemory = 8,
};

ExitCode ExitCodeOf(const absl::Status& status);

// Same code, "context: message". OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// Prints `what` (usually an op) and aborts: for broken invariants only, never
// for bad input.
[[noreturn]] void InternalError(std::string_view what, const char* file,
                                int line);

}  // namespace tp

// Aborts with the text when an invariant of ours is broken.
#define TP_CHECK(condition, what)                                  \
  do {                                                             \
    if (!(condition)) ::tp::InternalError(what, __FILE__, __LINE__); \
  } while (false)

#endif  // TP_IR_STATUS_H_
