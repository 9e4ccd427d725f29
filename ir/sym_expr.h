// Symbolic integers: sizes of dims and everything computed from them.
//
// A SymExpr is an immutable integer expression over named symbols with a
// normal form, so that equal expressions compare equal and print equal:
// a polynomial with integer coefficients whose atoms are symbols, floordiv,
// mod, min and max of normal forms. (batch*seq - seq*batch is 0.)
//
// Text: 3*batch*seq + 2, floordiv(seq + 1, 2), mod(seq, 8), min(a, b),
// max(a, b). Terms are ordered by degree, then by name.
#ifndef TP_IR_SYM_EXPR_H_
#define TP_IR_SYM_EXPR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

namespace tp {

// Values of symbols for one run.
using SymbolValues = llvm::StringMap<int64_t>;

class SymExpr {
 public:
  // Integers convert: SymExpr n = 3.
  SymExpr(int64_t value = 0);  // NOLINT(google-explicit-constructor)
  static SymExpr Symbol(llvm::StringRef name);
  static absl::StatusOr<SymExpr> Parse(llvm::StringRef text);
  // Parses the longest expression `text` begins with and removes it from
  // `text` (a "->" is not a minus).
  static absl::StatusOr<SymExpr> ParsePrefix(llvm::StringRef& text);

  bool is_constant() const;
  // Requires is_constant().
  int64_t constant() const;
  std::optional<int64_t> AsConstant() const;
  // Name if the expression is exactly one symbol.
  std::optional<llvm::StringRef> AsSymbol() const;

  friend SymExpr operator+(const SymExpr& a, const SymExpr& b);
  friend SymExpr operator-(const SymExpr& a, const SymExpr& b);
  friend SymExpr operator*(const SymExpr& a, const SymExpr& b);
  // Rounds towards minus infinity, as Python. Folds where divisible: all
  // coefficients divisible by a constant, or `a` a product holding `b`.
  friend SymExpr FloorDiv(const SymExpr& a, const SymExpr& b);
  friend SymExpr Mod(const SymExpr& a, const SymExpr& b);
  friend SymExpr Min(const SymExpr& a, const SymExpr& b);
  friend SymExpr Max(const SymExpr& a, const SymExpr& b);

  // a/b where that is provably whole for all values of the symbols.
  friend std::optional<SymExpr> ExactDiv(const SymExpr& a, const SymExpr& b);

  // Structural equality of normal forms.
  friend bool operator==(const SymExpr& a, const SymExpr& b);
  // A total order, deterministic across runs (by printed text); for sets.
  friend bool operator<(const SymExpr& a, const SymExpr& b);

  // Overflow, division by zero and unknown symbols are errors.
  absl::StatusOr<int64_t> Evaluate(const SymbolValues& values) const;
  // Replaces symbols by expressions.
  SymExpr Substitute(const llvm::StringMap<SymExpr>& replacements) const;
  void CollectSymbols(llvm::StringSet<>& symbols) const;

  // Lower bound that holds for all symbol values >= 1, if one is known.
  std::optional<int64_t> LowerBound() const;

  std::string ToString() const;
  size_t Hash() const;

  struct Node;

 private:
  explicit SymExpr(std::shared_ptr<const Node> node);
  int64_t constant_ = 0;              // the value where node_ is null
  std::shared_ptr<const Node> node_;  // never a constant
};

SymExpr operator+(const SymExpr& a, const SymExpr& b);
SymExpr operator-(const SymExpr& a, const SymExpr& b);
SymExpr operator*(const SymExpr& a, const SymExpr& b);
SymExpr FloorDiv(const SymExpr& a, const SymExpr& b);
SymExpr Mod(const SymExpr& a, const SymExpr& b);
SymExpr Min(const SymExpr& a, const SymExpr& b);
SymExpr Max(const SymExpr& a, const SymExpr& b);
std::optional<SymExpr> ExactDiv(const SymExpr& a, const SymExpr& b);
std::ostream& operator<<(std::ostream& out, const SymExpr& expr);

}  // namespace tp

#endif  // TP_IR_SYM_EXPR_H_
