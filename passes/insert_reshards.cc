// Makes every difference between what a value is and what a use wants
// explicit, as a tp.reshard just before the first use that wants it:
//
//   %1 = aten.mm(%x, %w) : f32[8,16] <P(sum)>
//   return %1
// becomes
//   %2 = tp.reshard(%1) : f32[8,16] <R>
//   return %2
//
// One reshard per value and placement serves all uses. Where a value exists
// whole, its parts are sliced from there instead of communicated.
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "llvm/ADT/DenseMap.h"
#include "passes/pass.h"
#include "passes/strategy.h"

namespace tp {
namespace {

class Inserter {
 public:
  Inserter(Module& module, Function& function, int axis,
           const CostModel& cost)
      : module_(module), function_(function), axis_(axis),
        axis_size_(module.mesh().axis(axis).size), cost_(cost) {}

  absl::Status Run() {
    Block& body = function_.body();
    for (auto it = body.ops().begin(); it != body.ops().end(); ++it) {
      Op& op = **it;
      if (op.Is("tp.reshard")) continue;
      TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(op));
      TP_ASSIGN_OR_RETURN(Strategy strategy,
                          DeriveStrategy(op, rule, module_, axis_, cost_));
      for (int i = 0; i < op.num_operands(); ++i)
        if (op.operand(i) != nullptr)
          op.set_operand(i, Obtain(op.operand(i), strategy.operands[i], it,
                                   op.location()));
    }
    for (Value*& result : body.results())
      result = Obtain(result, Placement::Replicate(), body.ops().end(),
                      result->op() ? result->op()->location() : Location());
    return absl::OkStatus();
  }

 private:
  // The value in the wanted placement, made before `position` if need be.
  Value* Obtain(Value* value, const Placement& wanted, OpList::iterator position,
                const Location& location) {
    const Placement given = PlacementOn(*value, axis_);
    if (SameLayout(given, wanted, axis_size_)) return value;
    auto& copies = copies_[value];
    Value* source = value;
    for (Value* copy : copies) {
      const Placement placement = PlacementOn(*copy, axis_);
      if (SameLayout(placement, wanted, axis_size_)) return copy;
      if (placement.is_replicate() && wanted.is_shard()) source = copy;
    }
    Builder builder(module_, function_.body(), position);
    builder.set_location(location);
    Op* op = builder.CreateTyped("tp.reshard", {source}, {}, {value->type()});
    ShardingSpec spec(value->spec().begin(), value->spec().end());
    spec.resize(module_.mesh().ndim());
    spec[axis_] = wanted;
    op->result()->set_spec(std::move(spec));
    copies.push_back(op->result());
    return op->result();
  }

  Module& module_;
  Function& function_;
  const int axis_;
  const int64_t axis_size_;
  const CostModel& cost_;
  // Reshards of a value so far, in program order.
  llvm::DenseMap<Value*, std::vector<Value*>> copies_;
};

}  // namespace

absl::Status InsertReshards(Module& module, const PassContext& context) {
  for (const auto& function : module.functions())
    for (int axis = 0; axis < module.mesh().ndim(); ++axis)
      TP_RETURN_IF_ERROR(Inserter(module, *function, axis, context.cost).Run());
  return absl::OkStatus();
}

}  // namespace tp
