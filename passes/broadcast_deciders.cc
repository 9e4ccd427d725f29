// Whatever decides comes from the first rank, so that ranks can never go
// different ways and wait for each other in different collectives:
//
//   tp.if(%cond) ...
// becomes
//   %0 = tp.broadcast(%cond) {axis = "tp"} : bool[] <R>
//   tp.if(%0) ...
//
// Values that are whole are equal on all ranks by construction; a machine that
// rounds differently from its peers must cost a wrong last digit, not a
// deadlock.
#include "ir/builder.h"
#include "ir/collectives.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "passes/deciders.h"
#include "passes/pass.h"

namespace tp {
namespace {

Value* Broadcast(Value* value, Module& module, Block& block,
                 OpList::iterator position, const Location& location) {
  for (const MeshAxis& axis : module.mesh().axes()) {
    if (axis.size == 1 || IsDecided(value, axis.name)) continue;
    Builder builder(module, block, position);
    builder.set_location(location);
    Op* op = builder.CreateTyped(OpNameOf(CollectiveKind::kBroadcast), {value},
                                 {{"axis", axis.name}}, {value->type()});
    op->result()->set_spec(
        ShardingSpec(value->spec().begin(), value->spec().end()));
    value = op->result();
  }
  return value;
}

void BroadcastIn(Module& module, Block& block) {
  for (auto it = block.ops().begin(); it != block.ops().end(); ++it) {
    Op& op = **it;
    for (const auto& region : op.regions()) BroadcastIn(module, *region);
    if (!HasTrait(op, kRegions)) continue;
    const int deciders = op.Is("tp.loop") ? 2 : 1;
    for (int i = 0; i < deciders; ++i)
      if (op.operand(i) != nullptr)
        op.set_operand(
            i, Broadcast(op.operand(i), module, block, it, op.location()));
    if (!op.Is("tp.loop") || op.operand(1) == nullptr) continue;
    Block& body = *op.regions()[0];
    body.results()[0] = Broadcast(body.results()[0], module, body,
                                  body.ops().end(), op.location());
  }
}

}  // namespace

std::vector<const Value*> DecidersOf(const Op& op) {
  std::vector<const Value*> deciders;
  if (op.Is("tp.if")) deciders.push_back(op.operand(0));
  if (!op.Is("tp.loop")) return deciders;
  for (int i = 0; i < 2; ++i)
    if (op.operand(i) != nullptr) deciders.push_back(op.operand(i));
  if (op.operand(1) != nullptr)
    deciders.push_back(op.regions()[0]->results()[0]);
  return deciders;
}

bool IsDecided(const Value* value, const std::string& axis) {
  const Op* op = value->op();
  while (op != nullptr && op->Is("tp.broadcast")) {
    if (op->attribute("axis")->as_string() == axis) return true;
    op = op->operand(0)->op();
  }
  return op != nullptr && (op->Is("tp.sym") || op->Is("aten.full")) &&
         op->num_operands() == 0;
}

absl::Status BroadcastDeciders(Module& module, const PassContext&) {
  for (const auto& function : module.functions())
    BroadcastIn(module, function->body());
  return absl::OkStatus();
}

}  // namespace tp
