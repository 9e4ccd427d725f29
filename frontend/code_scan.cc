#include "frontend/code_scan.h"

#include <cctype>
#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

using llvm::StringRef;

// LibTorch parses, compiles and frees nested source by recursion. What
// torch.jit.save prints stays far below these.
constexpr int kMaxNesting = 100;
constexpr int kMaxLinks = 100;
constexpr size_t kMaxSourceBytes = size_t{64} << 20;

bool TouchesTheSystem(StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Case("aten::save", true)
      .Case("aten::from_file", true)
      .Case("prim::PythonOp", true)
      .Case("prim::IgnoredPythonOp", true)
      .Case("prim::CppOp", true)
      .Case("prim::rpc_async", true)
      .Case("prim::rpc_sync", true)
      .Case("prim::rpc_remote", true)
      .Default(false);
}

bool Allowed(StringRef name, llvm::ArrayRef<std::string> allow_ops) {
  return llvm::any_of(allow_ops, [&](const std::string& entry) {
    StringRef allowed(entry);
    if (allowed.ends_with("::*")) return name.starts_with(allowed.drop_back(1));
    if (!allowed.contains("::"))
      return name.starts_with("aten::") && name.drop_front(6) == allowed;
    return name == allowed;
  });
}

struct Token {
  enum class Kind { kName, kNumber, kString, kSign, kNewline };
  Kind kind = Kind::kSign;
  StringRef text;
  int line = 0;
  int indent = 0;  // of a kNewline: blanks that open the next logical line
};

// Splits source as LibTorch's lexer does; where that would fail, so does
// this.
class Lexer {
 public:
  Lexer(StringRef source, StringRef where) : source_(source), where_(where) {}

  absl::StatusOr<std::vector<Token>> Run();

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(where_.str(), ":", line_, ": ", what,
                     "; torch.jit.save does not write such source"));
  }
  void Add(Token::Kind kind, size_t size) {
    tokens_.push_back({kind, source_.substr(at_, size), line_, 0});
    at_ += size;
  }
  absl::Status AddString();
  void AddNumber();
  void SkipBlanks();

  StringRef source_;
  StringRef where_;
  size_t at_ = 0;
  int line_ = 1;
  int nesting_ = 0;
  std::vector<Token> tokens_;
};

bool IsNameStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}

bool IsNameChar(char c) {
  return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c));
}

bool IsBlank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) && c != '\n';
}

absl::StatusOr<std::vector<Token>> Lexer::Run() {
  if (source_.size() > kMaxSourceBytes) return Error("the source is too large");
  tokens_.push_back({Token::Kind::kNewline, "", 1, 0});
  SkipBlanks();
  while (at_ < source_.size()) {
    const char c = source_[at_];
    if (c == 0 || c == '\\')
      return Error(c == 0 ? "a NUL byte" : "a backslash outside a string");
    if (c == '\'' || c == '"') {
      TP_RETURN_IF_ERROR(AddString());
    } else if (IsNameStart(c)) {
      size_t size = 1;
      while (at_ + size < source_.size() && IsNameChar(source_[at_ + size]))
        ++size;
      Add(Token::Kind::kName, size);
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      AddNumber();
    } else {
      if (StringRef("([{").contains(c)) ++nesting_;
      if (StringRef(")]}").contains(c)) --nesting_;
      if (nesting_ > kMaxNesting) return Error("brackets are nested too deep");
      if (nesting_ < 0) return Error("a bracket that was never opened");
      Add(Token::Kind::kSign, 1);
    }
    SkipBlanks();
  }
  if (nesting_ != 0) return Error("a bracket that is never closed");
  tokens_.push_back({Token::Kind::kNewline, "", line_, 0});
  return std::move(tokens_);
}

// Blanks, comments and line ends; adds one kNewline when a line ends outside
// brackets. A "# type:" comment is code to LibTorch.
void Lexer::SkipBlanks() {
  bool new_line = tokens_.size() == 1 && at_ == 0;
  size_t line_start = at_;
  while (at_ < source_.size()) {
    const char c = source_[at_];
    if (c == '#' && !source_.substr(at_).starts_with("# type:")) {
      while (at_ < source_.size() && source_[at_] != '\n') ++at_;
    } else if (c == '#') {
      at_ += StringRef("# type:").size();
    } else if (c == '\n') {
      ++line_;
      ++at_;
      new_line = true;
      line_start = at_;
    } else if (IsBlank(c)) {
      ++at_;
    } else {
      break;
    }
  }
  if (new_line && nesting_ == 0)
    tokens_.push_back(
        {Token::Kind::kNewline, "", line_, static_cast<int>(at_ - line_start)});
}

absl::Status Lexer::AddString() {
  const char quote = source_[at_];
  const std::string triple(3, quote);
  const size_t width = source_.substr(at_).starts_with(triple) ? 3 : 1;
  const StringRef closing = StringRef(triple).take_front(width);
  size_t end = at_ + width;
  int lines = 0;
  while (end < source_.size() && !source_.substr(end).starts_with(closing)) {
    if (source_[end] == '\n') {
      if (width == 1) return Error("a string that is never closed");
      ++lines;
    }
    if (source_[end] == '\\') {
      ++end;
      if (end < source_.size() && source_[end] == '\n') ++lines;
    }
    ++end;
  }
  if (end >= source_.size()) return Error("a string that is never closed");
  Add(Token::Kind::kString, end + width - at_);
  line_ += lines;
  return absl::OkStatus();
}

// At least as far as strtod reads, except that letters end it unless they can
// belong to a number.
void Lexer::AddNumber() {
  size_t size = 1;
  while (at_ + size < source_.size()) {
    const char c = source_[at_ + size];
    const char before = source_[at_ + size - 1];
    const bool sign =
        (c == '+' || c == '-') && (before == 'e' || before == 'E');
    if (!std::isdigit(static_cast<unsigned char>(c)) && c != '.' && c != 'e' &&
        c != 'E' && c != 'j' && !sign)
      break;
    ++size;
  }
  Add(Token::Kind::kNumber, size);
}

class Scanner {
 public:
  Scanner(llvm::ArrayRef<Token> tokens, StringRef where,
          llvm::ArrayRef<std::string> allow_ops)
      : tokens_(tokens), where_(where), allow_ops_(allow_ops) {}

  absl::Status Run();

 private:
  const Token& At(size_t i) const {
    return i < tokens_.size() ? tokens_[i] : tokens_.back();
  }
  bool Is(size_t i, StringRef text) const {
    return At(i).text == text && At(i).kind != Token::Kind::kString;
  }
  bool IsName(size_t i) const { return At(i).kind == Token::Kind::kName; }
  // Whether token i is an attribute: what follows a dot. A number may have
  // swallowed the dot.
  bool IsAttribute(size_t i) const {
    return i > 0 &&
           (Is(i - 1, ".") || (At(i - 1).kind == Token::Kind::kNumber &&
                               At(i - 1).text.ends_with(".")));
  }
  absl::Status Denied(size_t i, absl::string_view what) const {
    return absl::PermissionDeniedError(absl::StrCat(
        where_.str(), ":", At(i).line, ": ", what, "; refused as unsafe"));
  }
  absl::Status Located(size_t i, const absl::Status& status) const {
    return tp::Annotate(status, absl::StrCat(where_.str(), ":", At(i).line));
  }
  size_t CloseOf(size_t open) const;

  absl::Status CheckLine(size_t begin, size_t end) const;
  absl::Status CheckName(size_t i) const;
  absl::Status CheckDynamicAttribute(size_t i) const;
  absl::Status CheckOperatorPath(size_t i) const;
  absl::Status CheckDefaults(size_t def) const;
  absl::Status CheckLiteral(size_t begin, size_t end) const;

  llvm::ArrayRef<Token> tokens_;
  StringRef where_;
  llvm::ArrayRef<std::string> allow_ops_;
};

// Walks logical lines, knowing which lie inside a function: what stands
// outside one (constants of a class) is evaluated while loading.
absl::Status Scanner::Run() {
  std::vector<int> indents = {0};
  int def_indent = -1;  // of the def whose body we are in, or -1
  for (size_t i = 0; i < tokens_.size();) {
    const int indent = tokens_[i].indent;  // tokens_[i] is a kNewline
    const size_t begin = i + 1;
    size_t end = begin;
    while (end < tokens_.size() && tokens_[end].kind != Token::Kind::kNewline)
      ++end;
    i = end;
    if (begin == end) continue;
    while (indents.size() > 1 && indents.back() > indent) indents.pop_back();
    if (indent > indents.back()) indents.push_back(indent);
    if (indents.size() > kMaxNesting)
      return absl::InvalidArgumentError(absl::StrCat(
          where_.str(), ":", At(begin).line, ": blocks are nested too deep"));
    if (indent <= def_indent) def_indent = -1;
    if (Is(begin, "def")) {
      if (def_indent < 0) def_indent = indent;
      TP_RETURN_IF_ERROR(CheckDefaults(begin));
    } else if (def_indent < 0) {
      for (size_t k = begin; k < end; ++k)
        if (Is(k, "=")) TP_RETURN_IF_ERROR(CheckLiteral(k + 1, end));
    }
    TP_RETURN_IF_ERROR(CheckLine(begin, end));
  }
  return absl::OkStatus();
}

// Besides the names, checks how deep a tree the line's expressions make.
// Chains such as a+b+c, not not x, x.y.z or f(x)(y)[z] grow it by a level per
// link; commas end them, and brackets hold chains of their own.
absl::Status Scanner::CheckLine(size_t begin, size_t end) const {
  std::vector<int> links = {0};  // per open bracket
  for (size_t i = begin; i < end; ++i) {
    const Token& token = tokens_[i];
    const bool sign = token.kind == Token::Kind::kSign;
    if (token.kind == Token::Kind::kName) TP_RETURN_IF_ERROR(CheckName(i));
    if (sign && StringRef("([{").contains(token.text)) {
      links.back() += Is(i - 1, ")") || Is(i - 1, "]");
      links.push_back(0);
    } else if (sign && StringRef(")]}").contains(token.text)) {
      if (links.size() > 1) links.pop_back();
    } else if (Is(i, ",")) {
      links.back() = 0;
    } else {
      links.back() += sign || Is(i, "not") || Is(i, "and") || Is(i, "or") ||
                      Is(i, "if") || Is(i, "await");
    }
    if (links.back() > kMaxLinks)
      return absl::InvalidArgumentError(absl::StrCat(
          where_.str(), ":", token.line, ": an expression is nested too deep"));
  }
  return absl::OkStatus();
}

absl::Status Scanner::CheckName(size_t i) const {
  StringRef name = At(i).text;
  if (name == "__setstate__")
    return Denied(i,
                  "a __setstate__ method, which would run while the model "
                  "is loaded; save a model whose classes have none");
  if (IsAttribute(i)) {
    // A method call on any value finds the operator of that name too.
    const std::string op = absl::StrCat("aten::", name.str());
    if (TouchesTheSystem(op)) return Located(i, CheckOperator(op, allow_ops_));
    if (name == "classes" && i >= 2 && Is(i - 2, "torch") &&
        !Allowed("torch::classes", allow_ops_))
      return Denied(i,
                    "uses a C++ class (torch.classes), whose code runs when "
                    "it is loaded");
    return absl::OkStatus();
  }
  if (name == "torch" || name == "ops") return CheckOperatorPath(i);
  if (name == "getattr" || name == "hasattr") return CheckDynamicAttribute(i);
  return absl::OkStatus();
}

// torch.NAME or ops.NAMESPACE.NAME; anything else done with the two, such as
// giving them another name, would hide what is called.
absl::Status Scanner::CheckOperatorPath(size_t i) const {
  const bool plain = Is(i, "torch");
  const size_t last = i + (plain ? 2 : 4);
  for (size_t k = i; k < last; k += 2) {
    if (!Is(k + 1, ".") || !IsName(k + 2))
      return Denied(i, absl::StrCat("uses \"", At(i).text.str(),
                                    "\" other than to name an operator"));
  }
  std::string op =
      plain ? absl::StrCat("aten::", At(last).text.str())
            : absl::StrCat(At(i + 2).text.str(), "::", At(last).text.str());
  return Located(i, CheckOperator(op, allow_ops_));
}

// getattr(x, "name") with one plain string.
absl::Status Scanner::CheckDynamicAttribute(size_t i) const {
  if (!Is(i + 1, "("))
    return Denied(i, absl::StrCat("uses \"", At(i).text.str(),
                                  "\" other than to call it"));
  const size_t close = CloseOf(i + 1);
  int strings = 0, depth = 0;
  for (size_t k = i + 2; k < close; ++k) {
    if (At(k).kind == Token::Kind::kSign) {
      depth += StringRef("([{").contains(At(k).text);
      depth -= StringRef(")]}").contains(At(k).text);
    }
    if (At(k).kind != Token::Kind::kString || depth != 0) continue;
    ++strings;
    StringRef text = At(k).text.trim("'\"");
    const std::string op = absl::StrCat("aten::", text.str());
    if (text.contains('\\'))
      return Denied(k, "an attribute's name with an escape in it");
    if (TouchesTheSystem(op))
      TP_RETURN_IF_ERROR(Located(k, CheckOperator(op, allow_ops_)));
  }
  // Two could be one name in pieces.
  if (strings != 1)
    return Denied(i, "an attribute's name that is not a string");
  return absl::OkStatus();
}

size_t Scanner::CloseOf(size_t open) const {
  int depth = 0;
  for (size_t k = open; k < tokens_.size(); ++k) {
    if (At(k).kind != Token::Kind::kSign) continue;
    if (StringRef("([{").contains(At(k).text)) ++depth;
    if (StringRef(")]}").contains(At(k).text) && --depth == 0) return k;
  }
  return tokens_.size();
}

// def NAME(a: T, b: T=DEFAULT) -> T:
absl::Status Scanner::CheckDefaults(size_t def) const {
  size_t open = def + 1;
  while (open < tokens_.size() && !Is(open, "(") &&
         At(open).kind != Token::Kind::kNewline)
    ++open;
  if (!Is(open, "(")) return absl::OkStatus();
  const size_t close = CloseOf(open);
  int depth = 0;
  size_t value = 0;  // first token of the default being read, or 0
  for (size_t k = open; k <= close; ++k) {
    const bool sign = At(k).kind == Token::Kind::kSign;
    if (value != 0 && ((depth == 1 && Is(k, ",")) || k == close)) {
      TP_RETURN_IF_ERROR(CheckLiteral(value, k));
      value = 0;
    }
    if (sign && StringRef("([{").contains(At(k).text)) ++depth;
    if (sign && StringRef(")]}").contains(At(k).text)) --depth;
    if (depth == 1 && Is(k, "=") && value == 0) value = k + 1;
  }
  return absl::OkStatus();
}

// Numbers, strings, names and lists of them. The only calls are
// torch.device(...) and annotate(...); there is no arithmetic.
absl::Status Scanner::CheckLiteral(size_t begin, size_t end) const {
  for (size_t k = begin; k < end; ++k) {
    const Token& before = At(k - 1);
    bool plain = true;
    if (Is(k, "(") && k > begin) {
      plain = Is(k - 1, "annotate") || Is(k - 1, "device") ||
              (before.kind == Token::Kind::kSign &&
               !StringRef(")]}").contains(before.text));
    } else if (At(k).kind == Token::Kind::kSign) {
      plain = StringRef("()[]{},:.-=").contains(At(k).text);
    } else if (IsName(k)) {
      plain = !llvm::StringSwitch<bool>(At(k).text)
                   .Cases("if", "for", "in", "not", "and", "or", "lambda", true)
                   .Default(false);
    }
    if (!plain)
      return Denied(k,
                    "a default value or constant that is computed while "
                    "the model is loaded");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOperator(llvm::StringRef name,
                           llvm::ArrayRef<std::string> allow_ops) {
  if (Allowed(name, allow_ops)) return absl::OkStatus();
  if (TouchesTheSystem(name))
    return absl::PermissionDeniedError(absl::StrCat(
        "the model holds ", name.str(),
        ", which reads or writes files or runs other programs; refused as "
        "unsafe. Remove it from the model, or pass --allow-op ",
        name.str(), " if you trust the model"));
  StringRef space = name.split("::").first;
  if (space == "aten" || space == "prim") return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "the model holds ", name.str(), ", an operator of the unknown namespace ",
      space.str(), "; pass --allow-op ", name.str(),
      " (and --load-library for where it is defined) if you trust it"));
}

absl::Status ScanCode(llvm::StringRef source, llvm::StringRef where,
                      llvm::ArrayRef<std::string> allow_ops) {
  TP_ASSIGN_OR_RETURN(std::vector<Token> tokens, Lexer(source, where).Run());
  return Scanner(tokens, where, allow_ops).Run();
}

}  // namespace tp
