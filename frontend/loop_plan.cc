#include "frontend/loop_plan.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "frontend/grown_list.h"
#include "frontend/runtime_numbers.h"
#include "frontend/weight_table.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

bool IsNumber(const Frozen& frozen) {
  return frozen.value.is_number() || frozen.value.is_runtime_number();
}

std::string Below(const std::string& path, size_t index) {
  return absl::StrCat(path, ".", index);
}

Frozen Unset() {
  Frozen unset;
  unset.value = AbstractValue(UnknownValue{"a variable that is not set", true});
  return unset;
}

// What is before the loop at the place of element `index`.
Frozen ItemOf(const Frozen& container, size_t index) {
  return index < container.items.size() ? container.items[index] : Unset();
}

std::optional<ElementType> ElementTypeOf(const Frozen& list) {
  if (list.value.is_grown_list()) return ElementTypeOf(*list.value.as_list());
  ListValue copy;
  for (const Frozen& item : list.items) copy.items.push_back(item.value);
  return ElementTypeOf(copy);
}

bool IsEmptyList(const Frozen& list) {
  return list.value.is_list() && !list.value.is_grown_list() &&
         list.items.empty();
}

// The number of elements, if it is known.
SymExpr LengthOf(const Frozen& list) {
  if (list.value.is_grown_list())
    return list.value.as_list()->grown->type().dims[0];
  return static_cast<int64_t>(list.items.size());
}

bool SameKeys(const Frozen& a, const Frozen& b) {
  if (a.keys.size() != b.keys.size()) return false;
  for (size_t i = 0; i < a.keys.size(); ++i) {
    Frozen x, y;
    x.value = a.keys[i];
    y.value = b.keys[i];
    if (!SameValue(x, y)) return false;
  }
  return true;
}

// Whether both are containers of the same shape.
bool SameShape(const Frozen& a, const Frozen& b) {
  if (a.value.is_grown_list() || b.value.is_grown_list()) return false;
  if (a.items.size() != b.items.size()) return false;
  if (a.value.is_tuple() && b.value.is_tuple()) return true;
  if (a.value.is_list() && b.value.is_list()) return true;
  if (a.value.is_object() && b.value.is_object()) return a.names == b.names;
  return a.value.is_dict() && b.value.is_dict() && SameKeys(a, b);
}

}  // namespace

bool LoopPlan::HasBelow(const std::string& path) const {
  auto next = slots.lower_bound(path + ".");
  return next != slots.end() && absl::StartsWith(next->first, path + ".");
}

LoopTrial::Carried* LoopTrial::Find(const std::string& path) {
  auto found = llvm::find_if(
      carried_, [&](const Carried& carried) { return carried.path == path; });
  return found == carried_.end() ? nullptr : &*found;
}

absl::StatusOr<Value*> LoopTrial::ValueOf(const LoopSlot& slot,
                                          const Frozen& frozen) {
  if (slot.kind == LoopSlot::Kind::kNumber) {
    if (IsNumber(frozen))
      return NumberValue(frozen.value, context_, slot.type.dtype);
    return Zeros(slot.type, context_);
  }
  if (slot.kind == LoopSlot::Kind::kGrown) {
    ElementType element{slot.type, slot.numbers};
    element.type.dims.erase(element.type.dims.begin());
    ListValue list;
    if (frozen.value.is_grown_list()) {
      if (frozen.content == nullptr)
        return context_.Unsupported(frozen.unreadable);
      return frozen.content;
    }
    for (const Frozen& item : frozen.items) {
      if (!item.value.is_tensor()) {
        list.items.push_back(item.value);
        continue;
      }
      if (item.content == nullptr) return context_.Unsupported(item.unreadable);
      list.items.push_back(context_.aliases.NewTensor(item.content));
    }
    return StackElements(list, element, context_);
  }
  if (frozen.value.is_tensor()) {
    if (frozen.content == nullptr)
      return context_.Unsupported(frozen.unreadable);
    return frozen.content;
  }
  return Zeros(slot.type, context_);
}

absl::StatusOr<AbstractValue> LoopTrial::Enter(const std::string& path,
                                               const Frozen& before) {
  auto found = plan_.slots.find(path);
  if (found == plan_.slots.end()) {
    if (!plan_.HasBelow(path)) return before.value;
    auto shape = plan_.shapes.find(path);
    const Frozen& like = shape == plan_.shapes.end() ? before : shape->second;
    std::vector<AbstractValue> items;
    for (size_t i = 0; i < like.items.size(); ++i) {
      TP_ASSIGN_OR_RETURN(AbstractValue item,
                          Enter(Below(path, i), ItemOf(before, i)));
      items.push_back(std::move(item));
    }
    return Rebuilt(like, std::move(items));
  }
  const LoopSlot& slot = found->second;
  if (slot.kind == LoopSlot::Kind::kUnknown)
    return AbstractValue::Unknown(slot.reason);
  Carried carried;
  carried.path = path;
  TP_ASSIGN_OR_RETURN(carried.before, ValueOf(slot, before));
  carried.argument = body_.AddArgument(slot.type);
  AbstractValue inside = RuntimeNumber{carried.argument};
  if (slot.kind != LoopSlot::Kind::kNumber) {
    carried.tensor = before.value.is_tensor()
                         ? context_.aliases.NewMaybeAlias(
                               before.value.as_tensor(), carried.argument)
                         : context_.aliases.NewTensor(carried.argument);
    for (const auto& [joined, tensor] : plan_.joins)
      if (joined == path) context_.aliases.Join(carried.tensor, tensor);
    carried.version = carried.tensor->node->storage->version;
    inside = carried.tensor;
  }
  if (slot.kind == LoopSlot::Kind::kGrown) {
    auto list = std::make_shared<ListValue>();
    list->grown = carried.tensor;
    list->grown_numbers = slot.numbers;
    if (before.value.is_grown_list())
      context_.aliases.Join(list->grown, before.value.as_list()->grown);
    for (const Frozen& item : before.items)
      if (item.value.is_tensor())
        context_.aliases.Join(list->grown, item.value.as_tensor());
    inside = list;
  }
  carried_.push_back(std::move(carried));
  return inside;
}

absl::Status LoopTrial::Leave(const std::string& path, const Frozen& before,
                              const Frozen& after) {
  auto found = plan_.slots.find(path);
  if (found != plan_.slots.end()) return LeaveSlot(path, found->second, after);
  if (plan_.HasBelow(path)) {
    auto shape = plan_.shapes.find(path);
    const Frozen& like = shape == plan_.shapes.end() ? before : shape->second;
    if (!after.value.is_unset() && !SameShape(like, after)) {
      AddUnknown(path, "changes its shape");
      return absl::OkStatus();
    }
    for (size_t i = 0; i < like.items.size(); ++i)
      TP_RETURN_IF_ERROR(
          Leave(Below(path, i), ItemOf(before, i), ItemOf(after, i)));
    return absl::OkStatus();
  }
  if (after.value.is_unset() || SameValue(before, after))
    return absl::OkStatus();
  return AddSlot(path, before, after);
}

void LoopTrial::AddUnknown(const std::string& path, const std::string& why) {
  LoopSlot slot;
  slot.kind = LoopSlot::Kind::kUnknown;
  slot.reason =
      absl::StrCat(ToString(context_.location()),
                   ": a variable of a loop that depends on data ", why);
  for (auto it = plan_.slots.begin(); it != plan_.slots.end();)
    it = absl::StartsWith(it->first, path + ".") ? plan_.slots.erase(it)
                                                 : std::next(it);
  plan_.slots[path] = std::move(slot);
  changed_ = true;
}

// Dims of the slot that `given` has not become sizes that depend on data.
void LoopTrial::FitDims(LoopSlot& slot, const TensorType& given) {
  const Assumptions& assumptions = context_.module.assumptions();
  slot.fresh.resize(slot.type.dims.size(), false);
  for (size_t dim = 0; dim < slot.type.dims.size(); ++dim) {
    SymExpr& size = slot.type.dims[dim];
    const int64_t least =
        std::max<int64_t>(0, given.dims[dim].LowerBound().value_or(0));
    if (slot.fresh[dim]) {
      const int64_t bound = size.LowerBound().value_or(0);
      if (least >= bound) continue;
      size = context_.NewDataSize(0, bound);
    } else {
      if (size == given.dims[dim] ||
          assumptions.Known(size, Relation::kEq, given.dims[dim])
              .value_or(false))
        continue;
      const int64_t bound = std::max<int64_t>(0, size.LowerBound().value_or(0));
      const absl::StatusOr<int64_t> hint = assumptions.Hint(size);
      size = context_.NewDataSize(std::min(bound, least), hint.value_or(bound));
      slot.fresh[dim] = true;
    }
    changed_ = true;
  }
}

void LoopTrial::NoteJoin(const std::string& path, const Frozen& after) {
  if (!after.value.is_tensor()) return;
  const TensorRef& tensor = after.value.as_tensor();
  const Carried* own = Find(path);
  if (own == nullptr || own->tensor->node->storage == tensor->node->storage)
    return;
  bool written = false;
  for (const Carried& carried : carried_) {
    if (carried.tensor == nullptr) continue;
    written =
        written || carried.tensor->node->storage->version != carried.version;
  }
  if (!written) return;
  for (const auto& [joined, other] : plan_.joins)
    if (joined == path && other->node->storage == tensor->node->storage) return;
  for (const Carried& carried : carried_) {
    // Another round's tensor: joined by what it is before the loop.
    if (carried.tensor == nullptr || carried.path.empty() ||
        carried.tensor->node->storage != tensor->node->storage)
      continue;
    AddUnknown(path,
               "takes the tensor of another one, and tensors are written in "
               "place in the loop; clone it");
    return;
  }
  if (tensor->node->storage->serial >= first_serial_) return;
  plan_.joins.push_back({path, tensor});
  changed_ = true;
}

absl::Status LoopTrial::LeaveSlot(const std::string& path, LoopSlot& slot,
                                  const Frozen& after) {
  if (slot.kind == LoopSlot::Kind::kUnknown) return absl::OkStatus();
  const bool fits = slot.kind == LoopSlot::Kind::kNumber ? IsNumber(after)
                    : slot.kind == LoopSlot::Kind::kTensor
                        ? after.value.is_tensor()
                        : after.value.is_list();
  if (!fits && !after.value.is_unset()) {
    AddUnknown(path,
               after.value.is_unknown()
                   ? absl::StrCat("is not known (", after.value.reason(), ")")
                   : absl::StrCat("becomes a ", after.value.KindName()));
    return absl::OkStatus();
  }
  if (slot.kind == LoopSlot::Kind::kNumber && IsNumber(after) &&
      NumberDType(after.value) != slot.type.dtype &&
      slot.type.dtype != DType::kF64) {
    slot.type.dtype = DType::kF64;
    changed_ = true;
    return absl::OkStatus();
  }
  if (slot.kind == LoopSlot::Kind::kGrown && after.value.is_list() &&
      !IsEmptyList(after)) {
    std::optional<ElementType> element = ElementTypeOf(after);
    TensorType expected = slot.type;
    expected.dims.erase(expected.dims.begin());
    if (!element || element->numbers != slot.numbers ||
        element->type != expected) {
      AddUnknown(path, "is a list of unlike elements");
      return absl::OkStatus();
    }
  }
  // Ops for the next round's value stay only if this import does.
  Carried* carried = Find(path);
  TP_CHECK(carried != nullptr, "a carried value did not enter the loop");
  TP_ASSIGN_OR_RETURN(carried->next, ValueOf(slot, after));
  const TensorType& next = carried->next->type();
  if (next.dtype != slot.type.dtype || next.ndim() != slot.type.ndim()) {
    AddUnknown(path, absl::StrCat("is ", ToString(slot.type), " before and ",
                                  ToString(next), " after a round"));
    return absl::OkStatus();
  }
  if (!after.value.is_unset()) FitDims(slot, next);
  if (slot.kind == LoopSlot::Kind::kTensor) NoteJoin(path, after);
  return absl::OkStatus();
}

void LoopTrial::AddTensorSlot(const std::string& path, LoopSlot slot,
                              const TensorType& before,
                              const TensorType& after) {
  if (before.dtype != after.dtype || before.ndim() != after.ndim()) {
    AddUnknown(path, absl::StrCat("is ", ToString(before), " before and ",
                                  ToString(after), " after a round"));
    return;
  }
  slot.type = before;
  FitDims(slot, after);
  plan_.slots[path] = std::move(slot);
  changed_ = true;
}

absl::Status LoopTrial::AddSlot(const std::string& path, const Frozen& before,
                                const Frozen& after) {
  const bool unset = before.value.is_unset();
  LoopSlot slot;
  if (IsNumber(after) && (unset || IsNumber(before))) {
    slot.kind = LoopSlot::Kind::kNumber;
    slot.type.dtype = NumberDType(after.value);
    if (!unset && NumberDType(before.value) != slot.type.dtype)
      slot.type.dtype = DType::kF64;
    plan_.slots[path] = std::move(slot);
    changed_ = true;
    return absl::OkStatus();
  }
  if (after.value.is_tensor() && after.content != nullptr &&
      (unset || before.value.is_tensor())) {
    const TensorType& type = after.content->type();
    AddTensorSlot(path, std::move(slot),
                  unset ? type : before.value.as_tensor()->type(), type);
    return absl::OkStatus();
  }
  if ((unset && !after.items.empty()) || SameShape(before, after)) {
    if (unset) plan_.shapes[path] = after;
    for (size_t i = 0; i < after.items.size(); ++i)
      TP_RETURN_IF_ERROR(
          Leave(Below(path, i), ItemOf(before, i), after.items[i]));
    return absl::OkStatus();
  }
  if (after.value.is_list() && before.value.is_list()) {
    std::optional<ElementType> a = ElementTypeOf(before);
    std::optional<ElementType> b = ElementTypeOf(after);
    if (IsEmptyList(before)) a = b;
    if (IsEmptyList(after)) b = a;
    if (!a || !b || !(*a == *b)) {
      AddUnknown(path,
                 "is a list that changes its length and whose elements are not "
                 "all alike");
      return absl::OkStatus();
    }
    slot.kind = LoopSlot::Kind::kGrown;
    slot.numbers = b->numbers;
    TensorType type = b->type, grown = b->type;
    type.dims.insert(type.dims.begin(), LengthOf(before));
    grown.dims.insert(grown.dims.begin(), LengthOf(after));
    AddTensorSlot(path, std::move(slot), type, grown);
    return absl::OkStatus();
  }
  AddUnknown(
      path,
      after.value.is_unknown()
          ? absl::StrCat("is not known (", after.value.reason(), ")")
          : absl::StrCat("is a ", before.value.KindName(), " before and a ",
                         after.value.KindName(), " after a round"));
  return absl::OkStatus();
}

absl::StatusOr<AbstractValue> LoopTrial::After(const std::string& path,
                                               const Frozen& before,
                                               const Frozen& after) {
  auto found = plan_.slots.find(path);
  if (found == plan_.slots.end()) {
    if (!plan_.HasBelow(path)) return before.value;
    auto shape = plan_.shapes.find(path);
    const Frozen& like = shape == plan_.shapes.end() ? before : shape->second;
    std::vector<AbstractValue> items;
    for (size_t i = 0; i < like.items.size(); ++i) {
      TP_ASSIGN_OR_RETURN(
          AbstractValue item,
          After(Below(path, i), ItemOf(before, i), ItemOf(after, i)));
      items.push_back(std::move(item));
    }
    return Rebuilt(like, std::move(items));
  }
  const LoopSlot& slot = found->second;
  if (slot.kind == LoopSlot::Kind::kUnknown)
    return AbstractValue::Unknown(slot.reason);
  Value* result = Find(path)->result;
  if (slot.kind == LoopSlot::Kind::kNumber)
    return AbstractValue(RuntimeNumber{result});
  auto join = [&](const TensorRef& tensor, const Frozen& side) {
    if (side.value.is_tensor())
      context_.aliases.Join(tensor, side.value.as_tensor());
    if (side.value.is_grown_list())
      context_.aliases.Join(tensor, side.value.as_list()->grown);
    for (const Frozen& item : side.items)
      if (item.value.is_tensor())
        context_.aliases.Join(tensor, item.value.as_tensor());
  };
  TensorRef tensor =
      before.value.is_tensor()
          ? context_.aliases.NewMaybeAlias(before.value.as_tensor(), result)
          : context_.aliases.NewTensor(result);
  join(tensor, before);
  join(tensor, after);
  if (slot.kind == LoopSlot::Kind::kTensor) return AbstractValue(tensor);
  auto list = std::make_shared<ListValue>();
  list->grown = tensor;
  list->grown_numbers = slot.numbers;
  return AbstractValue(std::move(list));
}

absl::Status LoopTrial::EnterStorage(const std::shared_ptr<ViewNode>& storage) {
  Carried carried;
  TP_ASSIGN_OR_RETURN(carried.before, context_.aliases.ReadWhole(storage));
  carried.argument = body_.AddArgument(storage->type);
  carried_.push_back(std::move(carried));
  return absl::OkStatus();
}

TensorType LoopTrial::ResultType(const Carried& carried) {
  TensorType type = carried.argument->type();
  if (carried.path.empty()) return type;
  const LoopSlot& slot = plan_.slots[carried.path];
  for (size_t dim = 0; dim < slot.fresh.size(); ++dim) {
    if (!slot.fresh[dim]) continue;
    const int64_t least = type.dims[dim].LowerBound().value_or(0);
    const absl::StatusOr<int64_t> hint =
        context_.module.assumptions().Hint(type.dims[dim]);
    type.dims[dim] = context_.NewDataSize(least, hint.value_or(least));
  }
  return type;
}

AbstractValue Rebuilt(const Frozen& like, std::vector<AbstractValue> items) {
  if (like.value.is_list()) return AbstractValue::MakeList(std::move(items));
  if (like.value.is_tuple()) return AbstractValue::MakeTuple(std::move(items));
  if (like.value.is_dict()) {
    auto dict = std::make_shared<DictValue>();
    for (size_t i = 0; i < items.size(); ++i)
      dict->entries.push_back({like.keys[i], std::move(items[i])});
    return dict;
  }
  auto object = std::make_shared<ObjectValue>();
  object->type = like.value.as_object()->type;
  for (size_t i = 0; i < items.size(); ++i)
    object->attributes[like.names[i]] = std::move(items[i]);
  return object;
}

}  // namespace tp
