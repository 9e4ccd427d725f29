#include "passes/fuse_local.h"

#include <iterator>

#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/replacements.h"
#include "ir/schedule.h"
#include "ir/uses.h"

namespace tp {
namespace {

bool IsProduct(const Value* value) {
  const Op* op = value->op();
  if (op == nullptr) return false;
  return op->Is("aten.mm") ||
         (op->Is("aten.linear") && op->operand_or_null(2) == nullptr);
}

bool IsRowOf(const Value* bias, const Value* product) {
  return bias->type().ndim() == 1 && product->type().ndim() >= 2 &&
         bias->type().dtype == product->type().dtype &&
         bias->type().dims.back() == product->type().dims.back();
}

bool MustStay(const Op& op) {
  bool stays = Communicates(KindOf(op)) || HasTrait(op, kBoundary) ||
               HasEffects(op) ||
               (op.num_results() == 0 && op.regions().empty());
  for (const auto& region : op.regions())
    for (const auto& nested : region->ops()) stays = stays || MustStay(*nested);
  return stays;
}

// Erases what nobody uses, last first. A collective stays: a rank with an
// empty part may not need what the others do, but must take part in it. So
// does the boundary of a segment, to which @backward refers.
void EraseDeadLocalOps(Block& body, UseCounts& uses) {
  for (auto it = body.ops().end(); it != body.ops().begin();) {
    auto current = std::prev(it);
    const Op& op = **current;
    bool used = MustStay(op);
    for (int i = 0; i < op.num_results(); ++i)
      used |= uses.IsUsed(*op.result(i));
    if (used) {
      for (const auto& region : op.regions()) EraseDeadLocalOps(*region, uses);
      it = current;
      continue;
    }
    uses.Remove(op);
    it = body.ops().erase(current);
  }
}

void FuseBlock(Module& module, Block& body, const UseCounts& uses,
               Replacements& replaced, OpList& gone) {
  for (auto it = body.ops().begin(); it != body.ops().end();) {
    auto current = it++;
    Op& op = **current;
    replaced.ApplyTo(op);
    for (const auto& region : op.regions())
      FuseBlock(module, *region, uses, replaced, gone);
    Value* product = nullptr;
    Value* bias = nullptr;
    if (op.Is("aten.add.Tensor") && op.attributes().empty()) {
      for (int i = 0; i < 2 && product == nullptr; ++i) {
        if (!IsProduct(op.operand(i)) || uses.Direct(op.operand(i)) != 1 ||
            !IsRowOf(op.operand(1 - i), op.operand(i)))
          continue;
        product = op.operand(i);
        bias = op.operand(1 - i);
      }
    }
    if (product == nullptr) continue;
    Builder builder(module, body, current);
    builder.set_location(product->op()->location());
    Value* x = product->op()->operand(0);
    Value* weight = product->op()->operand(1);
    Op* fused = product->op()->Is("aten.mm")
                    ? builder.CreateTyped("aten.addmm", {bias, x, weight}, {},
                                          {op.result()->type()})
                    : builder.CreateTyped("aten.linear", {x, weight, bias}, {},
                                          {op.result()->type()});
    fused->result()->set_spec(
        ShardingSpec(op.result()->spec().begin(), op.result()->spec().end()));
    replaced.Set(op.result(), fused->result());
    gone.splice(gone.end(), body.ops(), current);
  }
  replaced.ApplyToResults(body);
}

}  // namespace

void FuseLocal(Module& module, Function& function) {
  Block& body = function.body();
  Replacements replaced;
  OpList gone;
  FuseBlock(module, body, UseCounts(body), replaced, gone);
  UseCounts uses(body);
  EraseDeadLocalOps(body, uses);
}

}  // namespace tp
