#include "frontend/import_context.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {

absl::StatusOr<bool> ImportContext::Decide(const SymExpr& lhs,
                                           Relation relation,
                                           const SymExpr& rhs,
                                           llvm::StringRef reason) {
  return module.assumptions().Decide(lhs, relation, rhs, reason, location());
}

absl::StatusOr<int64_t> ImportContext::Concrete(const SymExpr& expr,
                                                llvm::StringRef reason) {
  if (std::optional<int64_t> known = expr.AsConstant()) return *known;
  if (module.assumptions().DependsOnData(expr))
    return Unsupported(absl::StrCat(reason.str(), " is ", expr.ToString(),
                                    ", which depends on data and is known only "
                                    "when the model runs"));
  TP_ASSIGN_OR_RETURN(int64_t hint, module.assumptions().Hint(expr));
  AddNote(absl::StrCat(ToString(location()), ": ", reason.str(), " fixes ",
                       expr.ToString(), " to ", hint));
  TP_RETURN_IF_ERROR(module.assumptions().Require(expr, Relation::kEq, hint,
                                                  reason, location()));
  return hint;
}

SymExpr ImportContext::NewDataSize(int64_t least, int64_t hint) {
  SymbolInfo info;
  do {
    info.name = absl::StrCat("data", num_data_sizes++);
  } while (llvm::any_of(
      module.assumptions().symbols(),
      [&](const SymbolInfo& other) { return other.name == info.name; }));
  // Symbols are at least 1.
  info.hint = std::max<int64_t>(1, hint - least + 1);
  return module.assumptions().AddSymbol(std::move(info)) + (least - 1);
}

absl::Status ImportContext::Unsupported(llvm::StringRef what) const {
  return absl::UnimplementedError(
      absl::StrCat(ToString(location()), ": ", what.str()));
}

absl::Status ImportContext::Invalid(llvm::StringRef what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(ToString(location()), ": ", what.str()));
}

void ImportContext::AddMissing(const std::string& op) {
  missing.try_emplace(op, location());
}

absl::Status ImportContext::MissingOps() const {
  if (missing.empty()) return absl::OkStatus();
  std::string text = missing.size() == 1
                         ? "an operator of the model has no row in the op "
                           "table:"
                         : "operators of the model have no row in the op "
                           "table:";
  for (const auto& [op, where] : missing)
    absl::StrAppend(&text, "\n  ", op, " at ", ToString(where));
  absl::StrAppend(&text,
                  "\nLeave --strict out to run them whole on every rank, or "
                  "write that part of the model with operators that tp-opt "
                  "--show-rules lists");
  return absl::UnimplementedError(text);
}

void ImportContext::AddNote(std::string note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end())
    notes.push_back(std::move(note));
}

}  // namespace tp
