// Passes: functions from a module to a better module.
//
// A pass is one file `passes/<name>.cc` with one function declared here
// through passes.def, and a place in pipeline.cc.
#ifndef TP_PASSES_PASS_H_
#define TP_PASSES_PASS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ir/module.h"
#include "ir/search_report.h"
#include "ir/user_rules.h"
#include "llvm/ADT/ArrayRef.h"
#include "passes/cost_model.h"

namespace tp {

// A loss to put around the model's first output.
struct LossOptions {
  std::string kind;    // cross_entropy or mse; empty: none
  std::string labels;  // name of the input with the labels
  DType labels_dtype = DType::kI64;  // of cross_entropy
  int64_t shift = 0;   // position i is to predict label i + shift
};

struct PassContext {
  UserRules rules;
  CostModel cost;
  LossOptions loss;
  // Plans forward and backward: parameters are trained.
  bool train = false;
  // Parameters that the plan leaves whole are sharded at rest.
  bool zero3 = false;
  // Gathered parameters stay until the backward pass has used them; else
  // large ones are let go and gathered again.
  bool zero3_keep = false;
  // Called with the first name of each parameter that ZeRO-3 shards; may be
  // empty.
  std::function<void(const std::string&)> on_zero3;
  // Called by the search with what it says of its answer; may be empty.
  std::function<void(const SearchReport&)> on_search;
  // Remarks for the user, one line each; may be empty.
  std::function<void(const std::string&)> remark;
  // Called with the module after each pass of a pipeline; may be empty.
  std::function<void(int index, const std::string& pass, const Module&)> dump;

  void Remark(const std::string& text) const {
    if (remark) remark(text);
  }
};

#define TP_PASS(name, function, summary) \
  absl::Status function(Module& module, const PassContext& context);
#include "passes/passes.def"
#undef TP_PASS

using PassFn = absl::Status (*)(Module&, const PassContext&);

struct PassInfo {
  std::string name;
  std::string summary;
  PassFn run = nullptr;
};

// Every pass, in the order of passes.def.
const std::vector<PassInfo>& AllPasses();

// Runs passes by name; verifies the module after each. kNotFound lists the
// known names.
absl::Status RunPasses(Module& module, llvm::ArrayRef<std::string> names,
                       const PassContext& context);

// The passes from an imported module to one with collectives, in order; for
// training also to @backward and @reduce_gradients.
std::vector<std::string> PlanPipeline(bool train = false);

// The program of one rank of a module that PlanPipeline finished.
absl::StatusOr<std::unique_ptr<Module>> LocalizeForRank(const Module& module,
                                                        int64_t rank);

// All rank programs, proven to issue the same collectives in the same order.
absl::StatusOr<std::vector<std::unique_ptr<Module>>> MakeRankPrograms(
    const Module& module);

}  // namespace tp

#endif  // TP_PASSES_PASS_H_
