#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace tp {

namespace {

absl::Status InferBlock(Block& block, Module& module) {
  for (const auto& op : block.ops()) {
    for (const auto& region : op->regions())
      TP_RETURN_IF_ERROR(InferBlock(*region, module));
    // Typed where they are made; what has no row, by the importer.
    if (FindOpDef(*op) == nullptr || HasTrait(*op, kRegions)) continue;
    TP_ASSIGN_OR_RETURN(std::vector<TensorType> types,
                        InferTypes(*op, module.assumptions()));
    if (static_cast<int>(types.size()) != op->num_results())
      return absl::InternalError(absl::StrCat(
          "the op table gives ", types.size(), " results: ", Print(*op)));
    for (int i = 0; i < op->num_results(); ++i)
      op->result(i)->set_type(std::move(types[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InferShapes(Module& module, const PassContext&) {
  for (const auto& function : module.functions())
    TP_RETURN_IF_ERROR(InferBlock(function->body(), module));
  return absl::OkStatus();
}

}  // namespace tp
