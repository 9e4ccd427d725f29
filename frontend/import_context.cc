#include "frontend/import_context.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

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
  TP_ASSIGN_OR_RETURN(int64_t hint, module.assumptions().Hint(expr));
  AddNote(absl::StrCat(ToString(location()), ": ", reason.str(), " fixes ",
                       expr.ToString(), " to ", hint));
  TP_RETURN_IF_ERROR(module.assumptions().Require(expr, Relation::kEq, hint,
                                                  reason, location()));
  return hint;
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
