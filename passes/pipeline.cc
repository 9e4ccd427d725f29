#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace tp {

const std::vector<PassInfo>& AllPasses() {
  static const auto* const passes = new std::vector<PassInfo>{
#define TP_PASS(name, function, summary) {name, summary, &function},
#include "passes/passes.def"
#undef TP_PASS
  };
  return *passes;
}

std::vector<std::string> PlanPipeline(bool train) {
  std::vector<std::string> names = {
      "add_loss",            // of --loss
      "expand_dropout",      // ranks make their parts of its masks
      "canonicalize",        // rules are written for one spelling only
      "infer_shapes",        // types agree with what canonicalize left
      "annotate",            // the user's word comes first
      "search",              // everything else by cost
      "place_pins",          // the user has the last word, too
      "zero3",               // nothing lies whole on every rank
      "insert_reshards",     // make the differences explicit
      "drop_pins",           // which hold what they were to hold
      "lower_reshards",      // and carry them out
      "broadcast_deciders",  // ranks never part ways
      "check_placements",    // nothing is written that is not proven
  };
  if (train) {
    names.push_back("differentiate");
    names.push_back("lower_reshards");    // those of @backward
    names.push_back("check_placements");  // of it, too
    names.push_back("check_gradients");
  }
  return names;
}

absl::Status RunPasses(Module& module, llvm::ArrayRef<std::string> names,
                       const PassContext& context) {
  int index = 0;
  for (const std::string& name : names) {
    const PassInfo* pass = nullptr;
    for (const PassInfo& candidate : AllPasses())
      if (candidate.name == name) pass = &candidate;
    if (pass == nullptr) {
      std::string known = absl::StrJoin(
          AllPasses(), ", ", [](std::string* out, const PassInfo& info) {
            absl::StrAppend(out, info.name);
          });
      return absl::NotFoundError(absl::StrCat("there is no pass named \"", name,
                                              "\"; the passes are ", known));
    }
    if (absl::Status status = pass->run(module, context); !status.ok())
      return Annotate(status, name);
    if (absl::Status status = Verify(module); !status.ok())
      return absl::InternalError(absl::StrCat(
          "pass ", name, " left an invalid module: ", status.message()));
    if (context.dump) context.dump(index, name, module);
    ++index;
  }
  return absl::OkStatus();
}

}  // namespace tp
