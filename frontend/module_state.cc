#include "frontend/module_state.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

class StateFinder {
 public:
  StateFinder(const WeightTable& weights, ImportContext& context)
      : weights_(weights), context_(context) {}

  absl::StatusOr<std::map<int, Value*>> Run() {
    TP_ASSIGN_OR_RETURN(std::vector<AliasTracker::Written> written,
                        context_.aliases.WrittenArguments());
    for (const AliasTracker::Written& each : written)
      state_[each.argument->index()] = each.content;
    for (const AbstractValue::Object& object : weights_.objects())
      for (const auto& [name, value] : object->attributes) {
        const auto slot = object->type->findAttributeSlot(name);
        if (!slot) continue;
        TP_RETURN_IF_ERROR(Compare(
            value, object->object->getSlot(*slot),
            object->path.empty() ? name
                                 : absl::StrCat(object->path, ".", name)));
      }
    return std::move(state_);
  }

 private:
  void Forget(const std::string& name) {
    context_.AddNote(absl::StrCat(
        "the model sets '", name,
        "' for its next call, which is not kept: every call starts from the "
        "saved value"));
  }

  // What an attribute holds now and what was saved.
  absl::Status Compare(const AbstractValue& now, const c10::IValue& saved,
                       const std::string& name) {
    if (saved.isTensor() && now.is_tensor())
      return CompareTensor(now.as_tensor(), saved.toTensor(), name);
    if (saved.isObject() && now.is_object()) {
      if (now.as_object()->object != saved.toObject()) Forget(name);
      return absl::OkStatus();
    }
    if ((saved.isList() || saved.isTuple()) && now.items() != nullptr) {
      const auto items =
          saved.isList() ? saved.toListRef() : saved.toTupleRef().elements();
      if (items.size() != now.items()->size()) {
        Forget(name);
        return absl::OkStatus();
      }
      for (size_t i = 0; i < items.size(); ++i)
        TP_RETURN_IF_ERROR(
            Compare((*now.items())[i], items[i], absl::StrCat(name, ".", i)));
      return absl::OkStatus();
    }
    if (saved.isGenericDict() && now.is_dict())
      return CompareDict(now, saved, name);
    bool same =
        (saved.isNone() && now.is_none()) ||
        (saved.isBool() && now.is_bool() && saved.toBool() == now.as_bool()) ||
        (saved.isInt() && now.is_int() &&
         now.as_int() == SymExpr(saved.toInt())) ||
        (saved.isDouble() && now.is_float() &&
         saved.toDouble() == now.as_float()) ||
        (saved.isString() && now.is_string() &&
         saved.toStringRef() == now.as_string()) ||
        (saved.isDevice() && now.is_device());
    // What the importer cannot represent was not changed by it either.
    same = same || (now.is_unknown() && !saved.isTensor() && !saved.isInt() &&
                    !saved.isDouble() && !saved.isBool());
    if (!same) Forget(name);
    return absl::OkStatus();
  }

  absl::Status CompareDict(const AbstractValue& now, const c10::IValue& saved,
                           const std::string& name) {
    const auto dict = saved.toGenericDict();
    const auto& entries = now.as_dict()->entries;
    bool same_keys = dict.size() == entries.size();
    for (const auto& [key, value] : entries) {
      c10::IValue stored;
      if (key.is_string() && dict.contains(key.as_string())) {
        stored = dict.at(key.as_string());
      } else if (key.is_int() && key.as_int().AsConstant() &&
                 dict.contains(*key.as_int().AsConstant())) {
        stored = dict.at(*key.as_int().AsConstant());
      } else {
        same_keys = false;
        continue;
      }
      TP_RETURN_IF_ERROR(
          Compare(value, stored, absl::StrCat(name, ".", key.ToString())));
    }
    if (!same_keys) Forget(name);
    return absl::OkStatus();
  }

  absl::Status CompareTensor(const TensorRef& now, const at::Tensor& saved,
                             const std::string& name) {
    const WeightEntry* entry = weights_.Find(saved);
    if (entry == nullptr) return absl::OkStatus();
    if (entry->value->node == now->node) return absl::OkStatus();  // not set
    if (entry->argument->type() != now->type() ||
        !entry->info.aliases.empty()) {
      Forget(name);
      return absl::OkStatus();
    }
    TP_ASSIGN_OR_RETURN(Value * content, context_.aliases.Read(now));
    if (content == entry->argument)
      state_.erase(entry->argument->index());
    else
      state_[entry->argument->index()] = content;
    return absl::OkStatus();
  }

  const WeightTable& weights_;
  ImportContext& context_;
  std::map<int, Value*> state_;  // by argument
};

}  // namespace

absl::Status AddState(const WeightTable& weights, ImportContext& context,
                      Function& function) {
  TP_ASSIGN_OR_RETURN(auto state, StateFinder(weights, context).Run());
  for (const auto& [argument, content] : state) {
    const ArgumentInfo& info = function.arguments()[argument];
    if (context.train && info.is_trainable())
      return absl::UnimplementedError(absl::StrCat(
          "the model writes its parameter '", info.name,
          "', which is also to be trained; freeze it, or compile without "
          "--train"));
    function.AddResult(content, {argument, /*is_output=*/false});
  }
  return absl::OkStatus();
}

}  // namespace tp
