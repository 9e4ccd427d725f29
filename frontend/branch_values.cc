#include "frontend/branch_values.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "frontend/grown_list.h"
#include "frontend/runtime_numbers.h"
#include "frontend/weight_table.h"
#include "ir/status.h"

namespace tp {
namespace {

bool IsNumber(const Frozen& frozen) {
  return frozen.value.is_number() || frozen.value.is_runtime_number();
}

// A list with the frozen items, to be stacked.
ListValue ListOf(const Frozen& frozen, ImportContext& context) {
  ListValue list;
  if (frozen.value.is_grown_list()) {
    list.grown = context.aliases.NewTensor(frozen.content);
    list.grown_numbers = frozen.value.as_list()->grown_numbers;
    return list;
  }
  for (const Frozen& item : frozen.items) {
    if (item.value.is_tensor() && item.content != nullptr)
      list.items.push_back(context.aliases.NewTensor(item.content));
    else
      list.items.push_back(item.value);
  }
  return list;
}

void JoinElements(const TensorRef& grown, const Frozen& list,
                  ImportContext& context) {
  if (list.value.is_grown_list())
    context.aliases.Join(grown, list.value.as_list()->grown);
  for (const Frozen& item : list.items)
    if (item.value.is_tensor())
      context.aliases.Join(grown, item.value.as_tensor());
}

}  // namespace

absl::StatusOr<Frozen> Freeze(const AbstractValue& value,
                              ImportContext& context) {
  Frozen frozen;
  frozen.value = value;
  auto add = [&](const AbstractValue& item) -> absl::Status {
    TP_ASSIGN_OR_RETURN(Frozen inner, Freeze(item, context));
    frozen.items.push_back(std::move(inner));
    return absl::OkStatus();
  };
  if (value.is_tensor() || value.is_grown_list()) {
    absl::StatusOr<Value*> content = context.aliases.Read(
        value.is_tensor() ? value.as_tensor() : value.as_list()->grown);
    if (content.ok())
      frozen.content = *content;
    else
      frozen.unreadable = std::string(content.status().message());
    // What the list is now; it may change.
    if (value.is_grown_list())
      frozen.value = std::make_shared<ListValue>(*value.as_list());
  } else if (value.is_runtime_number()) {
    frozen.content = value.as_runtime_number();
  } else if (const auto* items = value.items()) {
    for (const AbstractValue& item : *items) TP_RETURN_IF_ERROR(add(item));
  } else if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict()->entries) {
      frozen.keys.push_back(key);
      TP_RETURN_IF_ERROR(add(item));
    }
  } else if (value.is_object() && value.as_object()->object == nullptr) {
    for (const auto& [name, item] : value.as_object()->attributes) {
      frozen.names.push_back(name);
      TP_RETURN_IF_ERROR(add(item));
    }
  }
  return frozen;
}

absl::StatusOr<Frozen> FreezeContainer(const AbstractValue& container,
                                       ImportContext& context) {
  TP_ASSIGN_OR_RETURN(Frozen frozen, Freeze(container, context));
  if (!container.is_object() || !frozen.names.empty()) return frozen;
  for (const auto& [name, item] : container.as_object()->attributes) {
    TP_ASSIGN_OR_RETURN(Frozen inner, Freeze(item, context));
    frozen.names.push_back(name);
    frozen.items.push_back(std::move(inner));
  }
  return frozen;
}

Frozen AlignedTo(const Frozen& like, const Frozen& object) {
  if (!like.value.is_object() || !object.value.is_object()) return object;
  Frozen aligned;
  aligned.value = object.value;
  aligned.names = like.names;
  for (size_t i = 0; i < like.names.size(); ++i) {
    auto found =
        std::find(object.names.begin(), object.names.end(), like.names[i]);
    aligned.items.push_back(found == object.names.end()
                                ? like.items[i]
                                : object.items[found - object.names.begin()]);
  }
  return aligned;
}

std::optional<TensorType> CommonType(const TensorType& a, const TensorType& b,
                                     ImportContext& context) {
  if (a.dtype != b.dtype || a.ndim() != b.ndim()) return std::nullopt;
  const Assumptions& assumptions = context.module.assumptions();
  TensorType common = a;
  for (int dim = 0; dim < a.ndim(); ++dim) {
    if (a.dims[dim] == b.dims[dim] ||
        assumptions.Known(a.dims[dim], Relation::kEq, b.dims[dim])
            .value_or(false))
      continue;
    const int64_t least =
        std::max<int64_t>(0, std::min(a.dims[dim].LowerBound().value_or(0),
                                      b.dims[dim].LowerBound().value_or(0)));
    const absl::StatusOr<int64_t> hint = assumptions.Hint(b.dims[dim]);
    common.dims[dim] = context.NewDataSize(least, hint.value_or(least));
  }
  return common;
}

bool SameValue(const Frozen& a, const Frozen& b) {
  const AbstractValue& x = a.value;
  const AbstractValue& y = b.value;
  if (x.is_none() || y.is_none()) return x.is_none() && y.is_none();
  if (x.is_unset() && y.is_unset()) return true;
  if (x.is_bool() && y.is_bool()) return x.as_bool() == y.as_bool();
  if (x.is_int() && y.is_int()) return x.as_int() == y.as_int();
  if (x.is_float() && y.is_float())
    return Attribute(x.as_float()) == Attribute(y.as_float());
  if (x.is_string() && y.is_string()) return x.as_string() == y.as_string();
  if (x.is_device() && y.is_device()) return x.as_device() == y.as_device();
  if (x.is_runtime_number() && y.is_runtime_number())
    return x.as_runtime_number() == y.as_runtime_number();
  if (x.is_tensor() && y.is_tensor())
    return x.as_tensor()->node == y.as_tensor()->node;
  if (x.is_object() && y.is_object()) return x.as_object() == y.as_object();
  if (x.is_dict() && y.is_dict()) return x.as_dict() == y.as_dict();
  if (x.is_list() && y.is_list()) return x.as_list() == y.as_list();
  if (x.is_tuple() && y.is_tuple() && a.items.size() == b.items.size())
    return std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                      SameValue);
  return false;
}

absl::StatusOr<Value*> Zeros(const TensorType& type, ImportContext& context) {
  Dims dims;
  for (const SymExpr& size : type.dims)
    dims.push_back(context.module.assumptions().DependsOnData(size) ? SymExpr(1)
                                                                    : size);
  TP_ASSIGN_OR_RETURN(
      Op * op, context.builder.Create("aten.zeros", {},
                                      {{"size", Attribute::Ints(dims)},
                                       {"dtype", Attribute(type.dtype)}}));
  return op->result();
}

template <typename Make>
auto BranchMerger::In(int branch, const Make& make) {
  Block& outer = context_.builder.block();
  context_.builder.MoveTo(*op_.regions()[branch]);
  auto made = make();
  context_.builder.MoveTo(outer);
  return made;
}

AbstractValue BranchMerger::Unknown(const std::string& why) const {
  return AbstractValue::Unknown(
      absl::StrCat(ToString(context_.location()),
                   ": after an 'if' that depends on data, ", why));
}

Value* BranchMerger::Result(Value* yes, Value* no, TensorType type) {
  if (yes == no) return yes;  // of outside
  Value*& result = results_[{yes, no}];
  if (result == nullptr) {
    op_.regions()[0]->results().push_back(yes);
    op_.regions()[1]->results().push_back(no);
    result = op_.AddResult(std::move(type));
  }
  return result;
}

absl::StatusOr<Value*> BranchMerger::MergeContents(Value* yes, Value* no) {
  if (yes == no) return yes;
  auto known = results_.find({yes, no});
  if (known != results_.end()) return known->second;
  std::optional<TensorType> type =
      CommonType(yes->type(), no->type(), context_);
  if (!type)
    return context_.Unsupported(
        absl::StrCat("a tensor is ", ToString(yes->type()),
                     " in one branch of an 'if' "
                     "that depends on data and ",
                     ToString(no->type()), " in the other"));
  return Result(yes, no, *std::move(type));
}

absl::StatusOr<Frozen> BranchMerger::Fill(const Frozen& like, int branch) {
  Frozen filled = like;
  if (like.value.is_tensor() && like.content != nullptr) {
    TP_ASSIGN_OR_RETURN(filled.content, In(branch, [&] {
                          return Zeros(like.content->type(), context_);
                        }));
    filled.value = context_.aliases.NewTensor(filled.content);
  } else if (IsNumber(like)) {
    switch (NumberDType(like.value)) {
      case DType::kBool:
        filled.value = false;
        break;
      case DType::kF64:
        filled.value = 0.0;
        break;
      default:
        filled.value = SymExpr(0);
    }
    // A known number needs no choice: nobody reads the other.
    if (like.value.is_number()) filled.value = like.value;
    filled.content = nullptr;
  }
  for (Frozen& item : filled.items) {
    TP_ASSIGN_OR_RETURN(item, Fill(item, branch));
  }
  return filled;
}

absl::StatusOr<AbstractValue> BranchMerger::Merge(const Frozen& yes,
                                                  const Frozen& no) {
  if (SameValue(yes, no)) return yes.value;
  if (yes.value.is_unset()) {
    if (no.value.is_unknown()) return no.value;
    TP_ASSIGN_OR_RETURN(Frozen filled, Fill(no, 0));
    return SameValue(filled, no) ? absl::StatusOr<AbstractValue>(no.value)
                                 : Merge(filled, no);
  }
  if (no.value.is_unset()) {
    if (yes.value.is_unknown()) return yes.value;
    TP_ASSIGN_OR_RETURN(Frozen filled, Fill(yes, 1));
    return SameValue(yes, filled) ? absl::StatusOr<AbstractValue>(yes.value)
                                  : Merge(yes, filled);
  }
  if (yes.value.is_unknown()) return yes.value;
  if (no.value.is_unknown()) return no.value;
  if (IsNumber(yes) && IsNumber(no)) return MergeNumbers(yes, no);
  if (yes.value.is_tensor() && no.value.is_tensor())
    return MergeTensors(yes, no);
  if (yes.value.is_list() && no.value.is_list()) return MergeLists(yes, no);
  if (yes.value.is_tuple() && no.value.is_tuple() &&
      yes.items.size() == no.items.size()) {
    TP_ASSIGN_OR_RETURN(std::vector<AbstractValue> items, MergeItems(yes, no));
    return AbstractValue::MakeTuple(std::move(items));
  }
  const bool dicts = yes.value.is_dict() && no.value.is_dict();
  const bool objects =
      yes.value.is_object() && no.value.is_object() &&
      yes.value.as_object()->type == no.value.as_object()->type;
  if (dicts || objects) {
    AbstractValue container;
    if (dicts) {
      container = std::make_shared<DictValue>();
    } else {
      auto object = std::make_shared<ObjectValue>();
      object->type = yes.value.as_object()->type;
      container = object;
    }
    TP_RETURN_IF_ERROR(MergeInto(container, yes, no));
    return container;
  }
  return Unknown(absl::StrCat(
      "a value is a ", yes.value.KindName(), " (", yes.value.ToString(),
      ") or a ", no.value.KindName(), " (", no.value.ToString(), ")"));
}

absl::StatusOr<AbstractValue> BranchMerger::MergeNumbers(const Frozen& yes,
                                                         const Frozen& no) {
  if (yes.value.is_bool() && no.value.is_bool() && yes.value.as_bool())
    return AbstractValue(RuntimeNumber{condition_});
  DType dtype = NumberDType(yes.value);
  if (NumberDType(no.value) != dtype) dtype = DType::kF64;
  TP_ASSIGN_OR_RETURN(Value * a, In(0, [&] {
                        return NumberValue(yes.value, context_, dtype);
                      }));
  TP_ASSIGN_OR_RETURN(
      Value * b, In(1, [&] { return NumberValue(no.value, context_, dtype); }));
  return AbstractValue(RuntimeNumber{Result(a, b, TensorType{dtype, {}})});
}

absl::StatusOr<AbstractValue> BranchMerger::MergeTensors(const Frozen& yes,
                                                         const Frozen& no) {
  if (yes.content == nullptr) return AbstractValue::Unknown(yes.unreadable);
  if (no.content == nullptr) return AbstractValue::Unknown(no.unreadable);
  const auto identity = std::pair<const void*, const void*>(
      yes.value.as_tensor()->node.get(), no.value.as_tensor()->node.get());
  auto known = merged_.find(identity);
  if (known != merged_.end()) return known->second;
  absl::StatusOr<Value*> content = MergeContents(yes.content, no.content);
  if (absl::IsUnimplemented(content.status()))
    return AbstractValue::Unknown(std::string(content.status().message()));
  if (!content.ok()) return content.status();
  TensorRef base = yes.value.as_tensor();
  // The caller sees writes to what belongs to it.
  if (base->node->storage->owner == TensorStorage::Owner::kTemporary)
    base = no.value.as_tensor();
  TensorRef tensor = context_.aliases.NewMaybeAlias(base, *content);
  context_.aliases.Join(tensor, yes.value.as_tensor());
  context_.aliases.Join(tensor, no.value.as_tensor());
  merged_[identity] = tensor;
  return AbstractValue(tensor);
}

absl::StatusOr<std::vector<AbstractValue>> BranchMerger::MergeItems(
    const Frozen& yes, const Frozen& no) {
  std::vector<AbstractValue> items;
  for (size_t i = 0; i < yes.items.size(); ++i) {
    TP_ASSIGN_OR_RETURN(AbstractValue item, Merge(yes.items[i], no.items[i]));
    items.push_back(std::move(item));
  }
  return items;
}

absl::StatusOr<std::shared_ptr<ListValue>> BranchMerger::MergeGrown(
    const Frozen& yes, const Frozen& no) {
  if (yes.content == nullptr && yes.value.is_grown_list())
    return context_.Unsupported(yes.unreadable);
  if (no.content == nullptr && no.value.is_grown_list())
    return context_.Unsupported(no.unreadable);
  const ListValue a = ListOf(yes, context_);
  const ListValue b = ListOf(no, context_);
  std::optional<ElementType> of_a = ElementTypeOf(a);
  std::optional<ElementType> of_b = ElementTypeOf(b);
  const bool a_is_empty = a.grown == nullptr && a.items.empty();
  const bool b_is_empty = b.grown == nullptr && b.items.empty();
  if (a_is_empty) of_a = of_b;
  if (b_is_empty) of_b = of_a;
  if (!of_a || !of_b || !(*of_a == *of_b))
    return context_.Unsupported(
        "a list has other lengths in the branches of an 'if' that depends on "
        "data; that is supported where all elements are alike, tensors of one "
        "type or numbers of one kind");
  TP_ASSIGN_OR_RETURN(Value * x,
                      In(0, [&] { return StackElements(a, *of_a, context_); }));
  TP_ASSIGN_OR_RETURN(Value * y,
                      In(1, [&] { return StackElements(b, *of_b, context_); }));
  TP_ASSIGN_OR_RETURN(Value * content, MergeContents(x, y));
  auto merged = std::make_shared<ListValue>();
  merged->grown = context_.aliases.NewTensor(content);
  merged->grown_numbers = of_a->numbers;
  JoinElements(merged->grown, yes, context_);
  JoinElements(merged->grown, no, context_);
  return merged;
}

absl::StatusOr<AbstractValue> BranchMerger::MergeLists(const Frozen& yes,
                                                       const Frozen& no) {
  if (!yes.value.is_grown_list() && !no.value.is_grown_list() &&
      yes.items.size() == no.items.size()) {
    TP_ASSIGN_OR_RETURN(std::vector<AbstractValue> items, MergeItems(yes, no));
    return AbstractValue::MakeList(std::move(items));
  }
  absl::StatusOr<std::shared_ptr<ListValue>> grown = MergeGrown(yes, no);
  if (absl::IsUnimplemented(grown.status()))
    return AbstractValue::Unknown(std::string(grown.status().message()));
  if (!grown.ok()) return grown.status();
  return AbstractValue(*grown);
}

absl::Status BranchMerger::MergeInto(const AbstractValue& container,
                                     const Frozen& yes, const Frozen& no) {
  context_.branches.Touch(container);
  if (container.is_list()) {
    ListValue& list = *container.as_list();
    if (!yes.value.is_grown_list() && !no.value.is_grown_list() &&
        yes.items.size() == no.items.size()) {
      TP_ASSIGN_OR_RETURN(list.items, MergeItems(yes, no));
      list.grown = nullptr;
      return absl::OkStatus();
    }
    TP_ASSIGN_OR_RETURN(std::shared_ptr<ListValue> merged, MergeGrown(yes, no));
    list = *merged;
    return absl::OkStatus();
  }
  if (container.is_dict()) {
    const bool alike =
        yes.keys.size() == no.keys.size() &&
        std::equal(yes.keys.begin(), yes.keys.end(), no.keys.begin(),
                   [](const AbstractValue& a, const AbstractValue& b) {
                     Frozen x, y;
                     x.value = a;
                     y.value = b;
                     return SameValue(x, y);
                   });
    if (!alike)
      return context_.Unsupported(
          "a dict has other keys in the branches of an 'if' that depends on "
          "data");
    TP_ASSIGN_OR_RETURN(std::vector<AbstractValue> items, MergeItems(yes, no));
    DictValue& dict = *container.as_dict();
    dict.entries.clear();
    for (size_t i = 0; i < items.size(); ++i)
      dict.entries.push_back({yes.keys[i], items[i]});
    return absl::OkStatus();
  }
  TP_ASSIGN_OR_RETURN(std::vector<AbstractValue> items,
                      MergeItems(yes, AlignedTo(yes, no)));
  const Frozen others = AlignedTo(no, yes);
  for (size_t i = 0; i < others.names.size(); ++i) {
    TP_ASSIGN_OR_RETURN(AbstractValue item,
                        Merge(others.items[i], no.items[i]));
    container.as_object()->attributes[others.names[i]] = item;
  }
  for (size_t i = 0; i < items.size(); ++i)
    container.as_object()->attributes[yes.names[i]] = items[i];
  return absl::OkStatus();
}

}  // namespace tp
