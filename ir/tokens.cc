#include "ir/tokens.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "ir/dtype.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

namespace tp {
namespace {

// Bytes of the UTF-8 sequence at the start of `text`, 0 if it is none.
size_t Utf8Length(llvm::StringRef text) {
  const auto* begin = reinterpret_cast<const llvm::UTF8*>(text.data());
  size_t length = llvm::getNumBytesForUTF8(*begin);
  if (length > text.size()) return 0;
  return llvm::isLegalUTF8Sequence(begin, begin + length) ? length : 0;
}

}  // namespace

bool IsIdentifier(llvm::StringRef text) {
  if (text.empty()) return false;
  if (!llvm::isAlpha(text[0]) && text[0] != '_') return false;
  for (char c : text)
    if (!llvm::isAlnum(c) && c != '_' && c != '.') return false;
  return true;
}

bool IsReservedWord(llvm::StringRef text) {
  for (llvm::StringRef word :
       {"none", "true", "false", "inf", "nan", "floordiv", "mod", "min", "max"})
    if (text == word) return true;
  return ParseDType(std::string_view(text)).has_value();
}

std::string Quote(llvm::StringRef text) {
  std::string out = "\"";
  while (!text.empty()) {
    char c = text[0];
    size_t length = Utf8Length(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (length == 0 || (length == 1 && !llvm::isPrint(c))) {
      out += absl::StrFormat("\\x%02x", static_cast<unsigned char>(c));
      length = 1;
    } else {
      out += text.take_front(length).str();
    }
    text = text.drop_front(length);
  }
  return out + '"';
}

std::string FloatToString(double value) {
  if (std::isnan(value)) {
    const auto bits = std::bit_cast<uint64_t>(value);
    if (bits == uint64_t{0x7ff8000000000000}) return "nan";
    return absl::StrFormat("nan(0x%x)", bits);
  }
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace tp
