#include "frontend/weight_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "frontend/torch_types.h"
#include "ir/status.h"
#include "llvm/ADT/DenseSet.h"

namespace tp {
namespace {

std::string Join(const std::string& path, llvm::StringRef name) {
  return path.empty() ? name.str() : absl::StrCat(path, ".", name.str());
}

// The content of a 0-dim tensor.
Attribute ReadScalar(const at::Tensor& tensor, DType dtype) {
  if (dtype == DType::kBool) return tensor.item<bool>();
  if (IsFloatingPoint(dtype)) return tensor.item<double>();
  return tensor.item<int64_t>();
}

void CollectOperands(const Block& block,
                     llvm::DenseSet<const Value*>& operands) {
  for (const auto& op : block.ops()) {
    for (const Value* operand : op->operands()) operands.insert(operand);
    for (const auto& region : op->regions()) CollectOperands(*region, operands);
  }
  for (const Value* result : block.results()) operands.insert(result);
}

}  // namespace

WeightTable::WeightTable(ImportContext& context, Function& function,
                         const std::vector<NamedTensor>& stored)
    : context_(context), function_(function) {
  for (const NamedTensor& tensor : stored) stored_[tensor.name] = tensor.tensor;
}

absl::StatusOr<WeightRegion> WeightTable::RegionOf(const at::Tensor& tensor,
                                                   const std::string& name,
                                                   ArgumentKind kind) const {
  if (tensor.layout() != at::kStrided)
    return absl::UnimplementedError(
        absl::StrCat("tensor '", name, "' of the model is not dense"));
  std::optional<DType> dtype = FromScalarType(tensor.scalar_type());
  if (!dtype)
    return absl::UnimplementedError(
        absl::StrCat("tensor '", name, "' of the model has dtype ",
                     c10::toString(tensor.scalar_type()),
                     "; supported are f32, f64, f16, bf16, i64, i32, i16, i8, "
                     "u8 and bool"));
  WeightRegion region;
  region.dtype = *dtype;
  if (kind == ArgumentKind::kConstant) {
    region.storage = absl::StrCat("constant ", num_constants_);
    region.sizes = tensor.sizes().vec();
    return region;
  }
  const PickledTensor* stored = stored_.lookup(name);
  if (stored == nullptr)
    return absl::InternalError(
        absl::StrCat("tensor '", name, "' is not in the archive's list"));
  region.storage = stored->storage_key;
  region.offset = stored->offset;
  region.sizes.assign(stored->sizes.begin(), stored->sizes.end());
  region.strides.assign(stored->strides.begin(), stored->strides.end());
  return region;
}

absl::StatusOr<WeightEntry*> WeightTable::AddTensor(const at::Tensor& tensor,
                                                    const std::string& name,
                                                    ArgumentKind kind) {
  auto [seen, is_new_tensor] =
      by_tensor_.try_emplace(tensor.unsafeGetTensorImpl(), nullptr);
  if (is_new_tensor) {
    TP_ASSIGN_OR_RETURN(WeightRegion region, RegionOf(tensor, name, kind));
    auto [place, is_new_region] = by_region_.try_emplace(region, nullptr);
    if (is_new_region) {
      auto entry = std::make_unique<WeightEntry>();
      entry->info.kind = kind;
      entry->info.name = name;
      entry->info.frozen =
          kind == ArgumentKind::kParameter && !tensor.requires_grad();
      entry->region = region;
      entry->tensor = tensor;
      TensorType type{region.dtype, {}};
      for (int64_t size : region.sizes) type.dims.push_back(size);
      std::optional<Attribute> scalar;
      if (kind == ArgumentKind::kConstant && type.ndim() == 0)
        scalar = ReadScalar(tensor, region.dtype);
      Value* argument = function_.AddArgument(std::move(type), entry->info);
      if (scalar) context_.known_scalars[argument] = *scalar;
      entry->value = context_.aliases.NewOwned(
          argument, TensorStorage::Owner::kWeight, name, std::move(scalar));
      entry->argument = argument;
      MarkOverlap(*entry);
      place->second = entry.get();
      entries_.push_back(std::move(entry));
      seen->second = place->second;
      return place->second;
    }
    seen->second = place->second;
  }
  WeightEntry& entry = *seen->second;
  if (entry.info.name != name && kind != ArgumentKind::kConstant) {
    auto& aliases = entry.info.aliases;
    if (std::find(aliases.begin(), aliases.end(), name) == aliases.end())
      aliases.push_back(name);
  }
  if (kind == ArgumentKind::kParameter) {
    entry.info.kind = ArgumentKind::kParameter;
    entry.info.frozen = !entry.tensor.requires_grad();
  }
  return &entry;
}

absl::Status WeightTable::AddTensors(const c10::IValue& value,
                                     const std::string& path,
                                     ArgumentKind kind) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return absl::OkStatus();
    return AddTensor(value.toTensor(), path, kind).status();
  }
  if (value.isObject()) {
    auto object = value.toObject();
    const c10::ClassType& type = *object->type();
    for (size_t i = 0; i < type.numAttributes(); ++i) {
      TP_RETURN_IF_ERROR(
          AddTensors(object->getSlot(i), Join(path, type.getAttributeName(i)),
                     type.is_parameter(i) ? ArgumentKind::kParameter
                                          : ArgumentKind::kBuffer));
    }
    return absl::OkStatus();
  }
  if (value.isList() || value.isTuple()) {
    const auto items =
        value.isList()
            ? value.toListRef().vec()
            : std::vector<c10::IValue>(value.toTupleRef().elements().begin(),
                                       value.toTupleRef().elements().end());
    for (size_t i = 0; i < items.size(); ++i)
      TP_RETURN_IF_ERROR(
          AddTensors(items[i], Join(path, absl::StrCat(i)), kind));
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const c10::IValue& key = entry.key();
      const std::string name = key.isString() ? key.toStringRef()
                               : key.isInt()  ? absl::StrCat(key.toInt())
                                              : "?";
      TP_RETURN_IF_ERROR(AddTensors(entry.value(), Join(path, name), kind));
    }
  }
  return absl::OkStatus();
}

absl::Status WeightTable::AddModule(
    const c10::intrusive_ptr<c10::ivalue::Object>& root) {
  return AddTensors(c10::IValue(root), "", ArgumentKind::kBuffer);
}

absl::StatusOr<AbstractValue> WeightTable::FromIValue(const c10::IValue& value,
                                                      const std::string& path) {
  if (value.isNone()) return NoneValue{};
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return SymExpr(value.toInt());
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return DeviceValue{value.toDevice().str()};
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return NoneValue{};
    auto known = by_tensor_.find(tensor.unsafeGetTensorImpl());
    WeightEntry* entry = known == by_tensor_.end() ? nullptr : known->second;
    if (entry == nullptr) {
      const size_t before = entries_.size();
      TP_ASSIGN_OR_RETURN(
          entry, AddTensor(tensor, absl::StrCat("constant.", num_constants_),
                           ArgumentKind::kConstant));
      if (entries_.size() > before) ++num_constants_;
    }
    // Each read makes a variable of its own: an in-place change of shape
    // shows under one name only.
    return context_.aliases.NewAlias(entry->value);
  }
  if (value.isObject()) {
    auto object = value.toObject();
    AbstractValue::Object& known = objects_[object.get()];
    if (known == nullptr) {
      known = std::make_shared<ObjectValue>();
      known->type = object->type();
      known->path = path;
      known->object = object;
    }
    return known;
  }
  if (value.isList() || value.isTuple()) {
    std::vector<AbstractValue> items;
    const auto elements =
        value.isList()
            ? value.toListRef().vec()
            : std::vector<c10::IValue>(value.toTupleRef().elements().begin(),
                                       value.toTupleRef().elements().end());
    for (size_t i = 0; i < elements.size(); ++i) {
      TP_ASSIGN_OR_RETURN(AbstractValue item,
                          FromIValue(elements[i], Join(path, absl::StrCat(i))));
      items.push_back(std::move(item));
    }
    return value.isList() ? AbstractValue::MakeList(std::move(items))
                          : AbstractValue::MakeTuple(std::move(items));
  }
  if (value.isGenericDict()) {
    auto dict = std::make_shared<DictValue>();
    for (const auto& entry : value.toGenericDict()) {
      TP_ASSIGN_OR_RETURN(AbstractValue key, FromIValue(entry.key(), path));
      TP_ASSIGN_OR_RETURN(
          AbstractValue item,
          FromIValue(entry.value(), Join(path, key.ToString())));
      dict->entries.push_back({std::move(key), std::move(item)});
    }
    return dict;
  }
  return AbstractValue::Unknown(
      absl::StrCat("a stored value of type ", value.tagKind(),
                   path.empty() ? "" : " at ", path, " is not supported"));
}

absl::StatusOr<AbstractValue> WeightTable::GetAttribute(
    ObjectValue& object, const std::string& name) {
  auto known = object.attributes.find(name);
  if (known != object.attributes.end()) return known->second;
  const auto slot = object.type->findAttributeSlot(name);
  if (!slot || object.object == nullptr)
    return context_.Invalid(absl::StrCat(object.type->repr_str(),
                                         " has no attribute '", name, "'"));
  TP_ASSIGN_OR_RETURN(
      AbstractValue value,
      FromIValue(object.object->getSlot(*slot), Join(object.path, name)));
  // Containers have identity: a second read must give the same one.
  object.attributes[name] = value;
  return value;
}

// A write to one of two weights that share memory would show in the other.
void WeightTable::MarkOverlap(WeightEntry& entry) {
  for (const auto& other : entries_) {
    if (other->region.storage != entry.region.storage) continue;
    for (const WeightEntry* each : {&entry, other.get()})
      each->value->node->storage->fixed =
          absl::StrCat("whose memory '", entry.info.name, "' and '",
                       other->info.name, "' share");
  }
}

std::vector<AbstractValue::Object> WeightTable::objects() const {
  std::vector<AbstractValue::Object> objects;
  for (const auto& [key, object] : objects_) objects.push_back(object);
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a->path < b->path; });
  return objects;
}

const WeightEntry* WeightTable::Find(const at::Tensor& tensor) const {
  auto found = by_tensor_.find(tensor.unsafeGetTensorImpl());
  return found == by_tensor_.end() ? nullptr : found->second;
}

void WeightTable::RemoveUnused() {
  llvm::DenseSet<const Value*> operands;
  CollectOperands(function_.body(), operands);
  std::vector<std::unique_ptr<WeightEntry>> kept;
  for (auto& entry : entries_) {
    const int index = entry->argument->index();
    if (operands.contains(entry->argument) || function_.IsCarried(index)) {
      function_.arguments()[index] = entry->info;
      kept.push_back(std::move(entry));
    } else {
      function_.RemoveArgument(index);
    }
  }
  entries_ = std::move(kept);
}

std::vector<std::pair<std::string, at::Tensor>> WeightTable::constants() const {
  std::vector<std::pair<std::string, at::Tensor>> constants;
  for (const auto& entry : entries_)
    if (entry->info.kind == ArgumentKind::kConstant)
      constants.push_back({entry->info.name, entry->tensor});
  return constants;
}

}  // namespace tp
