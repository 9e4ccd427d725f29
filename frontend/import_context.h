// What every step of the import shares.
#ifndef TP_FRONTEND_IMPORT_CONTEXT_H_
#define TP_FRONTEND_IMPORT_CONTEXT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/alias_tracker.h"
#include "frontend/branch_log.h"
#include "ir/builder.h"
#include "ir/module.h"
#include "llvm/ADT/DenseMap.h"

namespace tp {

struct ImportContext {
  ImportContext(Module& module, Function& function)
      : module(module),
        builder(module, function.body()),
        aliases(builder, branches) {}

  const Location& location() const { return builder.location(); }

  // Whether the relation holds, as a guard where sizes decide it.
  absl::StatusOr<bool> Decide(const SymExpr& lhs, Relation relation,
                              const SymExpr& rhs, llvm::StringRef reason);
  // The value under the example sizes, which becomes a guard: for what needs
  // a number (a trip count, an element of a list).
  absl::StatusOr<int64_t> Concrete(const SymExpr& expr, llvm::StringRef reason);

  // A size that is known only when the model runs, at least `least`.
  SymExpr NewDataSize(int64_t least, int64_t hint);

  // "file:line in module: what"
  absl::Status Unsupported(llvm::StringRef what) const;
  absl::Status Invalid(llvm::StringRef what) const;
  // For the end of the import: the op without a row, where it was seen first.
  void AddMissing(const std::string& op);
  // The error about all ops that were missing; OK if there were none.
  absl::Status MissingOps() const;
  // Once per text.
  void AddNote(std::string note);

  Module& module;
  Builder builder;
  BranchLog branches;
  AliasTracker aliases;
  int num_data_sizes = 0;  // symbols of sizes that depend on data
  bool train = false;      // dropout stays
  bool strict = false;     // ops without a row are errors
  std::vector<SymbolValues> example_sizes;  // see ImportedModel
  std::vector<std::string> notes;
  std::map<std::string, Location> missing;
  // 0-dim weights whose content is known.
  llvm::DenseMap<const Value*, Attribute> known_scalars;
};

}  // namespace tp

#endif  // TP_FRONTEND_IMPORT_CONTEXT_H_
