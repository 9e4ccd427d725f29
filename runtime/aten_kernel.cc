#include "runtime/aten_kernel.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/status.h"

namespace tp {
namespace {

using c10::IValue;
using c10::TypeKind;

absl::Status Mismatch(const c10::Argument& argument, const Attribute& value) {
  return absl::InvalidArgumentError(absl::StrCat(
      "argument '", argument.name(), "' of type ", argument.real_type()->str(),
      " cannot be ", value.ToString()));
}

bool HasSymbols(const Attribute& attribute) {
  if (attribute.is_int()) return !attribute.as_int().is_constant();
  if (!attribute.is_list()) return false;
  for (const Attribute& element : attribute.as_list()) {
    if (HasSymbols(element)) return true;
  }
  return false;
}

absl::StatusOr<double> AsDouble(const Attribute& value,
                                const c10::Argument& argument,
                                const SymbolValues& symbols) {
  if (value.is_float()) return value.as_float();
  if (!value.is_int()) return Mismatch(argument, value);
  TP_ASSIGN_OR_RETURN(int64_t number, value.as_int().Evaluate(symbols));
  return static_cast<double>(number);
}

absl::StatusOr<IValue> ToList(const Attribute& value, const c10::Type& element,
                              const c10::Argument& argument,
                              const SymbolValues& symbols) {
  Attribute::List single;
  if (!value.is_list()) {
    // `int[2] stride` accepts one integer for all.
    if (!argument.N()) return Mismatch(argument, value);
    single.assign(*argument.N(), value);
  }
  const Attribute::List& list = value.is_list() ? value.as_list() : single;
  switch (element.kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType: {
      c10::List<int64_t> ints;
      ints.reserve(list.size());
      for (const Attribute& item : list) {
        if (!item.is_int()) return Mismatch(argument, value);
        TP_ASSIGN_OR_RETURN(int64_t number, item.as_int().Evaluate(symbols));
        ints.push_back(number);
      }
      return IValue(std::move(ints));
    }
    case TypeKind::FloatType: {
      c10::List<double> floats;
      for (const Attribute& item : list) {
        TP_ASSIGN_OR_RETURN(double number, AsDouble(item, argument, symbols));
        floats.push_back(number);
      }
      return IValue(std::move(floats));
    }
    case TypeKind::BoolType: {
      c10::List<bool> bools;
      for (const Attribute& item : list) {
        if (!item.is_bool()) return Mismatch(argument, value);
        bools.push_back(item.as_bool());
      }
      return IValue(std::move(bools));
    }
    default:
      return Mismatch(argument, value);
  }
}

absl::StatusOr<IValue> ToIValue(const Attribute& value, const c10::Type& type,
                                const c10::Argument& argument,
                                const SymbolValues& symbols) {
  if (value.is_none()) return IValue();
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return ToIValue(value,
                      *type.castRaw<c10::OptionalType>()->getElementType(),
                      argument, symbols);
    case TypeKind::ListType:
      return ToList(value, *type.castRaw<c10::ListType>()->getElementType(),
                    argument, symbols);
    case TypeKind::ScalarTypeType:
    case TypeKind::IntType:
    case TypeKind::SymIntType: {
      if (value.is_dtype()) {
        return IValue(static_cast<int64_t>(ScalarTypeOf(value.as_dtype())));
      }
      if (!value.is_int()) return Mismatch(argument, value);
      TP_ASSIGN_OR_RETURN(int64_t number, value.as_int().Evaluate(symbols));
      return IValue(number);
    }
    case TypeKind::FloatType: {
      TP_ASSIGN_OR_RETURN(double number, AsDouble(value, argument, symbols));
      return IValue(number);
    }
    case TypeKind::BoolType:
      if (!value.is_bool()) return Mismatch(argument, value);
      return IValue(value.as_bool());
    case TypeKind::NumberType: {
      // 2, 2.0 and true promote differently: each stays what it is.
      if (value.is_float()) return IValue(value.as_float());
      if (value.is_bool()) return IValue(value.as_bool());
      if (!value.is_int()) return Mismatch(argument, value);
      TP_ASSIGN_OR_RETURN(int64_t number, value.as_int().Evaluate(symbols));
      return IValue(number);
    }
    case TypeKind::StringType:
      if (!value.is_string()) return Mismatch(argument, value);
      return IValue(value.as_string());
    default:
      return Mismatch(argument, value);
  }
}

bool IsTensorLike(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType:
      return true;
    case TypeKind::OptionalType:
      return IsTensorLike(*type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::ListType:
      return IsTensorLike(*type.castRaw<c10::ListType>()->getElementType());
    default:
      return false;
  }
}

bool IsDevice(const c10::Type& type) {
  if (type.kind() == TypeKind::OptionalType) {
    return IsDevice(*type.castRaw<c10::OptionalType>()->getElementType());
  }
  return type.kind() == TypeKind::DeviceObjType;
}

AtenArgument OperandArgument(const OperandSlot& slot, const c10::Type& type) {
  AtenArgument argument;
  argument.begin = slot.begin;
  argument.size = slot.size;
  argument.kind = AtenArgument::Kind::kTensor;
  const c10::Type* bare = &type;
  if (bare->kind() == TypeKind::OptionalType) {
    bare = bare->castRaw<c10::OptionalType>()->getElementType().get();
  }
  if (bare->kind() == TypeKind::ListType) {
    const auto& element = bare->castRaw<c10::ListType>()->getElementType();
    argument.kind = element->kind() == TypeKind::OptionalType
                        ? AtenArgument::Kind::kOptionalTensorList
                        : AtenArgument::Kind::kTensorList;
  }
  return argument;
}

struct Names {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"
};

Names SplitName(llvm::StringRef full) {
  auto [space, rest] = full.split('.');
  auto [base, overload] = rest.split('.');
  return {space.str() + "::" + base.str(), overload.str()};
}

absl::Status CheckReturns(const Op& op, const c10::FunctionSchema& schema,
                          AtenCall& call) {
  const auto& returns = schema.returns();
  if (FindOpDef(op) == nullptr) {
    call.flattens = true;
    return absl::OkStatus();
  }
  if (returns.size() == 1 && returns[0].type()->kind() == TypeKind::ListType) {
    call.returns_list = true;
    return absl::OkStatus();
  }
  if (static_cast<int>(returns.size()) < op.num_results()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", op.num_results(), " results, its schema ", returns.size()));
  }
  return absl::OkStatus();
}

}  // namespace

at::ScalarType ScalarTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kI64:
      return at::kLong;
    case DType::kI32:
      return at::kInt;
    case DType::kI16:
      return at::kShort;
    case DType::kI8:
      return at::kChar;
    case DType::kU8:
      return at::kByte;
    case DType::kBool:
      return at::kBool;
  }
  TP_CHECK(false, "unknown dtype");
}

std::optional<DType> DTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kLong:
      return DType::kI64;
    case at::kInt:
      return DType::kI32;
    case at::kShort:
      return DType::kI16;
    case at::kChar:
      return DType::kI8;
    case at::kByte:
      return DType::kU8;
    case at::kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<AtenCall> ResolveAten(const Op& op, at::Device device) {
  const Names names = SplitName(op.name());
  auto handle =
      c10::Dispatcher::singleton().findSchema({names.name, names.overload});
  if (!handle) {
    const bool custom = !llvm::StringRef(op.name()).starts_with("aten.");
    return absl::UnimplementedError(absl::StrCat(
        "LibTorch ", TP_TORCH_VERSION, " has no operator ", op.name(),
        custom ? "; pass the library that defines it by --load-library" : ""));
  }
  AtenCall call{*handle, {}, false};
  const c10::FunctionSchema& schema = handle->schema();
  TP_RETURN_IF_ERROR(CheckReturns(op, schema, call));
  size_t next_slot = 0;
  size_t used_attributes = 0;
  for (const c10::Argument& formal : schema.arguments()) {
    const c10::Type& type = *formal.real_type();
    AtenArgument argument;
    const Attribute* attribute = op.attribute(formal.name());
    if (IsTensorLike(type) && next_slot < op.slots().size()) {
      argument = OperandArgument(op.slots()[next_slot++], type);
    } else if (attribute != nullptr) {
      ++used_attributes;
      argument.schema = &formal;
      argument.attribute = attribute;
      if (HasSymbols(*attribute)) {
        argument.kind = AtenArgument::Kind::kSymbolic;
      } else {
        TP_ASSIGN_OR_RETURN(argument.value,
                            ToIValue(*attribute, type, formal, {}));
      }
    } else if (IsDevice(type)) {
      argument.value = IValue(device);
    } else if (formal.default_value()) {
      argument.value = *formal.default_value();
    } else if (type.kind() != TypeKind::OptionalType) {
      return absl::InvalidArgumentError(absl::StrCat(
          "argument '", formal.name(), "' is missing: ", names.name));
    }
    argument.schema = &formal;
    call.arguments.push_back(std::move(argument));
  }
  if (next_slot != op.slots().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", op.slots().size(),
                     " tensor arguments, its schema ", next_slot));
  }
  for (const NamedAttribute& attribute : op.attributes()) {
    if (used_attributes == op.attributes().size()) break;
    if (!schema.argumentIndexWithName(attribute.name) &&
        attribute.name != "empty_if" && attribute.name != "identity") {
      return absl::InvalidArgumentError(
          absl::StrCat("has no argument named '", attribute.name, "'"));
    }
  }
  return call;
}

std::optional<c10::OperatorHandle> FindVariant(const AtenCall& call,
                                               const std::string& name,
                                               const std::string& overload) {
  auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle) return std::nullopt;
  const auto& ours = call.handle.schema().arguments();
  const auto& theirs = handle->schema().arguments();
  if (ours.size() != theirs.size()) return std::nullopt;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].name() != theirs[i].name()) return std::nullopt;
  }
  return handle;
}

absl::StatusOr<c10::IValue> EvaluateArgument(const AtenArgument& argument,
                                             const SymbolValues& symbols) {
  return ToIValue(*argument.attribute, *argument.schema->real_type(),
                  *argument.schema, symbols);
}

}  // namespace tp
