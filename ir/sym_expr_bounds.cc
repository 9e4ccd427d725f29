// Bounds of expressions for all symbol values >= 1, and min and max, which
// fold where the bounds order their arguments.

#include <algorithm>

#include "ir/sym_expr_node.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

using Node = SymExpr::Node;
using Kind = Node::Kind;
using End = std::optional<int64_t>;

End Add(End a, End b) { return a && b ? AddInt(*a, *b) : std::nullopt; }

// The product of two ranges. An unknown end is an infinity; only ranges that
// do not straddle zero, or are finite, matter for sizes.
SymBounds Multiply(const SymBounds& a, const SymBounds& b) {
  if (a.low && b.low && *a.low >= 0 && *b.low >= 0) {
    SymBounds result{MulInt(*a.low, *b.low), std::nullopt};
    if (a.high && b.high) result.high = MulInt(*a.high, *b.high);
    return result;
  }
  if (!a.low || !a.high || !b.low || !b.high) return {};
  SymBounds result;
  for (End x : {a.low, a.high}) {
    for (End y : {b.low, b.high}) {
      End product = MulInt(*x, *y);
      if (!product) return {};
      result.low = std::min(result.low.value_or(*product), *product);
      result.high = std::max(result.high.value_or(*product), *product);
    }
  }
  return result;
}

SymBounds Scale(const SymBounds& range, int64_t factor) {
  SymBounds result;
  if (range.low) result.low = MulInt(*range.low, factor);
  if (range.high) result.high = MulInt(*range.high, factor);
  if (factor < 0) std::swap(result.low, result.high);
  return result;
}

SymBounds TermBounds(const SymTerm& term) {
  SymBounds range{1, 1};
  for (const SymExpr& atom : term.atoms)
    range = Multiply(range, BoundsOf(atom));
  return Scale(range, term.coefficient);
}

SymBounds FloorDivBounds(const SymExpr& a, const SymExpr& b) {
  const SymBounds x = BoundsOf(a);
  const SymBounds y = BoundsOf(b);
  if (!y.low || *y.low < 1) return {};
  SymBounds result;
  if (std::optional<int64_t> divisor = b.AsConstant()) {
    if (x.low) result.low = FloorDivInt(*x.low, *divisor);
    if (x.high) result.high = FloorDivInt(*x.high, *divisor);
    return result;
  }
  // Dividing by more moves the quotient towards zero (or -1).
  if (x.low) result.low = *x.low >= 0 ? 0 : *x.low;
  if (x.high) result.high = *x.high >= 0 ? FloorDivInt(*x.high, *y.low) : -1;
  return result;
}

SymBounds ModBounds(const SymExpr& a, const SymExpr& b) {
  const SymBounds x = BoundsOf(a);
  const SymBounds y = BoundsOf(b);
  if (!y.low || *y.low < 1) return {};
  SymBounds result{0, std::nullopt};
  if (y.high) result.high = *y.high - 1;
  if (x.low && *x.low >= 0 && x.high)
    result.high = std::min(result.high.value_or(*x.high), *x.high);
  return result;
}

// With every symbol s written as 1 + t, a polynomial whose other coefficients
// are not negative is at least its constant: s*s - s = t*t + t >= 0.
std::optional<int64_t> ShiftedLowerBound(llvm::ArrayRef<SymTerm> terms) {
  SymExpr shifted = 0;
  for (const SymTerm& term : terms) {
    SymExpr product = term.coefficient;
    for (const SymExpr& atom : term.atoms)
      product = product * (atom.AsSymbol() ? atom + 1 : atom);
    shifted = shifted + product;
  }
  int64_t constant = 0;
  for (const SymTerm& term : TermsOf(shifted)) {
    if (term.atoms.empty()) {
      constant = term.coefficient;
      continue;
    }
    if (term.coefficient < 0) return std::nullopt;
    for (const SymExpr& atom : term.atoms) {
      if (atom.AsSymbol()) continue;
      const SymBounds bounds = BoundsOf(atom);
      if (!bounds.low || *bounds.low < 0) return std::nullopt;
    }
  }
  return constant;
}

SymBounds SumBounds(llvm::ArrayRef<SymTerm> terms) {
  SymBounds result{0, 0};
  bool nonlinear = false;
  for (const SymTerm& term : terms) {
    const SymBounds range = TermBounds(term);
    result.low = Add(result.low, range.low);
    result.high = Add(result.high, range.high);
    nonlinear |= term.atoms.size() > 1;
  }
  if (!result.low && nonlinear) result.low = ShiftedLowerBound(terms);
  return result;
}

// min and max of any number of arguments: nested ones are flattened, those
// another one always beats are dropped, the rest sorted.
SymExpr Extreme(Kind kind, const SymExpr& a, const SymExpr& b) {
  if (IsOverflow(a) || IsOverflow(b)) return SymOverflow();
  llvm::SmallVector<SymExpr, 4> arguments;
  llvm::SmallVector<SymExpr, 4> pending = {a, b};
  while (!pending.empty()) {
    const SymExpr next = pending.pop_back_val();
    const Node* node = Node::Of(next);
    if (node != nullptr && node->kind == kind) {
      pending.push_back(node->a);
      pending.push_back(node->b);
    } else if (!llvm::is_contained(arguments, next)) {
      arguments.push_back(next);
    }
  }
  llvm::sort(arguments);
  auto beats = [kind](const SymExpr& x, const SymExpr& y) {
    const SymExpr gain = kind == Kind::kMin ? y - x : x - y;
    const std::optional<int64_t> low = gain.LowerBound();
    return low && *low >= 0;
  };
  llvm::SmallVector<SymExpr, 4> kept;
  for (const SymExpr& x : arguments) {
    if (llvm::any_of(kept, [&](const SymExpr& y) { return beats(y, x); }))
      continue;
    llvm::erase_if(kept, [&](const SymExpr& y) { return beats(x, y); });
    kept.push_back(x);
  }
  SymExpr result = kept.front();
  for (const SymExpr& next : llvm::drop_begin(kept))
    result = Node::MakeAtom(kind, result, next);
  return result;
}

}  // namespace

SymBounds BoundsOf(const SymExpr& expr) {
  const Node* node = Node::Of(expr);
  if (node == nullptr) return {expr.constant(), expr.constant()};
  switch (node->kind) {
    case Kind::kSymbol:
      return {1, std::nullopt};
    case Kind::kOverflow:
      return {};
    case Kind::kSum:
      return SumBounds(node->terms);
    case Kind::kFloorDiv:
      return FloorDivBounds(node->a, node->b);
    case Kind::kMod:
      return ModBounds(node->a, node->b);
    case Kind::kMin:
    case Kind::kMax:
      break;
  }
  const SymBounds a = BoundsOf(node->a);
  const SymBounds b = BoundsOf(node->b);
  const bool is_min = node->kind == Kind::kMin;
  // The end that both must have, and the one that either gives.
  auto both = [is_min](End x, End y) -> End {
    if (!x || !y) return std::nullopt;
    return is_min ? std::min(*x, *y) : std::max(*x, *y);
  };
  auto either = [is_min](End x, End y) -> End {
    if (!x || !y) return x ? x : y;
    return is_min ? std::min(*x, *y) : std::max(*x, *y);
  };
  if (is_min) return {both(a.low, b.low), either(a.high, b.high)};
  return {either(a.low, b.low), both(a.high, b.high)};
}

std::optional<int64_t> SymExpr::LowerBound() const {
  return BoundsOf(*this).low;
}

SymExpr Min(const SymExpr& a, const SymExpr& b) {
  return Extreme(Kind::kMin, a, b);
}

SymExpr Max(const SymExpr& a, const SymExpr& b) {
  return Extreme(Kind::kMax, a, b);
}

}  // namespace tp
