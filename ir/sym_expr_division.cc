// floordiv, mod and exact division of polynomials.
//
// Dividing by one term, each term of the dividend splits into a part that is
// divisible and a rest: (b*8*s + 3) // (b*8) = s + 3 // (b*8). What both
// sides still have in common is cancelled: (2*s + 1) // 4 = s // 2. Symbols
// are sizes, at least 1, so cancelling them never divides by zero.

#include <algorithm>
#include <numeric>

#include "ir/sym_expr_node.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

using Node = SymExpr::Node;
using Kind = Node::Kind;
using Atoms = llvm::SmallVector<SymExpr, 2>;

// Longest polynomial division tried; sizes have few terms.
constexpr int kMaxSteps = 64;

// `atoms` without `divisor`, nothing if it does not hold all of it.
std::optional<Atoms> DivideAtoms(llvm::ArrayRef<SymExpr> atoms,
                                 llvm::ArrayRef<SymExpr> divisor) {
  Atoms rest(atoms.begin(), atoms.end());
  for (const SymExpr& atom : divisor) {
    auto found = llvm::find(rest, atom);
    if (found == rest.end()) return std::nullopt;
    rest.erase(found);
  }
  return rest;
}

std::optional<SymTerm> DivideTerm(const SymTerm& term, const SymTerm& divisor) {
  if (divisor.coefficient == -1 && term.coefficient == INT64_MIN)
    return std::nullopt;
  if (term.coefficient % divisor.coefficient != 0) return std::nullopt;
  std::optional<Atoms> atoms = DivideAtoms(term.atoms, divisor.atoms);
  if (!atoms) return std::nullopt;
  return SymTerm{term.coefficient / divisor.coefficient, std::move(*atoms)};
}

// A dividend as quotient * divisor + rest.
struct Split {
  SymExpr quotient;
  SymExpr rest;
};

// Splits by one term; coefficients divide with a rest of their own sign, the
// constant with one that is not negative.
Split SplitByTerm(const SymExpr& dividend, const SymTerm& divisor) {
  SymTerms quotient;
  SymTerms rest;
  for (const SymTerm& term : TermsOf(dividend)) {
    std::optional<Atoms> atoms = DivideAtoms(term.atoms, divisor.atoms);
    if (!atoms ||
        (divisor.coefficient == -1 && term.coefficient == INT64_MIN)) {
      rest.push_back(term);
      continue;
    }
    int64_t whole = term.coefficient / divisor.coefficient;
    if (term.atoms.empty() && divisor.atoms.empty())
      whole = *FloorDivInt(term.coefficient, divisor.coefficient);
    if (whole != 0) quotient.push_back({whole, std::move(*atoms)});
    const int64_t left = term.coefficient - whole * divisor.coefficient;
    if (left != 0) rest.push_back({left, term.atoms});
  }
  return {FromTerms(std::move(quotient)), FromTerms(std::move(rest))};
}

// The atoms that all terms and the divisor hold and that are never zero.
Atoms CommonAtoms(llvm::ArrayRef<SymTerm> terms, const SymTerm& divisor) {
  Atoms common;
  SymTerms left(terms.begin(), terms.end());
  for (const SymExpr& atom : divisor.atoms) {
    const std::optional<int64_t> low = atom.LowerBound();
    if (!low || *low < 1) continue;
    if (!llvm::all_of(left, [&](const SymTerm& term) {
          return llvm::is_contained(term.atoms, atom);
        }))
      continue;
    for (SymTerm& term : left) term.atoms.erase(llvm::find(term.atoms, atom));
    common.push_back(atom);
  }
  return common;
}

// The greatest common divisor of the coefficients, with or without the
// constant, and of the divisor's coefficient (which is positive).
int64_t CommonInteger(llvm::ArrayRef<SymTerm> terms, const SymTerm& divisor,
                      bool with_constant) {
  int64_t common = divisor.coefficient;
  for (const SymTerm& term : terms) {
    if (term.atoms.empty() && !with_constant) continue;
    if (term.coefficient == INT64_MIN) return 1;
    common = std::gcd(common, term.coefficient);
  }
  return common;
}

std::optional<int64_t> Low(const SymExpr& expr) { return expr.LowerBound(); }

bool IsPositive(const SymExpr& expr) {
  const std::optional<int64_t> low = Low(expr);
  return low && *low >= 1;
}

// 0 <= a < b for all symbol values.
bool IsBelow(const SymExpr& a, const SymExpr& b) {
  const std::optional<int64_t> low = Low(a);
  if (!low || *low < 0) return false;
  if (IsPositive(b - a)) return true;
  const SymBounds upper = BoundsOf(a);
  const SymBounds lower = BoundsOf(b);
  return upper.high && lower.low && *upper.high < *lower.low;
}

// floordiv of a dividend none of whose terms `b` divides.
SymExpr FloorDivRest(const SymExpr& a, const SymExpr& b) {
  if (a == 0 || IsBelow(a, b)) return 0;
  const Node* node = Node::Of(a);
  // (x // m) // n = x // (m*n).
  if (node != nullptr && node->kind == Kind::kFloorDiv && IsPositive(b) &&
      IsPositive(node->b))
    return FloorDiv(node->a, node->b * b);
  return Node::MakeAtom(Kind::kFloorDiv, a, b);
}

}  // namespace

SymExpr FloorDiv(const SymExpr& a, const SymExpr& b) {
  if (IsOverflow(a) || IsOverflow(b)) return SymOverflow();
  if (b == 0) return Node::MakeAtom(Kind::kFloorDiv, a, b);
  if (a.is_constant() && b.is_constant()) {
    std::optional<int64_t> quotient = FloorDivInt(a.constant(), b.constant());
    return quotient ? SymExpr(*quotient) : SymOverflow();
  }
  if (std::optional<SymExpr> quotient = ExactDiv(a, b)) return *quotient;
  const SymTerms divisor_terms = TermsOf(b);
  if (divisor_terms.size() != 1) return FloorDivRest(a, b);
  SymTerm divisor = divisor_terms[0];
  if (divisor.coefficient < 0) {
    if (divisor.coefficient == INT64_MIN) return FloorDivRest(a, b);
    return FloorDiv(a * -1, b * -1);
  }
  const Split split = SplitByTerm(a, divisor);
  // floor((g*x + c) / (g*m)) = floor((x + floor(c/g)) / m): the constant need
  // not be divisible, unless symbols are cancelled as well.
  SymTerms rest = TermsOf(split.rest);
  const int64_t integer =
      CommonInteger(rest, divisor, /*with_constant=*/!divisor.atoms.empty());
  const Atoms atoms = CommonAtoms(rest, divisor);
  for (SymTerm& term : rest) {
    term.coefficient = *FloorDivInt(term.coefficient, integer);
    term.atoms = *DivideAtoms(term.atoms, atoms);
  }
  divisor.coefficient /= integer;
  divisor.atoms = *DivideAtoms(divisor.atoms, atoms);
  const SymExpr smaller = FromTerm(divisor.coefficient, divisor.atoms);
  const SymExpr dividend = FromTerms(std::move(rest));
  if (integer != 1 || !atoms.empty())
    return split.quotient + FloorDiv(dividend, smaller);
  return split.quotient + FloorDivRest(dividend, smaller);
}

SymExpr Mod(const SymExpr& a, const SymExpr& b) {
  if (IsOverflow(a) || IsOverflow(b)) return SymOverflow();
  if (b == 0) return Node::MakeAtom(Kind::kMod, a, b);
  if (a.is_constant() && b.is_constant())
    return *ModInt(a.constant(), b.constant());
  if (ExactDiv(a, b)) return 0;
  if (IsBelow(a, b)) return a;
  const SymTerms divisor_terms = TermsOf(b);
  if (divisor_terms.size() != 1) return Node::MakeAtom(Kind::kMod, a, b);
  SymTerm divisor = divisor_terms[0];
  if (divisor.coefficient < 0) {
    if (divisor.coefficient == INT64_MIN)
      return Node::MakeAtom(Kind::kMod, a, b);
    return Mod(a * -1, b * -1) * -1;
  }
  const Split split = SplitByTerm(a, divisor);
  if (IsBelow(split.rest, b)) return split.rest;
  // (g*x) mod (g*m) = g * (x mod m).
  SymTerms rest = TermsOf(split.rest);
  const int64_t integer = CommonInteger(rest, divisor, /*with_constant=*/true);
  const Atoms atoms = CommonAtoms(rest, divisor);
  if (integer == 1 && atoms.empty())
    return Node::MakeAtom(Kind::kMod, split.rest, b);
  for (SymTerm& term : rest) {
    term.coefficient /= integer;
    term.atoms = *DivideAtoms(term.atoms, atoms);
  }
  divisor.coefficient /= integer;
  divisor.atoms = *DivideAtoms(divisor.atoms, atoms);
  return FromTerm(integer, atoms) *
         Mod(FromTerms(std::move(rest)),
             FromTerm(divisor.coefficient, divisor.atoms));
}

// Long division: the leading term of the rest has to be a multiple of the
// divisor's leading term as long as there is a rest, because the order of
// terms is kept by multiplication.
std::optional<SymExpr> ExactDiv(const SymExpr& a, const SymExpr& b) {
  if (IsOverflow(a) || IsOverflow(b) || b == 0) return std::nullopt;
  if (a == b) return SymExpr(1);
  const SymTerms divisor = TermsOf(b);
  SymTerms quotient;
  SymExpr rest = a;
  for (int step = 0; step < kMaxSteps; ++step) {
    if (rest == 0) return FromTerms(std::move(quotient));
    if (IsOverflow(rest)) return std::nullopt;
    std::optional<SymTerm> next = DivideTerm(TermsOf(rest)[0], divisor[0]);
    if (!next) return std::nullopt;
    rest = rest - FromTerm(next->coefficient, next->atoms) * b;
    quotient.push_back(std::move(*next));
  }
  return std::nullopt;
}

}  // namespace tp
