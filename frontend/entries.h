// Several TorchScript files, or methods of one, as functions of one module
// over one set of weights.
#ifndef TP_FRONTEND_ENTRIES_H_
#define TP_FRONTEND_ENTRIES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/torchscript_importer.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

struct EntrySource {
  std::string path;
  ImportOptions options;  // `options.entry` is the function's name
};

struct ImportedEntries {
  std::unique_ptr<Module> module;  // functions in the order of the entries
  std::shared_ptr<const WeightSource> weights;
  std::vector<std::string> notes;
  // By entry, as in ImportedModel.
  std::vector<std::vector<SymbolValues>> example_sizes;
  std::vector<std::vector<ModelArgument>> arguments;
};

// Imports every entry. `given`, if it is set, replaces the archives' weights
// (see ReplaceWeights). The errors of ImportTorchScript, ReplaceWeights and
// ShareWeights; where there are several entries, they name the entry.
absl::StatusOr<ImportedEntries> ImportEntries(
    llvm::ArrayRef<EntrySource> sources,
    std::shared_ptr<const WeightSource> given = nullptr);

// CheckExamples of every entry.
absl::Status CheckExamples(const ImportedEntries& entries,
                           llvm::ArrayRef<EntrySource> sources);

}  // namespace tp

#endif  // TP_FRONTEND_ENTRIES_H_
