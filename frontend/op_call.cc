#include "frontend/op_call.h"

#include <ATen/core/jit_type.h>

#include "absl/strings/str_cat.h"
#include "frontend/torch_types.h"
#include "ir/status.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

enum class Slot { kTensor, kTensorList, kDType, kAttribute, kDropped };

c10::TypePtr WithoutOptional(c10::TypePtr type) {
  while (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();
  return type;
}

Slot SlotOf(const c10::Argument& argument) {
  const bool dropped =
      llvm::StringSwitch<bool>(argument.name())
          .Cases("layout", "device", "memory_format", "pin_memory", true)
          .Cases("generator", "non_blocking", "implicit", true)
          .Default(false);
  if (dropped) return Slot::kDropped;
  const c10::TypePtr type = WithoutOptional(argument.real_type());
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Slot::kTensor;
    case c10::TypeKind::ListType: {
      const c10::TypePtr element =
          WithoutOptional(type->expectRef<c10::ListType>().getElementType());
      return element->kind() == c10::TypeKind::TensorType ? Slot::kTensorList
                                                          : Slot::kAttribute;
    }
    case c10::TypeKind::ScalarTypeType:
      return Slot::kDType;
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::StreamObjType:
      return Slot::kDropped;
    default:
      return argument.name() == "dtype" ? Slot::kDType : Slot::kAttribute;
  }
}

// A default value of a schema: scalars and lists of them.
std::optional<Attribute> FromDefault(const c10::IValue& value) {
  if (value.isNone()) return Attribute();
  if (value.isBool()) return Attribute(value.toBool());
  if (value.isInt()) return Attribute(value.toInt());
  if (value.isDouble()) return Attribute(value.toDouble());
  if (value.isString()) return Attribute(value.toStringRef());
  if (!value.isList()) return std::nullopt;
  Attribute::List list;
  for (const c10::IValue& item : value.toListRef()) {
    std::optional<Attribute> element = FromDefault(item);
    if (!element) return std::nullopt;
    list.push_back(*std::move(element));
  }
  return Attribute(std::move(list));
}

absl::StatusOr<Value*> ReadTensor(const AbstractValue& value,
                                  const std::string& what,
                                  ImportContext& context) {
  if (value.is_none()) return nullptr;
  if (!value.is_tensor())
    return context.Unsupported(
        absl::StrCat(what, " is a ", value.KindName(), ", not a tensor"));
  return context.aliases.Read(value.as_tensor());
}

absl::StatusOr<Attribute> DTypeAttribute(const AbstractValue& value,
                                         const std::string& what,
                                         ImportContext& context) {
  if (value.is_none()) return Attribute();
  if (value.is_int()) {
    std::optional<int64_t> code = value.as_int().AsConstant();
    if (std::optional<DType> dtype =
            code ? FromScalarTypeCode(*code) : std::nullopt)
      return Attribute(*dtype);
  }
  return context.Unsupported(absl::StrCat(
      what, " is a dtype that is not supported (code ", value.ToString(), ")"));
}

}  // namespace

std::string OpName(const c10::OperatorName& name) {
  std::string text = name.name;
  const size_t colons = text.find("::");
  if (colons != std::string::npos) text.replace(colons, 2, ".");
  if (!name.overload_name.empty())
    absl::StrAppend(&text, ".", name.overload_name);
  return text;
}

absl::StatusOr<OpCall> MakeOpCall(const c10::FunctionSchema& schema,
                                  llvm::ArrayRef<AbstractValue> arguments,
                                  ImportContext& context) {
  OpCall call;
  call.name = OpName(schema.operator_name());
  const auto& formals = schema.arguments();
  if (formals.size() != arguments.size())
    return context.Unsupported(absl::StrCat(
        call.name, " has a variable number of arguments, which is not known"));
  for (size_t i = 0; i < formals.size(); ++i) {
    const std::string& name = formals[i].name();
    const std::string what =
        absl::StrCat("argument '", name, "' of ", call.name);
    switch (SlotOf(formals[i])) {
      case Slot::kDropped:
        break;
      case Slot::kTensor: {
        TP_ASSIGN_OR_RETURN(Value * value,
                            ReadTensor(arguments[i], what, context));
        call.operands.push_back(value);
        break;
      }
      case Slot::kTensorList: {
        std::vector<Value*> values;
        if (arguments[i].is_none()) {
          call.operands.push_back(values);
          break;
        }
        if (arguments[i].items() == nullptr)
          return context.Unsupported(absl::StrCat(what, " is not a list"));
        for (const AbstractValue& item : *arguments[i].items()) {
          TP_ASSIGN_OR_RETURN(Value * value, ReadTensor(item, what, context));
          values.push_back(value);
        }
        call.operands.push_back(std::move(values));
        break;
      }
      case Slot::kDType: {
        TP_ASSIGN_OR_RETURN(Attribute dtype,
                            DTypeAttribute(arguments[i], what, context));
        if (!dtype.is_none()) call.attributes.push_back({name, dtype});
        break;
      }
      case Slot::kAttribute: {
        std::optional<Attribute> attribute = ToAttribute(arguments[i]);
        if (!attribute)
          return context.Unsupported(absl::StrCat(
              what, " is a ", arguments[i].KindName(), ", not a scalar"));
        const auto& otherwise = formals[i].default_value();
        if (otherwise && FromDefault(*otherwise) == attribute) break;
        call.attributes.push_back({name, *std::move(attribute)});
        break;
      }
    }
  }
  return call;
}

const AbstractValue* FindArgument(const c10::FunctionSchema& schema,
                                  llvm::ArrayRef<AbstractValue> arguments,
                                  llvm::StringRef name) {
  const auto& formals = schema.arguments();
  for (size_t i = 0; i < formals.size() && i < arguments.size(); ++i)
    if (name == formals[i].name()) return &arguments[i];
  return nullptr;
}

}  // namespace tp
