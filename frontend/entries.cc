#include "frontend/entries.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/entry_weights.h"
#include "ir/status.h"
#include "ir/weights_by_name.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

absl::StatusOr<ImportedModel> ImportEntry(
    const EntrySource& source, std::unique_ptr<Module> module,
    const std::shared_ptr<const WeightSource>& given) {
  TP_ASSIGN_OR_RETURN(
      ImportedModel model,
      ImportTorchScript(source.path, source.options, std::move(module)));
  if (given == nullptr) return model;
  std::vector<std::string> kept;
  TP_ASSIGN_OR_RETURN(model.weights,
                      ReplaceWeights(*model.module->functions().back(),
                                     model.weights, given, &kept));
  if (!kept.empty())
    model.notes.push_back(absl::StrCat(
        kept.size(), " buffers (", kept[0], kept.size() > 1 ? ", ..." : "",
        ") are not among the given weights; the model's own are used"));
  return model;
}

}  // namespace

absl::StatusOr<ImportedEntries> ImportEntries(
    llvm::ArrayRef<EntrySource> sources,
    std::shared_ptr<const WeightSource> given) {
  ImportedEntries entries;
  std::vector<std::shared_ptr<const WeightSource>> weights;
  for (const EntrySource& source : sources) {
    absl::StatusOr<ImportedModel> model =
        ImportEntry(source, std::move(entries.module), given);
    if (!model.ok())
      return sources.size() == 1
                 ? model.status()
                 : Annotate(model.status(),
                            absl::StrCat("entry ", source.options.entry));
    entries.module = std::move(model->module);
    weights.push_back(std::move(model->weights));
    for (std::string& note : model->notes)
      if (!llvm::is_contained(entries.notes, note))
        entries.notes.push_back(std::move(note));
    entries.example_sizes.push_back(std::move(model->example_sizes));
    entries.arguments.push_back(std::move(model->arguments));
  }
  if (sources.size() == 1) {
    entries.weights = std::move(weights[0]);
    return entries;
  }
  TP_ASSIGN_OR_RETURN(entries.weights, ShareWeights(*entries.module, weights));
  return entries;
}

absl::Status CheckExamples(const ImportedEntries& entries,
                           llvm::ArrayRef<EntrySource> sources) {
  for (size_t i = 0; i < sources.size(); ++i)
    TP_RETURN_IF_ERROR(CheckExamples(*entries.module, entries.example_sizes[i],
                                     sources[i].options));
  return absl::OkStatus();
}

}  // namespace tp
