// The text format: everything in the IR prints, everything printed parses.
#ifndef TP_IR_TEXT_H_
#define TP_IR_TEXT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ir/module.h"

namespace tp {

// Deterministic to the byte; Print(*Parse(Print(m))) == Print(m).
std::string Print(const Module& module);
// One op on one line (without nested regions), for messages and dumps.
std::string Print(const Op& op);

// Errors (kInvalidArgument) show "file:line:column: error: ..." with the line
// and a caret under the fault. The result passed Verify.
absl::StatusOr<std::unique_ptr<Module>> Parse(llvm::StringRef text,
                                              llvm::StringRef file_name);

// Checks that uses follow definitions, names are unique, specs have one
// placement per axis whose dims and sizes fit their types, operand counts fit
// rules, and symbols are declared. Errors name the op and its location.
absl::Status Verify(const Module& module);

}  // namespace tp

#endif  // TP_IR_TEXT_H_
