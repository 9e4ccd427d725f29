#include "frontend/abstract_value.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace tp {

AbstractValue AbstractValue::MakeList(std::vector<AbstractValue> items) {
  return std::make_shared<ListValue>(ListValue{std::move(items)});
}

AbstractValue AbstractValue::MakeTuple(std::vector<AbstractValue> items) {
  return std::make_shared<TupleValue>(TupleValue{std::move(items)});
}

std::vector<AbstractValue>* AbstractValue::items() const {
  if (is_list())
    return as_list()->grown == nullptr ? &as_list()->items : nullptr;
  if (is_tuple()) return &as_tuple()->items;
  return nullptr;
}

const UnknownValue* AbstractValue::FindUnknown() const {
  if (is_unknown()) return &std::get<UnknownValue>(value_);
  if (const std::vector<AbstractValue>* elements = items()) {
    for (const AbstractValue& item : *elements)
      if (const UnknownValue* unknown = item.FindUnknown()) return unknown;
  }
  return nullptr;
}

bool AbstractValue::is_grown_list() const {
  return is_list() && as_list()->grown != nullptr;
}

std::string AbstractValue::KindName() const {
  static constexpr const char* kNames[] = {"None",
                                           "unknown",
                                           "bool",
                                           "int",
                                           "float",
                                           "str",
                                           "device",
                                           "Tensor",
                                           "list",
                                           "tuple",
                                           "dict",
                                           "object",
                                           "number that depends on data"};
  if (is_grown_list()) return "list whose length depends on data";
  return kNames[value_.index()];
}

std::string AbstractValue::ToString() const {
  if (is_bool()) return as_bool() ? "True" : "False";
  if (is_string()) return as_string();
  if (is_device()) return as_device().name;
  if (is_int()) return as_int().ToString();
  if (is_float()) return Attribute(as_float()).ToString();
  if (is_none()) return "None";
  if (const std::vector<AbstractValue>* elements = items()) {
    std::string text = is_list() ? "[" : "(";
    for (const AbstractValue& item : *elements)
      absl::StrAppend(&text, text.size() > 1 ? ", " : "", item.ToString());
    return text + (is_list() ? "]" : ")");
  }
  return absl::StrCat("<", KindName(), ">");
}

std::optional<Attribute> ToAttribute(const AbstractValue& value) {
  if (value.is_none()) return Attribute();
  if (value.is_bool()) return Attribute(value.as_bool());
  if (value.is_int()) return Attribute(value.as_int());
  if (value.is_float()) return Attribute(value.as_float());
  if (value.is_string()) return Attribute(value.as_string());
  if (const std::vector<AbstractValue>* elements = value.items()) {
    Attribute::List list;
    for (const AbstractValue& item : *elements) {
      std::optional<Attribute> attribute = ToAttribute(item);
      if (!attribute) return std::nullopt;
      list.push_back(*std::move(attribute));
    }
    return Attribute(std::move(list));
  }
  return std::nullopt;
}

AbstractValue FromAttribute(const Attribute& attribute) {
  if (attribute.is_bool()) return attribute.as_bool();
  if (attribute.is_int()) return attribute.as_int();
  if (attribute.is_float()) return attribute.as_float();
  if (attribute.is_string()) return attribute.as_string();
  return NoneValue{};
}

}  // namespace tp
