// One spelling per idea, so that rules are written once:
//
//   linear(x, w, b)            -> add(linear(x, w), b)
//   addmm(b, x, w)             -> add(mm(x, w), b)
//   view, flatten, unflatten   -> reshape to the result's sizes
//   chunk, split               -> split_with_sizes
//   a fused encoder layer      -> its norms, products and attention
//   dropout off, contiguous, detach, a cast to the own dtype, a slice of
//   everything, an expand to the own sizes -> nothing
//
// then equal ops are merged and unused ones erased. A bias is split off
// because it must be added once, after the sum over ranks; localize fuses it
// back where no collective came between.
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/replacements.h"
#include "ir/status.h"
#include "ir/text.h"
#include "ir/uses.h"
#include "passes/expand_fused.h"
#include "passes/pass.h"

namespace tp {
namespace {

// What an op is replaced by: one value per result; empty keeps the op.
using Replacement = std::vector<Value*>;

bool SameType(const Value* a, const Value* b) { return a->type() == b->type(); }

// Ops that give back their operand when the type does not change. Their
// copies and strides mean nothing here: every value is immutable, and
// reshape copies where a view cannot be.
// Training keeps detach, which stops gradients.
bool IsIdentity(const Op& op, bool train) {
  if (train && op.Is("aten.detach")) return false;
  if (op.num_operands() == 0 || op.operand(0) == nullptr ||
      op.num_results() != 1)
    return false;
  static constexpr llvm::StringLiteral kNames[] = {
      "aten.contiguous", "aten.detach",       "aten.alias",
      "aten.clone",      "aten.to",           "aten.type_as",
      "aten.expand",     "aten.expand_as",    "aten.broadcast_to",
      "aten.reshape",    "aten.view",         "aten.flatten",
      "aten.unflatten",  "aten._unsafe_view", "aten.lift_fresh",
      "aten.view_as",    "aten.reshape_as"};
  if (op.Is("aten.view.dtype")) return false;
  for (llvm::StringRef name : kNames)
    if (op.Is(name)) return SameType(op.operand(0), op.result());
  if (op.Is("aten.slice") || op.Is("aten.narrow"))
    return op.IntOr("step", 1) == 1 && SameType(op.operand(0), op.result());
  if (op.Is("aten.dropout") || op.Is("aten.feature_dropout"))
    return !op.BoolOr("train", true) || op.FloatOr("p", 0.5) == 0;
  return false;
}

class Canonicalizer {
 public:
  Canonicalizer(Module& module, Block& block, bool train)
      : module_(module), block_(block), train_(train) {}

  absl::Status Run() {
    TP_RETURN_IF_ERROR(RewriteBlock(block_));
    Replacements merged;
    MergeEqualOps(block_, {}, merged);
    EraseDeadOps(block_);
    while (PruneBranches(block_)) EraseDeadOps(block_);
    return absl::OkStatus();
  }

 private:
  absl::Status RewriteBlock(Block& block) {
    for (auto it = block.ops().begin(); it != block.ops().end();) {
      auto current = it++;
      replaced_.ApplyTo(**current);
      for (const auto& region : (*current)->regions())
        TP_RETURN_IF_ERROR(RewriteBlock(*region));
      TP_ASSIGN_OR_RETURN(Replacement replacement, Rewrite(block, current));
      if (replacement.empty()) continue;
      for (int i = 0; i < (*current)->num_results(); ++i)
        replaced_.Set((*current)->result(i), replacement[i]);
      gone_.splice(gone_.end(), block.ops(), current);
    }
    replaced_.ApplyToResults(block);
    return absl::OkStatus();
  }

  absl::StatusOr<Replacement> Rewrite(Block& block, OpList::iterator it) {
    Op& op = **it;
    if (IsIdentity(op, train_)) return Replacement{op.operand(0)};
    Builder builder(module_, block, it);
    builder.set_location(op.location());
    if (op.Is("aten.linear") && op.operand_or_null(2) != nullptr)
      return AddBias(builder, "aten.linear", op.operand(0), op.operand(1),
                     op.operand(2));
    if (op.Is("aten.addmm") && op.IntOr("beta", 1) == 1 &&
        op.IntOr("alpha", 1) == 1 && op.FloatOr("beta", 1) == 1 &&
        op.FloatOr("alpha", 1) == 1)
      return AddBias(builder, "aten.mm", op.operand(1), op.operand(2),
                     op.operand(0));
    if (op.Is("aten.view.dtype")) return Replacement{};
    if (op.Is("aten.view") || op.Is("aten.flatten") ||
        op.Is("aten.unflatten") || op.Is("aten._unsafe_view") ||
        op.Is("aten.view_as") || op.Is("aten.reshape_as"))
      return ToReshape(builder, op);
    if (op.Is("aten.chunk") || op.Is("aten.split"))
      return ToSplitWithSizes(builder, op);
    TP_ASSIGN_OR_RETURN(Replacement expanded, ExpandFused(op, builder));
    if (!expanded.empty()) return expanded;
    SpellSizesOut(op);
    return Replacement{};
  }

  absl::StatusOr<Replacement> AddBias(Builder& builder, const char* product,
                                      Value* x, Value* weight, Value* bias) {
    TP_ASSIGN_OR_RETURN(Op * multiplied, builder.Create(product, {x, weight}));
    TP_ASSIGN_OR_RETURN(
        Op * added,
        builder.Create("aten.add.Tensor", {multiplied->result(), bias}));
    return Replacement{added->result()};
  }

  absl::StatusOr<Replacement> ToReshape(Builder& builder, const Op& op) {
    const TensorType& type = op.result()->type();
    Op* reshaped =
        builder.CreateTyped("aten.reshape", {op.operand(0)},
                            {{"shape", Attribute::Ints(type.dims)}}, {type});
    return Replacement{reshaped->result()};
  }

  absl::StatusOr<Replacement> ToSplitWithSizes(Builder& builder, const Op& op) {
    int64_t dim = op.IntOr("dim", 0);
    if (dim < 0) dim += op.operand(0)->type().ndim();
    llvm::SmallVector<SymExpr, 4> sizes;
    std::vector<TensorType> types;
    for (int i = 0; i < op.num_results(); ++i) {
      types.push_back(op.result(i)->type());
      sizes.push_back(types.back().dims[dim]);
    }
    Op* split = builder.CreateTyped(
        "aten.split_with_sizes", {op.operand(0)},
        {{"split_sizes", Attribute::Ints(sizes)}, {"dim", dim}}, types);
    Replacement results;
    for (int i = 0; i < split->num_results(); ++i)
      results.push_back(split->result(i));
    return results;
  }

  // Sizes such as -1 are resolved on the whole tensor, before any split.
  void SpellSizesOut(Op& op) {
    const OpDef* def = FindOpDef(op);
    if (def == nullptr || def->sizes_attribute.empty()) return;
    if (op.attribute(def->sizes_attribute) == nullptr) return;
    op.SetAttribute(def->sizes_attribute,
                    Attribute::Ints(op.result()->type().dims));
  }

  static bool MayMerge(const Op& op) {
    const OpDef* def = FindOpDef(op);
    return def != nullptr && !(def->traits & kRandom) && op.regions().empty();
  }

  // Names, operands and attributes; equal keys compute equal values.
  static std::string KeyOf(const Op& op) {
    std::string key = op.name();
    for (const OperandSlot& slot : op.slots())
      absl::StrAppend(&key, slot.is_list ? "[" : "(", slot.size);
    for (const Value* operand : op.operands())
      absl::StrAppend(&key, ",", reinterpret_cast<uintptr_t>(operand));
    for (const NamedAttribute& attribute : op.attributes())
      absl::StrAppend(&key, ";", attribute.name, "=",
                      attribute.value.ToString());
    return key;
  }

  // `first`: the ops that are seen in the block, which those of its regions may
  // be merged with, but not the other way round.
  static void MergeEqualOps(Block& block, std::map<std::string, Op*> first,
                            Replacements& merged) {
    for (const auto& op : block.ops()) {
      merged.ApplyTo(*op);
      for (const auto& region : op->regions())
        MergeEqualOps(*region, first, merged);
      if (!MayMerge(*op)) continue;
      auto [it, inserted] = first.try_emplace(KeyOf(*op), op.get());
      if (inserted) continue;
      for (int i = 0; i < op->num_results(); ++i)
        merged.Set(op->result(i), it->second->result(i));
    }
    merged.ApplyToResults(block);
  }

  // Results of tp.if that nobody uses are not yielded. Returns whether there
  // were any.
  static bool PruneBranches(Block& block) {
    const UseCounts uses(block);
    bool pruned = false;
    ForEachOp(block, [&](Op& op) {
      if (!op.Is("tp.if")) return;
      for (int i = op.num_results(); i-- > 0;) {
        if (uses.IsUsed(*op.result(i))) continue;
        op.RemoveResult(i);
        for (const auto& region : op.regions())
          region->results().erase(region->results().begin() + i);
        pruned = true;
      }
    });
    return pruned;
  }

  Module& module_;
  Block& block_;
  const bool train_;
  Replacements replaced_;
  // A rewritten op stays until all its users know, for values are looked up
  // by address.
  OpList gone_;
};

// Gradients of control flow are not planned.
absl::Status RefuseRegions(const Module& module) {
  const Op* found = nullptr;
  for (const auto& function : module.functions())
    ForEachOp(function->body(), [&](const Op& op) {
      if (found == nullptr && HasTrait(op, kRegions)) found = &op;
    });
  if (found == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      ToString(found->location()),
      ": control flow that depends on data cannot be trained yet; compute "
      "both ways and choose by torch.where"));
}

}  // namespace

absl::Status Canonicalize(Module& module, const PassContext& context) {
  if (context.train) TP_RETURN_IF_ERROR(RefuseRegions(module));
  for (const auto& function : module.functions())
    TP_RETURN_IF_ERROR(
        Canonicalizer(module, function->body(), context.train).Run());
  return absl::OkStatus();
}

}  // namespace tp
