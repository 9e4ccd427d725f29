// Reads a user's plan (YAML) into rules.
#ifndef TP_FRONTEND_CONFIG_READER_H_
#define TP_FRONTEND_CONFIG_READER_H_

#include <string>

#include "absl/status/statusor.h"
#include "ir/user_rules.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// Rules in order of the text; unknown keys, other types and malformed states
// are errors (kInvalidArgument) with file, line, column and a caret:
//
//   rules:
//     - search: 'attn\.c_attn\.weight'     a regular expression, or
//       name: h.0.attn.c_attn.weight       a whole name
//       state: split 1 groups=3 chunk=12   or: replicate
//       optional: true                     may match nothing
//
// A plan.yaml that tp-compile wrote is read too: its `weights` are rules by
// name; its `values` are for people and follow from the weights.
absl::StatusOr<UserRules> ParseConfig(llvm::StringRef text,
                                      const std::string& file);
absl::StatusOr<UserRules> ReadConfig(const std::string& path);

}  // namespace tp

#endif  // TP_FRONTEND_CONFIG_READER_H_
