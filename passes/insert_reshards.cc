// Makes every difference between what a value is and what a use wants
// explicit, as a tp.reshard just before the first use that wants it:
//
//   %1 = aten.mm(%x, %w) : f32[8,16] <P(sum)>
//   return %1
// becomes
//   %2 = tp.reshard(%1) : f32[8,16] <R>
//   return %2
//
// One reshard per value and placement serves all uses that see it: what a
// region makes is not seen outside, and what comes into a loop is made in
// front of it. Where a value exists
// whole, its parts are sliced from there instead of communicated. For
// training, whole operands of ops that run in pieces go through tp.copy, one
// per value and axis.
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "llvm/ADT/DenseMap.h"
#include "passes/gradients.h"
#include "passes/pass.h"
#include "passes/strategy.h"

namespace tp {
namespace {

class Inserter {
 public:
  Inserter(Module& module, Function& function, int axis,
           const PassContext& context)
      : module_(module),
        function_(function),
        axis_(axis),
        axis_size_(module.mesh().axis(axis).size),
        cost_(context.cost) {
    if (context.train) has_gradient_ = ValuesWithGradients(function);
  }

  absl::Status Run() {
    Block& body = function_.body();
    TP_RETURN_IF_ERROR(RunBlock(body));
    return absl::OkStatus();
  }

 private:
  // A block that is being walked, and how far.
  struct Scope {
    Block* block;
    OpList::iterator position;
    bool in_loop = false;  // `position` is a loop, whose body is walked
  };
  struct Copy {
    Value* value;
    size_t depth;  // of the block it is in
  };

  absl::Status RunBlock(Block& block) {
    const size_t depth = scopes_.size();
    for (const auto& argument : block.arguments())
      depth_[argument.get()] = depth;
    scopes_.push_back({&block, block.ops().begin()});
    for (auto it = block.ops().begin(); it != block.ops().end(); ++it) {
      Op& op = **it;
      scopes_.back().position = it;
      for (int i = 0; i < op.num_results(); ++i) depth_[op.result(i)] = depth;
      if (op.Is("tp.reshard") || op.Is("tp.copy")) continue;
      TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(op));
      TP_ASSIGN_OR_RETURN(Strategy strategy,
                          DeriveStrategy(op, rule, module_, axis_, cost_));
      for (int i = 0; i < op.num_operands(); ++i) {
        Value* operand = op.operand(i);
        if (operand == nullptr) continue;
        Value* given = Obtain(operand, strategy.operands[i], op.location());
        if (NeedsCopy(strategy, i) && has_gradient_.contains(operand))
          given = Copied(given, it, op.location());
        op.set_operand(i, given);
      }
      scopes_.back().in_loop = op.Is("tp.loop");
      for (const auto& region : op.regions())
        TP_RETURN_IF_ERROR(RunBlock(*region));
      scopes_.back().in_loop = false;
    }
    scopes_.back().position = block.ops().end();
    for (size_t i = 0; i < block.results().size(); ++i) {
      Value*& result = block.results()[i];
      const Placement wanted =
          depth == 0 ? ResultPlacement(module_, function_, i, axis_)
                     : Placement::Replicate();
      result = Obtain(result, wanted,
                      result->op() ? result->op()->location() : Location());
    }
    scopes_.pop_back();
    // Nobody sees it from outside.
    for (auto& [value, copies] : copies_)
      llvm::erase_if(copies,
                     [&](const Copy& copy) { return copy.depth >= depth; });
    return absl::OkStatus();
  }

  // The value in the wanted placement, made here if need be; what comes into
  // a loop from outside is made in front of it, once.
  Value* Obtain(Value* value, const Placement& wanted,
                const Location& location) {
    const Placement given = AxisPlacement(*value, axis_);
    if (SameLayout(given, wanted, axis_size_)) return value;
    auto& copies = copies_[value];
    Value* source = value;
    for (const Copy& copy : copies) {
      const Placement placement = AxisPlacement(*copy.value, axis_);
      if (SameLayout(placement, wanted, axis_size_)) return copy.value;
      if (placement.is_replicate() && wanted.is_shard()) source = copy.value;
    }
    size_t depth = depth_.lookup(source);
    while (depth + 1 < scopes_.size() && !scopes_[depth].in_loop) ++depth;
    Builder builder(module_, *scopes_[depth].block, scopes_[depth].position);
    builder.set_location(location);
    Op* op = builder.CreateTyped("tp.reshard", {source}, {}, {value->type()});
    ShardingSpec spec(value->spec().begin(), value->spec().end());
    spec.resize(module_.mesh().ndim());
    spec[axis_] = wanted;
    op->result()->set_spec(std::move(spec));
    depth_[op->result()] = depth;
    copies.push_back({op->result(), depth});
    return op->result();
  }

  // The tp.copy of a whole value. Those of weights come first, where they cut
  // no segment.
  Value* Copied(Value* value, OpList::iterator position,
                const Location& location) {
    Value*& copy = tp_copies_[value];
    if (copy != nullptr) return copy;
    Builder builder(
        module_, function_.body(),
        value->op() == nullptr ? function_.body().ops().begin() : position);
    builder.set_location(location);
    Op* op = builder.CreateTyped("tp.copy", {value},
                                 {{"axis", module_.mesh().axis(axis_).name}},
                                 {value->type()});
    op->result()->set_spec(
        ShardingSpec(value->spec().begin(), value->spec().end()));
    copy = op->result();
    return copy;
  }

  Module& module_;
  Function& function_;
  const int axis_;
  const int64_t axis_size_;
  const CostModel& cost_;
  llvm::DenseSet<const Value*> has_gradient_;  // empty unless training
  llvm::DenseMap<Value*, Value*> tp_copies_;
  std::vector<Scope> scopes_;  // outermost first
  // How many regions a value is defined in.
  llvm::DenseMap<const Value*, size_t> depth_;
  // Reshards of a value so far that are seen here, in program order.
  llvm::DenseMap<Value*, std::vector<Copy>> copies_;
};

}  // namespace

absl::Status InsertReshards(Module& module, const PassContext& context) {
  for (const auto& function : module.functions())
    for (int axis = 0; axis < module.mesh().ndim(); ++axis)
      TP_RETURN_IF_ERROR(Inserter(module, *function, axis, context).Run());
  return absl::OkStatus();
}

}  // namespace tp
