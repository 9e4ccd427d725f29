#include "frontend/view_ops.h"

#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

const Attribute* Find(const OpCall& call, llvm::StringRef name) {
  for (const NamedAttribute& attribute : call.attributes)
    if (attribute.name == name) return &attribute.value;
  return nullptr;
}

Value* Operand(const OpCall& call, size_t index) {
  if (index >= call.operands.size()) return nullptr;
  const auto* value = std::get_if<Value*>(&call.operands[index]);
  return value == nullptr ? nullptr : *value;
}

llvm::StringRef BaseName(llvm::StringRef name) {
  const size_t dot = name.find('.', name.find('.') + 1);
  return name.take_front(dot);
}

absl::StatusOr<OpCall> NormalizeNarrow(const OpCall& call,
                                       ImportContext& context) {
  const Attribute* dim = Find(call, "dim");
  const Attribute* start = Find(call, "start");
  const Attribute* length = Find(call, "length");
  if (dim == nullptr || start == nullptr || length == nullptr ||
      !start->is_int() || !length->is_int())
    return context.Unsupported("narrow() by a start known only at run time");
  OpCall slice{"aten.slice.Tensor", {call.operands[0]}, {}};
  slice.attributes = {{"dim", *dim},
                      {"start", *start},
                      {"end", start->as_int() + length->as_int()}};
  return slice;
}

}  // namespace

Aliasing AliasingOf(llvm::StringRef base_name, bool annotated) {
  return llvm::StringSwitch<Aliasing>(base_name)
      .Cases("aten.slice", "aten.select", "aten.transpose", "aten.t",
             "aten.numpy_T", Aliasing::kView)
      .Cases("aten.permute", "aten.view", "aten.unsqueeze", "aten.squeeze",
             "aten.expand", Aliasing::kView)
      .Cases("aten.detach", "aten.alias", "aten.unflatten", "aten.movedim",
             "aten.moveaxis", Aliasing::kView)
      .Cases("aten.swapaxes", "aten.swapdims", "aten.mT", "aten.adjoint",
             "aten.diagonal", Aliasing::kView)
      .Cases("aten.unfold", "aten.lift_fresh", Aliasing::kView)
      .Cases("aten.split", "aten.split_with_sizes", "aten.chunk",
             "aten.tensor_split", "aten.unbind", Aliasing::kViewPieces)
      // These share memory in some cases, but their schemas do not say so.
      .Cases("aten.einsum", "aten.atleast_1d", "aten.atleast_2d",
             "aten.atleast_3d", "aten.broadcast_tensors", Aliasing::kMaybe)
      .Cases("aten.meshgrid", "aten.rot90", "aten.cartesian_prod",
             Aliasing::kMaybe)
      .Default(annotated ? Aliasing::kMaybe : Aliasing::kFresh);
}

namespace {

// One dim has no order to lose: what is made from it is dense.
bool AllContiguous(llvm::ArrayRef<AbstractValue> arguments) {
  for (const AbstractValue& argument : arguments) {
    if (argument.is_tensor() && !argument.as_tensor()->node->contiguous &&
        argument.as_tensor()->type().ndim() > 1)
      return false;
    if (argument.items() != nullptr && !AllContiguous(*argument.items()))
      return false;
  }
  return true;
}

// These make memory of their own in the order of their result's dims.
bool AlwaysContiguous(const Op& op) {
  return llvm::StringSwitch<bool>(op.base_name())
      .Cases("aten.linear", "aten.mm", "aten.addmm", "aten.bmm",
             "aten.embedding", true)
      .Cases("aten.zeros", "aten.ones", "aten.full", "aten.arange",
             "aten.layer_norm", true)
      .Default(false);
}

// Views of a contiguous tensor that are contiguous themselves.
bool KeepsContiguous(const Op& op) {
  if (op.Is("aten.select") || op.Is("aten.slice"))
    return op.IntOr("dim", 0) == 0 && op.IntOr("step", 1) == 1;
  return op.Is("aten.view") || op.Is("aten.unsqueeze") ||
         op.Is("aten.squeeze") || op.Is("aten.reshape") ||
         op.Is("aten.flatten") || op.Is("aten.contiguous") ||
         op.Is("aten.unflatten") || op.Is("aten.detach");
}

}  // namespace

bool GivesContiguous(const Op& op, llvm::ArrayRef<AbstractValue> arguments) {
  if (AlwaysContiguous(op) || op.Is("aten.contiguous")) return true;
  if (KeepsContiguous(op))
    return arguments[0].is_tensor() &&
           arguments[0].as_tensor()->node->contiguous;
  const OpDef* def = FindOpDef(op);
  const bool elementwise = def != nullptr && def->rule == "pointwise";
  return (elementwise || op.Is("aten.softmax") || op.Is("aten.clone") ||
          op.Is("aten.cat")) &&
         AllContiguous(arguments);
}

absl::StatusOr<OpCall> NormalizeView(OpCall call, ImportContext& context) {
  const llvm::StringRef base = BaseName(call.name);
  if (base == "aten.narrow") return NormalizeNarrow(call, context);
  const bool like_other = base == "aten.expand_as" || base == "aten.view_as" ||
                          base == "aten.reshape_as";
  if (like_other) {
    Value* other = Operand(call, 1);
    if (other == nullptr) return context.Invalid("an absent tensor");
    const bool reshape = base == "aten.reshape_as";
    OpCall sized{
        base == "aten.expand_as" ? "aten.expand"
        : reshape                ? "aten.reshape"
                                 : "aten.view",
        {call.operands[0]},
        {{reshape ? "shape" : "size", Attribute::Ints(other->type().dims)}}};
    return sized;
  }
  if (base == "aten.broadcast_to") call.name = "aten.expand";
  if (base == "aten.concat" || base == "aten.concatenate")
    call.name = absl::StrCat("aten.cat", call.name.substr(base.size()));
  return call;
}

absl::StatusOr<std::vector<AbstractValue>> TrackResults(
    Op& op, Aliasing aliasing, const TensorRef& base, ImportContext& context) {
  std::vector<AbstractValue> results;
  if (aliasing == Aliasing::kView) {
    // An op that changes no dim of these changes nothing at all.
    const bool keeps = op.Is("aten.slice") || op.Is("aten.expand") ||
                       op.Is("aten.view") || op.Is("aten.squeeze") ||
                       op.Is("aten.lift_fresh") || op.Is("aten.alias");
    if (keeps && op.result()->type() == base->type())
      results.push_back(context.aliases.NewAlias(base));
    else
      results.push_back(context.aliases.NewView(
          base, ViewStep{op.name(), op.attributes()}, op.result()));
    return results;
  }
  if (aliasing == Aliasing::kViewPieces) {
    const bool unbind = op.Is("aten.unbind");
    const int ndim = base->type().ndim();
    int64_t dim = op.IntOr("dim", 0);
    if (dim < 0) dim += ndim;
    SymExpr start = 0;
    for (int i = 0; i < op.num_results(); ++i) {
      Value* piece = op.result(i);
      ViewStep step;
      if (unbind) {
        step = {"aten.select.int", {{"dim", dim}, {"index", i}}};
      } else {
        const SymExpr end = start + piece->type().dims[dim];
        step = {"aten.slice.Tensor",
                {{"dim", dim}, {"start", start}, {"end", end}}};
        start = end;
      }
      results.push_back(context.aliases.NewView(base, std::move(step), piece));
    }
    return results;
  }
  for (int i = 0; i < op.num_results(); ++i) {
    const bool same = op.Is("aten.reshape") || op.Is("aten.flatten");
    // A copy is needed only where the memory is in another order.
    if (base != nullptr && base->node->contiguous &&
        (same || op.Is("aten.contiguous")) &&
        !(op.result(i)->type() == base->type())) {
      results.push_back(context.aliases.NewView(
          base,
          ViewStep{"aten.view",
                   {{"size", Attribute::Ints(op.result(i)->type().dims)}}},
          op.result(i)));
      continue;
    }
    if (base != nullptr && base->node->contiguous && op.Is("aten.contiguous")) {
      results.push_back(context.aliases.NewAlias(base));
      continue;
    }
    if (aliasing != Aliasing::kMaybe || base == nullptr)
      results.push_back(context.aliases.NewTensor(op.result(i)));
    else if (same && op.result(i)->type() == base->type())
      results.push_back(context.aliases.NewAlias(base));
    else
      results.push_back(context.aliases.NewMaybeAlias(base, op.result(i)));
  }
  return results;
}

}  // namespace tp
