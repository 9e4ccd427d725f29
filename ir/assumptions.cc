#include "ir/assumptions.h"

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

constexpr std::string_view kRelations[] = {"==", "!=", "<", "<=", ">", ">="};

// The relation with its sides exchanged.
Relation Mirror(Relation relation) {
  switch (relation) {
    case Relation::kLt:
      return Relation::kGt;
    case Relation::kLe:
      return Relation::kGe;
    case Relation::kGt:
      return Relation::kLt;
    case Relation::kGe:
      return Relation::kLe;
    default:
      return relation;
  }
}

// The range that `difference relation 0` leaves to an integer.
struct Range {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
};

Range RangeOf(Relation relation) {
  switch (relation) {
    case Relation::kEq:
      return {0, 0};
    case Relation::kLt:
      return {std::nullopt, -1};
    case Relation::kLe:
      return {std::nullopt, 0};
    case Relation::kGt:
      return {1, std::nullopt};
    case Relation::kGe:
      return {0, std::nullopt};
    case Relation::kNe:
      break;
  }
  return {};
}

// Narrows `range` of x to what is also in `other` of x + offset.
void Narrow(Range& range, const Range& other, int64_t offset) {
  int64_t end;
  if (other.low && !__builtin_sub_overflow(*other.low, offset, &end))
    range.low = std::max(range.low.value_or(end), end);
  if (other.high && !__builtin_sub_overflow(*other.high, offset, &end))
    range.high = std::min(range.high.value_or(end), end);
}

// Whether all, none or only some integers of the range are in the relation
// to 0.
std::optional<bool> Judge(const Range& range, Relation relation) {
  const bool positive = range.low && *range.low > 0;
  const bool not_negative = range.low && *range.low >= 0;
  const bool negative = range.high && *range.high < 0;
  const bool not_positive = range.high && *range.high <= 0;
  auto decide = [](bool yes, bool no) -> std::optional<bool> {
    if (yes) return true;
    if (no) return false;
    return std::nullopt;
  };
  switch (relation) {
    case Relation::kEq:
      return decide(not_negative && not_positive, positive || negative);
    case Relation::kNe:
      return decide(positive || negative, not_negative && not_positive);
    case Relation::kLt:
      return decide(negative, not_negative);
    case Relation::kLe:
      return decide(not_positive, positive);
    case Relation::kGt:
      return decide(positive, not_positive);
    case Relation::kGe:
      break;
  }
  return decide(not_negative, negative);
}

absl::Status DataError(const SymExpr& lhs, Relation relation,
                       const SymExpr& rhs, llvm::StringRef reason,
                       const Location& location) {
  const std::string where = ToString(location);
  return absl::UnimplementedError(absl::StrCat(
      where.empty() ? "" : where + ": ", reason.str(), " asks whether ",
      lhs.ToString(), " ", ToString(relation), " ", rhs.ToString(),
      ", a size that depends on data and is known only when the model runs"));
}

}  // namespace

std::string ToString(Relation relation) {
  return std::string(kRelations[static_cast<size_t>(relation)]);
}

bool Holds(int64_t lhs, Relation relation, int64_t rhs) {
  switch (relation) {
    case Relation::kEq:
      return lhs == rhs;
    case Relation::kNe:
      return lhs != rhs;
    case Relation::kLt:
      return lhs < rhs;
    case Relation::kLe:
      return lhs <= rhs;
    case Relation::kGt:
      return lhs > rhs;
    case Relation::kGe:
      break;
  }
  return lhs >= rhs;
}

Relation Negate(Relation relation) {
  switch (relation) {
    case Relation::kEq:
      return Relation::kNe;
    case Relation::kNe:
      return Relation::kEq;
    case Relation::kLt:
      return Relation::kGe;
    case Relation::kLe:
      return Relation::kGt;
    case Relation::kGt:
      return Relation::kLe;
    case Relation::kGe:
      break;
  }
  return Relation::kLt;
}

std::string Guard::ToString() const {
  return absl::StrCat(lhs.ToString(), " ", tp::ToString(relation), " ",
                      rhs.ToString());
}

SymExpr Assumptions::AddSymbol(SymbolInfo info) {
  TP_CHECK(!hints_.count(info.name),
           "the symbol '" + info.name + "' is declared twice");
  hints_[info.name] = info.hint;
  symbols_.push_back(std::move(info));
  return SymExpr::Symbol(symbols_.back().name);
}

void Assumptions::AddGuard(Guard guard) {
  for (const Guard& other : guards_) {
    const bool same = other.relation == guard.relation &&
                      other.lhs == guard.lhs && other.rhs == guard.rhs;
    const bool mirrored = other.relation == Mirror(guard.relation) &&
                          other.lhs == guard.rhs && other.rhs == guard.lhs;
    if (same || mirrored) return;
  }
  if (guard.relation == Relation::kEq) Identify(guard.lhs, guard.rhs);
  guards_.push_back(std::move(guard));
}

void Assumptions::Identify(const SymExpr& lhs, const SymExpr& rhs) {
  SymExpr from = Simplify(lhs);
  SymExpr to = Simplify(rhs);
  if (from == to) return;
  auto order = [this](const SymExpr& expr) -> std::optional<size_t> {
    std::optional<llvm::StringRef> name = expr.AsSymbol();
    if (!name) return std::nullopt;
    for (size_t i = 0; i < symbols_.size(); ++i)
      if (*name == symbols_[i].name) return i;
    return std::nullopt;
  };
  const std::optional<size_t> from_order = order(from);
  const std::optional<size_t> to_order = order(to);
  if (!from_order || (to_order && *from_order < *to_order)) std::swap(from, to);
  std::optional<llvm::StringRef> name = from.AsSymbol();
  if (!name) return;
  // A symbol that its own replacement holds would never go away.
  llvm::StringSet<> symbols;
  to.CollectSymbols(symbols);
  if (symbols.contains(*name)) return;
  llvm::StringMap<SymExpr> replacement;
  replacement[*name] = to;
  for (auto& entry : equal_)
    entry.second = entry.second.Substitute(replacement);
  equal_[*name] = to;
}

bool Assumptions::DependsOnData(const SymExpr& expr) const {
  if (expr.is_constant()) return false;
  llvm::StringSet<> used;
  expr.CollectSymbols(used);
  for (const SymbolInfo& symbol : symbols_)
    if (symbol.input.empty() && used.contains(symbol.name)) return true;
  return false;
}

absl::StatusOr<int64_t> Assumptions::Hint(const SymExpr& expr) const {
  return expr.Evaluate(hints_);
}

std::optional<bool> Assumptions::Known(const SymExpr& lhs, Relation relation,
                                       const SymExpr& rhs) const {
  const SymExpr difference = Simplify(lhs - rhs);
  Range range{difference.LowerBound(), std::nullopt};
  const SymExpr opposite = difference * -1;
  if (std::optional<int64_t> low = opposite.LowerBound())
    if (*low != INT64_MIN) range.high = -*low;
  if (std::optional<bool> known = Judge(range, relation)) return known;
  // A guard on the same expression up to a constant narrows the range.
  for (const Guard& guard : guards_) {
    const SymExpr taken = Simplify(guard.lhs - guard.rhs);
    std::optional<int64_t> offset = (taken - difference).AsConstant();
    Relation taken_relation = guard.relation;
    if (!offset) {
      offset = (taken * -1 - difference).AsConstant();
      taken_relation = Mirror(taken_relation);
    }
    if (!offset) continue;
    if (taken_relation != Relation::kNe)
      Narrow(range, RangeOf(taken_relation), *offset);
    else if (*offset == 0 && relation == Relation::kEq)
      return false;
    else if (*offset == 0 && relation == Relation::kNe)
      return true;
  }
  return Judge(range, relation);
}

absl::StatusOr<bool> Assumptions::Decide(const SymExpr& lhs, Relation relation,
                                         const SymExpr& rhs,
                                         llvm::StringRef reason,
                                         const Location& location) {
  if (std::optional<bool> known = Known(lhs, relation, rhs)) return *known;
  if (DependsOnData(lhs) || DependsOnData(rhs))
    return DataError(lhs, relation, rhs, reason, location);
  TP_ASSIGN_OR_RETURN(const int64_t left, Hint(lhs));
  TP_ASSIGN_OR_RETURN(const int64_t right, Hint(rhs));
  const bool holds = Holds(left, relation, right);
  AddGuard(Guard{lhs, holds ? relation : Negate(relation), rhs, reason.str(),
                 location});
  return holds;
}

absl::Status Assumptions::Require(const SymExpr& lhs, Relation relation,
                                  const SymExpr& rhs, llvm::StringRef reason,
                                  const Location& location) {
  std::optional<bool> known = Known(lhs, relation, rhs);
  if (known && *known) return absl::OkStatus();
  std::string values;
  bool holds = false;
  if (!known && (DependsOnData(lhs) || DependsOnData(rhs)))
    return DataError(lhs, relation, rhs, reason, location);
  if (!known) {
    TP_ASSIGN_OR_RETURN(const int64_t left, Hint(lhs));
    TP_ASSIGN_OR_RETURN(const int64_t right, Hint(rhs));
    holds = Holds(left, relation, right);
    values = absl::StrCat(" (", left, " and ", right, " in the examples)");
  }
  if (!holds) {
    const std::string where = tp::ToString(location);
    return absl::InvalidArgumentError(absl::StrCat(
        reason.str(), " needs ", lhs.ToString(), " ", tp::ToString(relation),
        " ", rhs.ToString(), ", which does not hold", values,
        where.empty() ? "" : " at ", where));
  }
  AddGuard(Guard{lhs, relation, rhs, reason.str(), location});
  return absl::OkStatus();
}

SymExpr Assumptions::Simplify(const SymExpr& expr) const {
  if (equal_.empty() || expr.is_constant()) return expr;
  return expr.Substitute(equal_);
}

}  // namespace tp
