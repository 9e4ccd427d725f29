#include "ir/sym_expr.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/sym_expr_node.h"
#include "llvm/ADT/StringExtras.h"

namespace tp {
namespace {

using Node = SymExpr::Node;
using Kind = Node::Kind;

// Longer texts and sums come from hostile or broken programs only; the caps
// keep their cost bounded.
constexpr size_t kMaxText = 1 << 16;
constexpr size_t kMaxTerms = 1 << 10;

bool IsIdentifier(llvm::StringRef name) {
  if (name.empty() || llvm::isDigit(name.front())) return false;
  return llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

const std::string& AtomText(const SymExpr& atom) {
  return Node::Of(atom)->text;
}

std::string TermsText(llvm::ArrayRef<SymTerm> terms) {
  std::string text;
  for (const SymTerm& term : terms) {
    const bool negative = term.coefficient < 0;
    if (text.empty()) {
      if (negative) text += "-";
    } else {
      text += negative ? " - " : " + ";
    }
    // Unsigned: the smallest integer has no positive counterpart.
    uint64_t magnitude = static_cast<uint64_t>(term.coefficient);
    if (negative) magnitude = 0 - magnitude;
    bool first = true;
    if (magnitude != 1 || term.atoms.empty()) {
      absl::StrAppend(&text, magnitude);
      first = false;
    }
    for (const SymExpr& atom : term.atoms) {
      if (!first) text += "*";
      text += AtomText(atom);
      first = false;
    }
  }
  return text;
}

const char* FunctionName(Kind kind) {
  switch (kind) {
    case Kind::kFloorDiv:
      return "floordiv";
    case Kind::kMod:
      return "mod";
    case Kind::kMin:
      return "min";
    case Kind::kMax:
      return "max";
    default:
      return "";
  }
}

absl::Status OverflowError(llvm::StringRef what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the value of '", what.str(), "' does not fit in 64 bits"));
}

}  // namespace

std::optional<int64_t> AddInt(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<int64_t> MulInt(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<int64_t> FloorDivInt(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return std::nullopt;
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

std::optional<int64_t> ModInt(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b
                                                      : remainder;
}

SymExpr Node::Make(Node node) {
  switch (node.kind) {
    case Kind::kSymbol:
      node.text = node.name;
      break;
    case Kind::kOverflow:
      node.text = "overflow()";
      break;
    case Kind::kSum:
      node.text = TermsText(node.terms);
      node.negative = llvm::any_of(
          node.terms, [](const SymTerm& term) { return term.coefficient < 0; });
      break;
    default:
      node.text = absl::StrCat(FunctionName(node.kind), "(", node.a.ToString(),
                               ", ", node.b.ToString(), ")");
  }
  if (node.text.size() > kMaxText) return SymOverflow();
  node.hash = std::hash<std::string>()(node.text);
  return SymExpr(std::make_shared<const Node>(std::move(node)));
}

SymExpr Node::MakeAtom(Kind kind, SymExpr a, SymExpr b) {
  Node node;
  node.kind = kind;
  node.a = std::move(a);
  node.b = std::move(b);
  return Make(std::move(node));
}

SymExpr SymOverflow() {
  Node node;
  node.kind = Kind::kOverflow;
  return Node::Make(std::move(node));
}

bool IsOverflow(const SymExpr& expr) {
  const Node* node = Node::Of(expr);
  return node != nullptr && node->kind == Kind::kOverflow;
}

bool TermBefore(llvm::ArrayRef<SymExpr> a, llvm::ArrayRef<SymExpr> b) {
  if (a.size() != b.size()) return a.size() > b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    const int order = AtomText(a[i]).compare(AtomText(b[i]));
    if (order != 0) return order < 0;
  }
  return false;
}

SymTerms TermsOf(const SymExpr& expr) {
  SymTerms terms;
  const Node* node = Node::Of(expr);
  if (node == nullptr) {
    if (expr.constant() != 0) terms.push_back({expr.constant(), {}});
  } else if (node->kind == Kind::kSum) {
    terms = node->terms;
  } else {
    terms.push_back({1, {expr}});
  }
  return terms;
}

SymExpr FromTerms(SymTerms terms) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const SymTerm& a, const SymTerm& b) {
                     return TermBefore(a.atoms, b.atoms);
                   });
  SymTerms merged;
  for (SymTerm& term : terms) {
    for (const SymExpr& atom : term.atoms)
      if (IsOverflow(atom)) return SymOverflow();
    if (!merged.empty() && merged.back().atoms == term.atoms) {
      std::optional<int64_t> sum =
          AddInt(merged.back().coefficient, term.coefficient);
      if (!sum) return SymOverflow();
      merged.back().coefficient = *sum;
    } else {
      merged.push_back(std::move(term));
    }
    if (merged.back().coefficient == 0) merged.pop_back();
  }
  if (merged.empty()) return 0;
  if (merged.size() > kMaxTerms) return SymOverflow();
  if (merged.size() == 1) {
    if (merged[0].atoms.empty()) return merged[0].coefficient;
    if (merged[0].atoms.size() == 1 && merged[0].coefficient == 1)
      return merged[0].atoms[0];
  }
  Node node;
  node.kind = Kind::kSum;
  node.terms = std::move(merged);
  return Node::Make(std::move(node));
}

SymExpr FromTerm(int64_t coefficient, llvm::ArrayRef<SymExpr> atoms) {
  SymTerms terms;
  terms.push_back(
      {coefficient, llvm::SmallVector<SymExpr, 2>(atoms.begin(), atoms.end())});
  return FromTerms(std::move(terms));
}

SymExpr::SymExpr(int64_t value) : constant_(value) {}

SymExpr::SymExpr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

SymExpr SymExpr::Symbol(llvm::StringRef name) {
  TP_CHECK(IsIdentifier(name),
           "a symbol's name must be an identifier: '" + name.str() + "'");
  Node node;
  node.kind = Kind::kSymbol;
  node.name = name.str();
  return Node::Make(std::move(node));
}

bool SymExpr::is_constant() const { return node_ == nullptr; }

int64_t SymExpr::constant() const {
  TP_CHECK(is_constant(), "not a constant: " + ToString());
  return constant_;
}

std::optional<int64_t> SymExpr::AsConstant() const {
  if (!is_constant()) return std::nullopt;
  return constant_;
}

std::optional<llvm::StringRef> SymExpr::AsSymbol() const {
  if (node_ == nullptr || node_->kind != Kind::kSymbol) return std::nullopt;
  return llvm::StringRef(node_->name);
}

SymExpr operator+(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    std::optional<int64_t> sum = AddInt(a.constant_, b.constant_);
    return sum ? SymExpr(*sum) : SymOverflow();
  }
  SymTerms terms = TermsOf(a);
  llvm::append_range(terms, TermsOf(b));
  return FromTerms(std::move(terms));
}

SymExpr operator-(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant()) {
    int64_t result;
    if (__builtin_sub_overflow(a.constant_, b.constant_, &result))
      return SymOverflow();
    return result;
  }
  return a + b * -1;
}

SymExpr operator*(const SymExpr& a, const SymExpr& b) {
  if (IsOverflow(a) || IsOverflow(b)) return SymOverflow();
  if (a.is_constant() && b.is_constant()) {
    std::optional<int64_t> product = MulInt(a.constant_, b.constant_);
    return product ? SymExpr(*product) : SymOverflow();
  }
  if (a == 1) return b;
  if (b == 1) return a;
  const SymTerms left = TermsOf(a);
  const SymTerms right = TermsOf(b);
  if (left.size() * right.size() > kMaxTerms) return SymOverflow();
  SymTerms terms;
  for (const SymTerm& x : left) {
    for (const SymTerm& y : right) {
      std::optional<int64_t> product = MulInt(x.coefficient, y.coefficient);
      if (!product) return SymOverflow();
      SymTerm term{*product, {}};
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(),
                 std::back_inserter(term.atoms),
                 [](const SymExpr& p, const SymExpr& q) {
                   return AtomText(p) < AtomText(q);
                 });
      terms.push_back(std::move(term));
    }
  }
  return FromTerms(std::move(terms));
}

bool operator==(const SymExpr& a, const SymExpr& b) {
  if (a.node_ == b.node_) return a.constant_ == b.constant_;
  if (a.node_ == nullptr || b.node_ == nullptr) return false;
  // The text of a normal form names it completely.
  return a.node_->hash == b.node_->hash && a.node_->text == b.node_->text;
}

bool operator<(const SymExpr& a, const SymExpr& b) {
  return a.ToString() < b.ToString();
}

absl::StatusOr<int64_t> SymExpr::Evaluate(const SymbolValues& values) const {
  if (node_ == nullptr) return constant_;
  switch (node_->kind) {
    case Kind::kSymbol: {
      auto found = values.find(node_->name);
      if (found == values.end())
        return absl::InvalidArgumentError(
            absl::StrCat("the size '", node_->name, "' has no value"));
      return found->second;
    }
    case Kind::kOverflow:
      return OverflowError(node_->text);
    case Kind::kSum: {
      int64_t sum = 0;
      for (const SymTerm& term : node_->terms) {
        int64_t product = term.coefficient;
        for (const SymExpr& atom : term.atoms) {
          TP_ASSIGN_OR_RETURN(int64_t value, atom.Evaluate(values));
          if (__builtin_mul_overflow(product, value, &product))
            return OverflowError(node_->text);
        }
        if (__builtin_add_overflow(sum, product, &sum))
          return OverflowError(node_->text);
      }
      return sum;
    }
    default:
      break;
  }
  TP_ASSIGN_OR_RETURN(const int64_t a, node_->a.Evaluate(values));
  TP_ASSIGN_OR_RETURN(const int64_t b, node_->b.Evaluate(values));
  if (node_->kind == Kind::kMin) return std::min(a, b);
  if (node_->kind == Kind::kMax) return std::max(a, b);
  if (b == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("division by zero in '", node_->text, "'"));
  std::optional<int64_t> result =
      node_->kind == Kind::kMod ? ModInt(a, b) : FloorDivInt(a, b);
  if (!result) return OverflowError(node_->text);
  return *result;
}

SymExpr SymExpr::Substitute(
    const llvm::StringMap<SymExpr>& replacements) const {
  if (node_ == nullptr || replacements.empty()) return *this;
  switch (node_->kind) {
    case Kind::kSymbol: {
      auto found = replacements.find(node_->name);
      return found == replacements.end() ? *this : found->second;
    }
    case Kind::kOverflow:
      return *this;
    case Kind::kSum: {
      SymExpr sum = 0;
      for (const SymTerm& term : node_->terms) {
        SymExpr product = term.coefficient;
        for (const SymExpr& atom : term.atoms)
          product = product * atom.Substitute(replacements);
        sum = sum + product;
      }
      return sum;
    }
    default:
      break;
  }
  const SymExpr a = node_->a.Substitute(replacements);
  const SymExpr b = node_->b.Substitute(replacements);
  switch (node_->kind) {
    case Kind::kFloorDiv:
      return FloorDiv(a, b);
    case Kind::kMod:
      return Mod(a, b);
    case Kind::kMin:
      return Min(a, b);
    default:
      return Max(a, b);
  }
}

void SymExpr::CollectSymbols(llvm::StringSet<>& symbols) const {
  if (node_ == nullptr) return;
  if (node_->kind == Kind::kSymbol) symbols.insert(node_->name);
  for (const SymTerm& term : node_->terms)
    for (const SymExpr& atom : term.atoms) atom.CollectSymbols(symbols);
  node_->a.CollectSymbols(symbols);
  node_->b.CollectSymbols(symbols);
}

std::string SymExpr::ToString() const {
  return node_ == nullptr ? std::to_string(constant_) : node_->text;
}

size_t SymExpr::Hash() const {
  return node_ == nullptr ? std::hash<int64_t>()(constant_) : node_->hash;
}

std::ostream& operator<<(std::ostream& out, const SymExpr& expr) {
  return out << expr.ToString();
}

}  // namespace tp
