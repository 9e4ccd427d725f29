#include "frontend/alias_tracker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

std::optional<int64_t> ConstantInt(const ViewStep& step, llvm::StringRef name) {
  for (const NamedAttribute& attribute : step.attributes)
    if (attribute.name == name) return attribute.value.AsConstantInt();
  return std::nullopt;
}

// The permutation that undoes aten.permute with these `dims`.
std::optional<std::vector<int64_t>> InversePermutation(const ViewStep& step) {
  for (const NamedAttribute& attribute : step.attributes) {
    if (attribute.name != "dims") continue;
    auto dims = attribute.value.AsInts();
    if (!dims) return std::nullopt;
    const int64_t ndim = static_cast<int64_t>(dims->size());
    std::vector<int64_t> inverse(dims->size());
    for (int64_t i = 0; i < ndim; ++i) {
      std::optional<int64_t> dim = (*dims)[i].AsConstant();
      if (!dim || *dim < -ndim || *dim >= ndim) return std::nullopt;
      inverse[*dim < 0 ? *dim + ndim : *dim] = i;
    }
    return inverse;
  }
  return std::nullopt;
}

}  // namespace

TensorRef AliasTracker::NewTensor(Value* value) {
  auto node = std::make_shared<ViewNode>();
  node->storage = NewStorage();
  node->type = value->type();
  node->value = value;
  return std::make_shared<TensorHandle>(TensorHandle{std::move(node)});
}

TensorRef AliasTracker::NewScalar(Attribute scalar, DType dtype) {
  auto node = std::make_shared<ViewNode>();
  node->storage = NewStorage();
  node->type = TensorType{dtype, {}};
  node->scalar = std::move(scalar);
  return std::make_shared<TensorHandle>(TensorHandle{std::move(node)});
}

TensorRef AliasTracker::NewOwned(Value* argument, TensorStorage::Owner owner,
                                 std::string name,
                                 std::optional<Attribute> scalar) {
  TensorRef tensor = NewTensor(argument);
  TensorStorage& storage = *tensor->node->storage;
  storage.owner = owner;
  storage.name = std::move(name);
  // tp-run passes inputs so; weights lie as the archive has them.
  tensor->node->contiguous = owner == TensorStorage::Owner::kInput;
  if (scalar) storage.fixed = "whose content was used to decide things";
  tensor->node->scalar = std::move(scalar);
  owned_.push_back({argument, tensor->node});
  return tensor;
}

TensorRef AliasTracker::NewView(const TensorRef& base, ViewStep step,
                                Value* value) {
  auto node = std::make_shared<ViewNode>();
  node->storage = base->node->storage;
  node->parent = base->node;
  node->step = std::move(step);
  node->type = value->type();
  node->value = value;
  node->version = node->storage->version;
  return std::make_shared<TensorHandle>(TensorHandle{std::move(node)});
}

TensorRef AliasTracker::NewAlias(const TensorRef& base) {
  return std::make_shared<TensorHandle>(TensorHandle{base->node});
}

TensorRef AliasTracker::NewMaybeAlias(const TensorRef& base, Value* value) {
  TensorRef tensor = NewTensor(value);
  TensorStorage& storage = *base->node->storage;
  TensorStorage& copy = *tensor->node->storage;
  copy.owner = storage.owner;
  copy.name = storage.name;
  copy.fixed = "or to a copy of it (this depends on strides)";
  Join(base, tensor);
  return tensor;
}

std::shared_ptr<TensorStorage> AliasTracker::NewStorage() {
  auto storage = std::make_shared<TensorStorage>();
  storage->serial = next_serial_++;
  return storage;
}

int AliasTracker::GroupOf(const std::shared_ptr<TensorStorage>& storage) {
  if (storage->group < 0) {
    storage->group = static_cast<int>(groups_.size());
    groups_.push_back({storage});
  }
  return storage->group;
}

void AliasTracker::Join(const TensorRef& a, const TensorRef& b) {
  if (a->node->storage == b->node->storage) return;
  const int to = GroupOf(a->node->storage);
  const int from = GroupOf(b->node->storage);
  if (to == from) return;
  for (auto& storage : groups_[from]) {
    storage->group = to;
    groups_[to].push_back(std::move(storage));
  }
  groups_[from].clear();
}

void AliasTracker::Taint(const std::shared_ptr<TensorStorage>& storage,
                         const std::string& where) {
  if (!storage->tainted.empty()) return;
  log_.OnUndo([storage] { storage->tainted.clear(); });
  storage->tainted = where;
  log_.Tainted(storage, where);
}

void AliasTracker::Log(ViewNode& node) {
  if (!log_.open()) return;
  log_.OnUndo([self = node.shared_from_this(), value = node.value,
               version = node.version, scalar = node.scalar] {
    self->value = value;
    self->version = version;
    self->scalar = scalar;
  });
}

std::shared_ptr<ViewNode> AliasTracker::Whole(const TensorRef& tensor) {
  std::shared_ptr<ViewNode> node = tensor->node;
  while (node->parent != nullptr) node = node->parent;
  return node;
}

absl::StatusOr<Value*> AliasTracker::ReadWhole(
    const std::shared_ptr<ViewNode>& whole) {
  return ReadNode(*whole);
}

absl::Status AliasTracker::SetWhole(const std::shared_ptr<ViewNode>& whole,
                                    Value* value) {
  return WriteNode(*whole, value);
}

absl::StatusOr<Value*> AliasTracker::Read(const TensorRef& tensor) {
  return ReadNode(*tensor->node);
}

std::optional<Attribute> AliasTracker::Scalar(const TensorRef& tensor) const {
  const ViewNode& node = *tensor->node;
  if (node.version != node.storage->version || !node.storage->tainted.empty())
    return std::nullopt;
  return node.scalar;
}

absl::StatusOr<Value*> AliasTracker::ReadNode(ViewNode& node) {
  TensorStorage& storage = *node.storage;
  if (!storage.tainted.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        ToString(builder_.location()),
        ": reads a tensor that may or may not share memory with one written "
        "in place at ",
        storage.tainted,
        " (this depends on strides); write .clone() where a copy is meant, "
        "or .view() in place of .reshape() where it is not"));
  }
  if (node.value != nullptr && node.version == storage.version)
    return node.value;
  Log(node);
  if (node.parent == nullptr) {
    TP_ASSIGN_OR_RETURN(node.value, Materialize(node));
  } else {
    TP_ASSIGN_OR_RETURN(Value * parent, ReadNode(*node.parent));
    TP_ASSIGN_OR_RETURN(node.value, Apply(node.step, parent));
    node.scalar.reset();
  }
  node.version = storage.version;
  return node.value;
}

absl::StatusOr<Value*> AliasTracker::Materialize(const ViewNode& node) {
  TP_CHECK(node.scalar.has_value(), "a tensor without content");
  if (node.scalar->is_int() && node.type.dtype == DType::kI64) {
    TP_ASSIGN_OR_RETURN(
        Op * op, builder_.Create("tp.sym", {}, {{"value", *node.scalar}}));
    return op->result();
  }
  TP_ASSIGN_OR_RETURN(Op * op,
                      builder_.Create("aten.full", {},
                                      {{"size", Attribute(Attribute::List())},
                                       {"fill_value", *node.scalar},
                                       {"dtype", Attribute(node.type.dtype)}}));
  return op->result();
}

absl::StatusOr<Value*> AliasTracker::Apply(const ViewStep& step,
                                           Value* operand) {
  if (step.op.empty()) return operand;
  std::vector<OperandArg> operands = {operand};
  operands.insert(operands.end(), step.operands.begin(), step.operands.end());
  TP_ASSIGN_OR_RETURN(
      Op * op, builder_.Create(step.op, std::move(operands), step.attributes));
  return op->result();
}

absl::Status AliasTracker::CheckWritable(const TensorRef& tensor) const {
  const TensorStorage& storage = *tensor->node->storage;
  if (storage.owner == TensorStorage::Owner::kTemporary ||
      storage.fixed.empty())
    return absl::OkStatus();
  const bool input = storage.owner == TensorStorage::Owner::kInput;
  return absl::UnimplementedError(absl::StrCat(
      ToString(builder_.location()), ": writes in place to ",
      input ? "the input '" : "the weight or buffer '", storage.name, "' ",
      storage.fixed, "; clone it first where the write need not be kept"));
}

absl::Status AliasTracker::Write(const TensorRef& tensor, Value* value) {
  TP_RETURN_IF_ERROR(CheckWritable(tensor));
  return WriteNode(*tensor->node, value);
}

absl::Status AliasTracker::WriteNode(ViewNode& node, Value* value) {
  TensorStorage& storage = *node.storage;
  if (node.parent == nullptr) {
    log_.OnUndo([kept = node.storage, version = storage.version] {
      kept->version = version;
    });
    storage.version = ++last_version_;
    log_.Wrote(node.shared_from_this());
    if (storage.group >= 0) {
      for (const auto& other : groups_[storage.group])
        if (other.get() != &storage)
          Taint(other, ToString(builder_.location()));
    }
  } else {
    TP_ASSIGN_OR_RETURN(Value * parent, ReadNode(*node.parent));
    TP_ASSIGN_OR_RETURN(Value * inverse, Invert(node, parent, value));
    TP_RETURN_IF_ERROR(WriteNode(*node.parent, inverse));
  }
  Log(node);
  node.value = value;
  node.version = storage.version;
  node.scalar.reset();
  return absl::OkStatus();
}

absl::StatusOr<Value*> AliasTracker::Invert(const ViewNode& node, Value* parent,
                                            Value* value) {
  const ViewStep& step = node.step;
  const TensorType& whole = node.parent->type;
  auto create =
      [&](const char* name, std::vector<OperandArg> operands,
          std::vector<NamedAttribute> attributes) -> absl::StatusOr<Value*> {
    TP_ASSIGN_OR_RETURN(Op * op, builder_.Create(name, std::move(operands),
                                                 std::move(attributes)));
    return op->result();
  };
  // The same elements: nothing of the parent is left.
  if (step.op.empty() || step.op == "aten.detach") return value;
  if (step.op == "aten.slice.Tensor")
    return create("aten.slice_scatter", {parent, value}, step.attributes);
  if (step.op == "aten.index_select")
    return create("aten.index_copy", {parent, step.operands[0], value},
                  step.attributes);
  if (step.op == "aten.select.int")
    return create("aten.select_scatter", {parent, value}, step.attributes);
  if (step.op == "aten.transpose.int")
    return create("aten.transpose.int", {value}, step.attributes);
  if (step.op == "aten.t" || step.op == "aten.numpy_T") {
    std::vector<int64_t> dims;
    for (int i = whole.ndim(); i-- > 0;) dims.push_back(i);
    return create("aten.permute", {value}, {{"dims", Attribute::Ints(dims)}});
  }
  if (step.op == "aten.permute") {
    if (auto dims = InversePermutation(step))
      return create("aten.permute", {value},
                    {{"dims", Attribute::Ints(*dims)}});
  }
  if (step.op == "aten.unsqueeze") {
    if (auto dim = ConstantInt(step, "dim"))
      return create("aten.squeeze.dim", {value}, {{"dim", *dim}});
  }
  // Views that keep the order of the elements.
  if (step.op == "aten.view" || step.op == "aten.squeeze" ||
      step.op == "aten.squeeze.dim" || step.op == "aten.squeeze.dims" ||
      step.op == "aten.unflatten.int" || step.op == "aten.reshape" ||
      step.op == "aten.flatten.using_ints" || step.op == "aten.view_as")
    return create("aten.reshape", {value},
                  {{"shape", Attribute::Ints(whole.dims)}});
  return absl::UnimplementedError(
      absl::StrCat(ToString(builder_.location()),
                   ": writes in place through a view made "
                   "by ",
                   step.op,
                   ", whose elements may overlap or are not tracked; clone "
                   "the tensor first"));
}

absl::StatusOr<std::vector<AliasTracker::Written>>
AliasTracker::WrittenArguments() {
  std::vector<Written> written;
  for (const auto& [argument, node] : owned_) {
    if (node->storage->version == 0) continue;
    TP_ASSIGN_OR_RETURN(Value * content, ReadNode(*node));
    if (content != argument) written.push_back({argument, content});
  }
  return written;
}

void AliasTracker::Rebind(const TensorRef& tensor, ViewStep step,
                          Value* value) {
  log_.OnUndo([tensor, node = tensor->node] { tensor->node = node; });
  tensor->node = NewView(tensor, std::move(step), value)->node;
}

}  // namespace tp
