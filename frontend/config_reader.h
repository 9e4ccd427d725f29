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
//       name: h.0.attn.c_attn.weight       a whole name, or
//       glob: h.*.attn.c_attn.weight       one with * for a component
//       state: split 1 groups=3 chunk=12   or: replicate, or: zero3
//       optional: true                     may match nothing
//     - glob: h.*.mlp                      of modules: an
//       of: output                         input or output,
//       position: 0                        of several that one
//       state: {dp: split 0, tp: replicate}   by axis
//     - name: h.0.mlp:gelu                 of: value, as plans name them
//       of: value
//       state: split 2
//
// A plan.yaml that tp-compile wrote is read too: its `weights` are rules by
// name, its `values` say how ops leave their results.
absl::StatusOr<UserRules> ParseConfig(llvm::StringRef text,
                                      const std::string& file);
absl::StatusOr<UserRules> ReadConfig(const std::string& path);

}  // namespace tp

#endif  // TP_FRONTEND_CONFIG_READER_H_
