#include "ir/cursor.h"

#include <bit>
#include <charconv>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/tokens.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace tp {
namespace {

bool IsIdentifierByte(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '.';
}

// The digits, point and exponent of a number at the start of `text`; not a
// float if there is neither point nor exponent.
struct NumberText {
  size_t size = 0;
  bool is_float = false;
};

NumberText ScanNumber(llvm::StringRef text) {
  auto digits_from = [&](size_t i) {
    while (i < text.size() && llvm::isDigit(text[i])) ++i;
    return i;
  };
  NumberText number{digits_from(0), false};
  if (number.size == 0) return number;
  if (number.size < text.size() && text[number.size] == '.') {
    number = {digits_from(number.size + 1), true};
  }
  if (number.size < text.size() &&
      (text[number.size] == 'e' || text[number.size] == 'E')) {
    size_t exponent = number.size + 1;
    if (exponent < text.size() &&
        (text[exponent] == '-' || text[exponent] == '+'))
      ++exponent;
    if (size_t end = digits_from(exponent); end > exponent)
      number = {end, true};
  }
  return number;
}

}  // namespace

Cursor::Cursor(llvm::StringRef text, llvm::StringRef file_name) {
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      llvm::MemoryBuffer::getMemBufferCopy(text, file_name);
  position_ = buffer->getBufferStart();
  end_ = buffer->getBufferEnd();
  sources_.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
}

void Cursor::SkipSpace() {
  while (position_ < end_) {
    if (llvm::isSpace(*position_)) {
      ++position_;
    } else if (llvm::StringRef(position_, end_ - position_).starts_with("//")) {
      while (position_ < end_ && *position_ != '\n') ++position_;
    } else {
      return;
    }
  }
}

const char* Cursor::position() {
  SkipSpace();
  return position_;
}

bool Cursor::AtEnd() { return position() == end_; }

llvm::StringRef Cursor::Rest() {
  SkipSpace();
  return llvm::StringRef(position_, end_ - position_);
}

char Cursor::Peek(size_t offset) {
  llvm::StringRef rest = Rest();
  return offset < rest.size() ? rest[offset] : '\0';
}

void Cursor::Skip(size_t count) {
  TP_CHECK(count <= Rest().size(), "reading beyond the end of the text");
  position_ += count;
}

bool Cursor::Consume(llvm::StringRef expected) {
  llvm::StringRef rest = Rest();
  if (!rest.consume_front(expected)) return false;
  if (IsIdentifierByte(expected.back()) && !rest.empty() &&
      IsIdentifierByte(rest.front()))
    return false;
  position_ += expected.size();
  return true;
}

absl::Status Cursor::Expect(llvm::StringRef expected) {
  if (Consume(expected)) return absl::OkStatus();
  return ErrorExpected(absl::StrCat("'", expected.str(), "'"));
}

llvm::StringRef Cursor::PeekIdentifier() {
  llvm::StringRef word = Rest().take_while(IsIdentifierByte);
  return IsIdentifier(word) ? word : "";
}

absl::StatusOr<std::string> Cursor::ReadIdentifier(llvm::StringRef what) {
  llvm::StringRef word = PeekIdentifier();
  if (word.empty()) return ErrorExpected(what);
  position_ += word.size();
  return word.str();
}

absl::StatusOr<std::string> Cursor::ReadString() {
  const char* start = position();
  if (!Consume("\"")) return ErrorExpected("a text in double quotes");
  std::string text;
  while (position_ < end_ && *position_ != '\n') {
    const char c = *position_++;
    if (c == '"') return text;
    if (c != '\\') {
      text += c;
      continue;
    }
    const char* escape = position_ - 1;
    const char kind = position_ < end_ ? *position_++ : '\0';
    if (kind == '"' || kind == '\\') {
      text += kind;
    } else if (kind == 'n') {
      text += '\n';
    } else if (kind == 't') {
      text += '\t';
    } else if (kind == 'r') {
      text += '\r';
    } else if (kind == 'x' && end_ - position_ >= 2 &&
               llvm::isHexDigit(position_[0]) &&
               llvm::isHexDigit(position_[1])) {
      text +=
          static_cast<char>(llvm::hexFromNibbles(position_[0], position_[1]));
      position_ += 2;
    } else {
      return ErrorAt(escape,
                     "unknown escape; there are \\\", \\\\, \\n, \\t, \\r and "
                     "\\x with two hexadecimal digits");
    }
  }
  return ErrorAt(start, "the text has no closing quote on its line");
}

absl::StatusOr<int64_t> Cursor::ReadInteger(int64_t max) {
  llvm::StringRef digits =
      Rest().take_while([](char c) { return llvm::isDigit(c); });
  if (digits.empty()) return ErrorExpected("an integer");
  int64_t value;
  if (digits.getAsInteger(10, value) || value > max)
    return Error(absl::StrCat(digits.str(), " is too large; at most ", max,
                              " fits here"));
  position_ += digits.size();
  return value;
}

absl::StatusOr<SymExpr> Cursor::ReadSymExpr() {
  llvm::StringRef rest = Rest().take_until([](char c) { return c == '\n'; });
  absl::StatusOr<SymExpr> expr = SymExpr::ParsePrefix(rest);
  if (!expr.ok()) return Error(std::string(expr.status().message()));
  position_ = rest.data();
  return expr;
}

bool Cursor::PeekFloat() {
  llvm::StringRef rest = Rest();
  rest.consume_front("-");
  if (ScanNumber(rest).is_float) return true;
  llvm::StringRef word = rest.take_while(IsIdentifierByte);
  return word == "inf" || word == "nan";
}

absl::StatusOr<double> Cursor::ReadFloat() {
  llvm::StringRef rest = Rest();
  const bool negative = rest.consume_front("-");
  double value = 0;
  if (rest.consume_front("inf")) {
    value = std::numeric_limits<double>::infinity();
  } else if (rest.consume_front("nan(0x")) {
    uint64_t bits = 0;
    if (rest.consumeInteger(16, bits) || !rest.consume_front(")"))
      return Error("the bits of a nan are written nan(0x7ff8000000000001)");
    value = std::bit_cast<double>(bits);
    if (value == value)
      return Error("these are not the bits of a nan, but of a number");
  } else if (rest.consume_front("nan")) {
    value = std::bit_cast<double>(uint64_t{0x7ff8000000000000});
  } else {
    const size_t size = ScanNumber(rest).size;
    const auto result = std::from_chars(rest.data(), rest.data() + size, value);
    if (result.ec != std::errc() || result.ptr != rest.data() + size)
      return Error(absl::StrCat(rest.take_front(size).str(),
                                " does not fit in a 64-bit float"));
    rest = rest.drop_front(size);
  }
  position_ = rest.data();
  return negative ? -value : value;
}

absl::Status Cursor::ErrorAt(const char* position,
                             const std::string& message) const {
  std::string text;
  llvm::raw_string_ostream out(text);
  sources_
      .GetMessage(llvm::SMLoc::getFromPointer(position),
                  llvm::SourceMgr::DK_Error, message)
      .print(nullptr, out, /*ShowColors=*/false);
  out.flush();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return absl::InvalidArgumentError(text);
}

absl::Status Cursor::ErrorExpected(llvm::StringRef expected) {
  std::string found = "the end of the file";
  if (!AtEnd()) {
    llvm::StringRef word = Rest().take_while(IsIdentifierByte);
    if (word.empty()) word = Rest().take_front(1);
    found = absl::StrCat("'", word.take_front(40).str(), "'");
  }
  return Error(absl::StrCat("expected ", expected.str(), ", found ", found));
}

}  // namespace tp
