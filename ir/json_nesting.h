// A guard in front of LLVM's JSON parser, which recurses: text nested deeply
// enough would exhaust the stack.
#ifndef TP_IR_JSON_NESTING_H_
#define TP_IR_JSON_NESTING_H_

#include "llvm/ADT/StringRef.h"

namespace tp {

inline bool NestedTooDeep(llvm::StringRef json, int limit) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace tp

#endif  // TP_IR_JSON_NESTING_H_
