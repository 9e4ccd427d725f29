// The text of size expressions:
//
//     sum     = ["-"] product {("+" | "-") product}
//     product = factor {"*" factor}
//     factor  = integer | name | function "(" sum "," sum ")" | "(" sum ")"

#include <string>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/sym_expr_node.h"
#include "llvm/ADT/StringExtras.h"

namespace tp {
namespace {

// Deeper nesting comes from hostile input only.
constexpr int kMaxDepth = 256;

class SymExprParser {
 public:
  explicit SymExprParser(llvm::StringRef text) : text_(text) {}

  llvm::StringRef rest() const { return text_; }

  absl::StatusOr<SymExpr> ParseSum() {
    if (++depth_ > kMaxDepth)
      return absl::InvalidArgumentError("a size expression nested too deeply");
    TP_ASSIGN_OR_RETURN(SymExpr sum, ParseProduct(Consume('-')));
    while (true) {
      if (Consume('+')) {
        TP_ASSIGN_OR_RETURN(SymExpr term, ParseProduct(false));
        sum = sum + term;
      } else if (!text_.ltrim().starts_with("->") && Consume('-')) {
        TP_ASSIGN_OR_RETURN(SymExpr term, ParseProduct(true));
        sum = sum + term;
      } else {
        --depth_;
        return sum;
      }
    }
  }

 private:
  bool Consume(char c) {
    llvm::StringRef rest = text_.ltrim();
    if (!rest.consume_front(llvm::StringRef(&c, 1))) return false;
    text_ = rest;
    return true;
  }

  absl::Status Expect(char c) {
    if (Consume(c)) return absl::OkStatus();
    return Error(std::string("'") + c + "'");
  }

  absl::Status Error(const std::string& expected) {
    const llvm::StringRef rest = text_.ltrim();
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", expected, " in a size expression, found ",
        rest.empty() ? "its end"
                     : absl::StrCat("'", rest.take_front(20).str(), "'")));
  }

  absl::StatusOr<SymExpr> ParseProduct(bool negate) {
    TP_ASSIGN_OR_RETURN(SymExpr product, ParseFactor(negate));
    while (Consume('*')) {
      TP_ASSIGN_OR_RETURN(SymExpr factor, ParseFactor(Consume('-')));
      product = product * factor;
    }
    return product;
  }

  absl::StatusOr<SymExpr> ParseFactor(bool negate) {
    text_ = text_.ltrim();
    if (!text_.empty() && llvm::isDigit(text_[0])) return ParseInteger(negate);
    TP_ASSIGN_OR_RETURN(SymExpr factor, ParseUnsigned());
    return negate ? factor * -1 : factor;
  }

  // The sign belongs to the literal: the smallest integer has no positive
  // counterpart.
  absl::StatusOr<SymExpr> ParseInteger(bool negate) {
    const llvm::StringRef digits =
        text_.take_while([](char c) { return llvm::isDigit(c); });
    const std::string literal = (negate ? "-" : "") + digits.str();
    int64_t value;
    if (llvm::StringRef(literal).getAsInteger(10, value))
      return absl::InvalidArgumentError(absl::StrCat(
          "the integer ", digits.str(), " does not fit in 64 bits"));
    text_ = text_.drop_front(digits.size());
    return SymExpr(value);
  }

  absl::StatusOr<SymExpr> ParseUnsigned() {
    if (Consume('(')) {
      TP_ASSIGN_OR_RETURN(SymExpr sum, ParseSum());
      TP_RETURN_IF_ERROR(Expect(')'));
      return sum;
    }
    const llvm::StringRef name =
        text_.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (name.empty()) return Error("a number or a name");
    text_ = text_.drop_front(name.size());
    if (!Consume('(')) return SymExpr::Symbol(name);
    if (name == "overflow") {
      TP_RETURN_IF_ERROR(Expect(')'));
      return SymOverflow();
    }
    TP_ASSIGN_OR_RETURN(SymExpr a, ParseSum());
    TP_RETURN_IF_ERROR(Expect(','));
    TP_ASSIGN_OR_RETURN(SymExpr b, ParseSum());
    TP_RETURN_IF_ERROR(Expect(')'));
    if (name == "floordiv") return FloorDiv(a, b);
    if (name == "mod") return Mod(a, b);
    if (name == "min") return Min(a, b);
    if (name == "max") return Max(a, b);
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown function '", name.str(),
        "' in a size expression; there are floordiv, mod, min and max"));
  }

  llvm::StringRef text_;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<SymExpr> SymExpr::ParsePrefix(llvm::StringRef& text) {
  SymExprParser parser(text);
  TP_ASSIGN_OR_RETURN(SymExpr expr, parser.ParseSum());
  text = parser.rest();
  return expr;
}

absl::StatusOr<SymExpr> SymExpr::Parse(llvm::StringRef text) {
  llvm::StringRef rest = text;
  TP_ASSIGN_OR_RETURN(SymExpr expr, ParsePrefix(rest));
  if (!rest.trim().empty())
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", rest.trim().str(),
                     "' after the size expression '", expr.ToString(), "'"));
  return expr;
}

}  // namespace tp
