// Walks the graphs of a model with abstract values in place of tensors:
// calls are followed, branches on sizes and attributes decided, loops
// unrolled. What is left, one ATen op after the other, goes into the IR.
#ifndef TP_FRONTEND_GRAPH_INTERPRETER_H_
#define TP_FRONTEND_GRAPH_INTERPRETER_H_

#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/branch_log.h"
#include "frontend/import_context.h"
#include "frontend/weight_table.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

class GraphInterpreter {
 public:
  GraphInterpreter(ImportContext& context, WeightTable& weights)
      : context_(context), weights_(weights) {}

  // Runs the method of the object; `arguments` without self. The result may
  // be unknown where the model uses ops without a row: see
  // ImportContext::MissingOps.
  absl::StatusOr<AbstractValue> CallMethod(
      const AbstractValue::Object& object, const std::string& method,
      std::vector<AbstractValue> arguments);

 private:
  using Values = std::vector<AbstractValue>;
  // One activation of a graph.
  struct Frame {
    std::unordered_map<const torch::jit::Value*, AbstractValue> values;
    std::string module_path;
    Location location;  // the last one known
  };

  absl::StatusOr<AbstractValue> Call(torch::jit::Function& function,
                                     Values arguments,
                                     const std::string& module_path);
  absl::Status RunBlock(const torch::jit::Block& block, Frame& frame);
  absl::Status RunNode(const torch::jit::Node& node, Frame& frame);
  absl::StatusOr<Values> Evaluate(const torch::jit::Node& node, Frame& frame);
  absl::StatusOr<Values> RunIf(const torch::jit::Node& node, Frame& frame);
  absl::StatusOr<Values> RunLoop(const torch::jit::Node& node, Frame& frame);
  // Both ways, as a tp.if.
  absl::StatusOr<Values> RunIfAtRunTime(const torch::jit::Node& node,
                                        Frame& frame, Value* condition);
  // The rounds of a loop from `done` on, as a tp.loop; `carried` without the
  // trip count and the condition.
  struct LoopState {
    AbstractValue limit;  // of all rounds
    AbstractValue condition;
    int64_t done = 0;
    Values carried;
  };
  absl::StatusOr<Values> RunLoopAtRunTime(const torch::jit::Node& node,
                                          Frame& frame, LoopState state);
  struct LoopRound;
  absl::Status RunRound(const torch::jit::Node& node, Frame& frame,
                        const LoopState& state, LoopRound& round);
  absl::StatusOr<Values> FinishLoop(LoopRound& round, std::unique_ptr<Op> op);
  // Sets out to import a branch; `trace` notes what it does.
  void BeginBranch(BranchTrace& trace);
  absl::StatusOr<Values> RunOp(const torch::jit::Node& node,
                               const Values& arguments);
  absl::StatusOr<Values> RunCall(const torch::jit::Node& node,
                                 const Values& arguments, Frame& frame);
  absl::StatusOr<Values> RunObjectOp(const torch::jit::Node& node,
                                     const Values& arguments);
  absl::StatusOr<bool> IsTrue(const AbstractValue& condition);
  Values Arguments(c10::ArrayRef<const torch::jit::Value*> inputs,
                   const Frame& frame) const;

  ImportContext& context_;
  WeightTable& weights_;
  std::vector<Frame*> frames_;  // of all calls, outermost first
  int depth_ = 0;
  int64_t iterations_ = 0;
};

}  // namespace tp

#endif  // TP_FRONTEND_GRAPH_INTERPRETER_H_
