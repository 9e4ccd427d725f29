// Words of the text format shared by the printer, the parser and the
// verifier.
#ifndef TP_IR_TOKENS_H_
#define TP_IR_TOKENS_H_

#include <string>

#include "llvm/ADT/StringRef.h"

namespace tp {

// A letter or underscore, then letters, digits, underscores and dots.
bool IsIdentifier(llvm::StringRef text);
// Words that cannot name a symbol, because an attribute of that spelling
// means something else: none, true, inf, f32, floordiv, ...
bool IsReservedWord(llvm::StringRef text);

// In double quotes, with quotes, backslashes, control characters and bytes
// that are not UTF-8 escaped.
std::string Quote(llvm::StringRef text);

// The shortest text that reads back to the same bits; never looks like an
// integer.
std::string FloatToString(double value);

}  // namespace tp

#endif  // TP_IR_TOKENS_H_
