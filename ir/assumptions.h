// Symbols, and what a compilation assumed about them.
//
// Every decision that depends on a size (s0 == s1 when broadcasting, a
// branch on a length) is taken by the example sizes (hints) and recorded as
// a guard. tp-run checks the guards before anything runs.
#ifndef TP_IR_ASSUMPTIONS_H_
#define TP_IR_ASSUMPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/location.h"
#include "ir/sym_expr.h"
#include "ir/type.h"

namespace tp {

// A named size and where it is read: dim `dim` of the input named `input`.
struct SymbolInfo {
  std::string name;
  int64_t hint = 2;
  std::string input;  // "" for a size that depends on data
  int dim = 0;
  friend bool operator==(const SymbolInfo&, const SymbolInfo&) = default;
};

enum class Relation : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
std::string ToString(Relation relation);  // "==", "!=", ...
bool Holds(int64_t lhs, Relation relation, int64_t rhs);
Relation Negate(Relation relation);

// Prints as: guard seq <= 64 because "position ids" loc "gpt2.py":12 in "wpe"
struct Guard {
  SymExpr lhs;
  Relation relation = Relation::kEq;
  SymExpr rhs;
  std::string reason;
  Location location;

  std::string ToString() const;  // "seq <= 64"
  friend bool operator==(const Guard&, const Guard&) = default;
};

class Assumptions {
 public:
  // Names are unique; a repeated one is an internal error.
  SymExpr AddSymbol(SymbolInfo info);
  const std::vector<SymbolInfo>& symbols() const { return symbols_; }
  const std::vector<Guard>& guards() const { return guards_; }
  void AddGuard(Guard guard);  // keeps one of equal relations

  // Whether a symbol of the expression is known only while the program runs.
  bool DependsOnData(const SymExpr& expr) const;

  // The value under the hints.
  absl::StatusOr<int64_t> Hint(const SymExpr& expr) const;

  // Whether the relation holds: proven, or decided by the hints, in which
  // case the outcome taken becomes a guard. kUnimplemented where it depends on
  // data, which no guard can check before the program runs.
  absl::StatusOr<bool> Decide(const SymExpr& lhs, Relation relation,
                              const SymExpr& rhs, llvm::StringRef reason,
                              const Location& location);
  // As Decide, but an error (kInvalidArgument) if it does not hold.
  absl::Status Require(const SymExpr& lhs, Relation relation,
                       const SymExpr& rhs, llvm::StringRef reason,
                       const Location& location);
  // Whether it is known without a new guard (proven for all symbol values
  // >= 1, or by guards taken); nothing if unknown.
  std::optional<bool> Known(const SymExpr& lhs, Relation relation,
                            const SymExpr& rhs) const;

  // The expression with every symbol that a guard set equal to another
  // expression replaced by it.
  SymExpr Simplify(const SymExpr& expr) const;

 private:
  // Makes Simplify replace one side by the other where one is a symbol: the
  // later-added of two symbols.
  void Identify(const SymExpr& lhs, const SymExpr& rhs);

  std::vector<SymbolInfo> symbols_;
  std::vector<Guard> guards_;
  SymbolValues hints_;
  llvm::StringMap<SymExpr> equal_;
};

}  // namespace tp

#endif  // TP_IR_ASSUMPTIONS_H_
