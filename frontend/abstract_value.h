// What the importer knows about a value of a TorchScript graph without
// running the model: integers as expressions over symbols, other scalars
// exactly, containers element by element, tensors as values of our IR.
#ifndef TP_FRONTEND_ABSTRACT_VALUE_H_
#define TP_FRONTEND_ABSTRACT_VALUE_H_

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ir/attribute.h"
#include "ir/sym_expr.h"

namespace tp {

class AbstractValue;
class Value;          // ir/value.h
struct TensorHandle;  // frontend/alias_tracker.h
struct ObjectValue;   // frontend/weight_table.h

// A value that cannot be known before the model runs (a number read out of a
// tensor), or the result of an op that has no row. It spreads through what
// uses it; only where something has to be decided by it is it an error.
struct UnknownValue {
  std::string reason;
  // A variable that this way through the program never reads.
  bool unset = false;
};
// A number that the model computes from data: a tensor of no dims, bool, i64
// or f64.
struct RuntimeNumber {
  Value* value = nullptr;
};
struct NoneValue {
  friend bool operator==(const NoneValue&, const NoneValue&) = default;
};
struct DeviceValue {
  std::string name;  // "cpu"
  friend bool operator==(const DeviceValue&, const DeviceValue&) = default;
};

// Containers have identity: appending through one name shows under the other.
struct ListValue;
struct TupleValue;
struct DictValue;

class AbstractValue {
 public:
  using Tensor = std::shared_ptr<TensorHandle>;
  using List = std::shared_ptr<ListValue>;
  using Tuple = std::shared_ptr<TupleValue>;
  using Dict = std::shared_ptr<DictValue>;
  using Object = std::shared_ptr<ObjectValue>;

  AbstractValue() = default;  // None
  template <typename T>
  requires(!std::is_same_v<T, AbstractValue>) AbstractValue(T value)
      : value_(std::move(value)) {}  // NOLINT
  static AbstractValue Unknown(std::string reason) {
    return AbstractValue(UnknownValue{std::move(reason)});
  }
  static AbstractValue MakeList(std::vector<AbstractValue> items);
  static AbstractValue MakeTuple(std::vector<AbstractValue> items);

  bool is_none() const { return holds<NoneValue>(); }
  bool is_unknown() const { return holds<UnknownValue>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_int() const { return holds<SymExpr>(); }
  bool is_float() const { return holds<double>(); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_string() const { return holds<std::string>(); }
  bool is_device() const { return holds<DeviceValue>(); }
  bool is_tensor() const { return holds<Tensor>(); }
  bool is_list() const { return holds<List>(); }
  bool is_tuple() const { return holds<Tuple>(); }
  bool is_dict() const { return holds<Dict>(); }
  bool is_object() const { return holds<Object>(); }
  bool is_runtime_number() const { return holds<RuntimeNumber>(); }
  // A list whose length depends on data.
  bool is_grown_list() const;
  bool is_unset() const {
    return is_unknown() && std::get<UnknownValue>(value_).unset;
  }

  // Each requires the matching kind.
  const std::string& reason() const {
    return std::get<UnknownValue>(value_).reason;
  }
  bool as_bool() const { return std::get<bool>(value_); }
  const SymExpr& as_int() const { return std::get<SymExpr>(value_); }
  double as_float() const { return std::get<double>(value_); }
  const std::string& as_string() const { return std::get<std::string>(value_); }
  const DeviceValue& as_device() const { return std::get<DeviceValue>(value_); }
  const Tensor& as_tensor() const { return std::get<Tensor>(value_); }
  const List& as_list() const { return std::get<List>(value_); }
  const Tuple& as_tuple() const { return std::get<Tuple>(value_); }
  const Dict& as_dict() const { return std::get<Dict>(value_); }
  const Object& as_object() const { return std::get<Object>(value_); }
  Value* as_runtime_number() const {
    return std::get<RuntimeNumber>(value_).value;
  }

  // The elements of a list or tuple, null for anything else, and for a list
  // whose length depends on data.
  std::vector<AbstractValue>* items() const;

  // The unknown value here or in the elements of a list or tuple, or null.
  const UnknownValue* FindUnknown() const;

  // "int", "Tensor", "list", ... for messages.
  std::string KindName() const;
  // As Python's str() would print it, roughly; for messages and format().
  std::string ToString() const;

 private:
  template <typename T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  std::variant<NoneValue, UnknownValue, bool, SymExpr, double, std::string,
               DeviceValue, Tensor, List, Tuple, Dict, Object, RuntimeNumber>
      value_;
};

struct ListValue {
  std::vector<AbstractValue> items;
  // Of a list that grew in a loop or a branch decided by data: its elements,
  // stacked along a first dim. `items` is then empty.
  std::shared_ptr<TensorHandle> grown = nullptr;
  bool grown_numbers = false;  // they are ints, floats or bools
};
struct TupleValue {
  std::vector<AbstractValue> items;
};
struct DictValue {
  std::vector<std::pair<AbstractValue, AbstractValue>> entries;  // in order
};

// An attribute that holds the scalar, string or list of those; nothing where
// the value has no such form.
std::optional<Attribute> ToAttribute(const AbstractValue& value);
// The scalar of an attribute.
AbstractValue FromAttribute(const Attribute& attribute);

}  // namespace tp

#endif  // TP_FRONTEND_ABSTRACT_VALUE_H_
