// What a SymExpr is made of; included by ir/sym_expr*.cc only.
#ifndef TP_IR_SYM_EXPR_NODE_H_
#define TP_IR_SYM_EXPR_NODE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ir/sym_expr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace tp {

// coefficient * atoms[0] * atoms[1] * ... ; the atoms are sorted by text and
// repeat for powers. No atoms: a constant.
struct SymTerm {
  int64_t coefficient = 0;
  llvm::SmallVector<SymExpr, 2> atoms;
};
// Sorted by TermBefore, no two with the same atoms, none zero.
using SymTerms = llvm::SmallVector<SymTerm, 4>;

// One of
//   an atom: a symbol, floordiv, mod, min, max, or overflow,
//   a sum: at least two terms, or one that is not simply an atom.
// "overflow" stands for every result that does not fit 64 bits (or is absurdly
// long): it absorbs what it is combined with, and evaluating it is an error.
struct SymExpr::Node {
  enum class Kind : uint8_t {
    kSymbol,
    kFloorDiv,
    kMod,
    kMin,
    kMax,
    kOverflow,
    kSum
  };

  Kind kind = Kind::kSymbol;
  std::string name;       // kSymbol
  SymExpr a, b;           // the arguments of floordiv, mod, min, max
  SymTerms terms;         // kSum
  bool negative = false;  // kSum: some coefficient is below zero
  std::string text;
  size_t hash = 0;

  // Null for a constant.
  static const Node* Of(const SymExpr& expr) { return expr.node_.get(); }
  // Finishes a node whose other members are set.
  static SymExpr Make(Node node);
  static SymExpr MakeAtom(Kind kind, SymExpr a, SymExpr b);
};

SymExpr SymOverflow();
bool IsOverflow(const SymExpr& expr);

// Whether a term with the atoms `a` comes before one with `b`: higher degree
// first, then by name. This is a monomial order (graded lexicographic), which
// the polynomial division relies on.
bool TermBefore(llvm::ArrayRef<SymExpr> a, llvm::ArrayRef<SymExpr> b);

// The terms of an expression; none for zero.
SymTerms TermsOf(const SymExpr& expr);
// The sum of terms in any order, equal atoms allowed.
SymExpr FromTerms(SymTerms terms);
SymExpr FromTerm(int64_t coefficient, llvm::ArrayRef<SymExpr> atoms);

// A range that holds for all symbol values >= 1; an end may be unknown.
struct SymBounds {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
};
SymBounds BoundsOf(const SymExpr& expr);

// Python's // and %; nothing when dividing by zero or overflowing.
std::optional<int64_t> FloorDivInt(int64_t a, int64_t b);
std::optional<int64_t> ModInt(int64_t a, int64_t b);
// Nothing on overflow.
std::optional<int64_t> AddInt(int64_t a, int64_t b);
std::optional<int64_t> MulInt(int64_t a, int64_t b);

}  // namespace tp

#endif  // TP_IR_SYM_EXPR_NODE_H_
