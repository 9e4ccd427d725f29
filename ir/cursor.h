// Reads the words of the text format, one at a time, and makes errors that
// show the line.
#ifndef TP_IR_CURSOR_H_
#define TP_IR_CURSOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/sym_expr.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SourceMgr.h"

namespace tp {

// Spaces, line breaks and comments (// to the end of the line) separate words
// and mean nothing else. Every reading function skips those in front of what
// it reads.
class Cursor {
 public:
  Cursor(llvm::StringRef text, llvm::StringRef file_name);

  // The start of the next word.
  const char* position();
  bool AtEnd();
  // The character that comes next (0 at the end), and the one `offset`
  // characters behind it.
  char Peek(size_t offset = 0);
  // Moves on by `count` characters, which must be there.
  void Skip(size_t count);
  // Everything from the next word on.
  llvm::StringRef Rest();

  // Reads exactly this punctuation or word (a word must end there).
  bool Consume(llvm::StringRef expected);
  absl::Status Expect(llvm::StringRef expected);

  // The identifier that comes next, without reading it; "" if none does.
  llvm::StringRef PeekIdentifier();
  // `what` names the missing thing in the error.
  absl::StatusOr<std::string> ReadIdentifier(llvm::StringRef what);
  absl::StatusOr<std::string> ReadString();
  // An integer in [0, max], decimal.
  absl::StatusOr<int64_t> ReadInteger(int64_t max = INT64_MAX);
  // The whole expression stands on one line.
  absl::StatusOr<SymExpr> ReadSymExpr();
  // Whether a number comes next that is no integer: 1.5, -1e-05, inf, nan.
  bool PeekFloat();
  absl::StatusOr<double> ReadFloat();

  // kInvalidArgument: "file:line:column: error: ...", the line and a caret.
  absl::Status Error(const std::string& message) {
    return ErrorAt(position(), message);
  }
  absl::Status ErrorAt(const char* position, const std::string& message) const;
  // "expected X, found Y".
  absl::Status ErrorExpected(llvm::StringRef expected);

 private:
  void SkipSpace();

  llvm::SourceMgr sources_;
  const char* position_;
  const char* end_;
};

}  // namespace tp

#endif  // TP_IR_CURSOR_H_
