#include "frontend/runtime_numbers.h"

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

using Result = absl::StatusOr<std::optional<AbstractValue>>;

absl::StatusOr<Value*> Make(const char* name, std::vector<OperandArg> operands,
                            ImportContext& context,
                            std::vector<NamedAttribute> attributes = {}) {
  TP_ASSIGN_OR_RETURN(Op * op, context.builder.Create(name, std::move(operands),
                                                      std::move(attributes)));
  return op->result();
}

absl::StatusOr<Value*> Cast(Value* value, DType dtype, ImportContext& context) {
  if (value->type().dtype == dtype) return value;
  return Make("aten.to.dtype", {value}, context, {{"dtype", Attribute(dtype)}});
}

AbstractValue Number(Value* value) {
  return AbstractValue(RuntimeNumber{value});
}

Result UnaryNumber(llvm::StringRef op, const AbstractValue& x,
                   ImportContext& context) {
  TP_ASSIGN_OR_RETURN(Value * value, NumberValue(x, context));
  const DType dtype = value->type().dtype;
  if (op == "aten::ScalarImplicit" || op == "aten::item") return x;
  const char* op_name = nullptr;
  std::optional<DType> from, to;
  if (op == "aten::Int" || op == "aten::IntImplicit") {
    to = DType::kI64;
  } else if (op == "aten::Float" || op == "aten::FloatImplicit") {
    to = DType::kF64;
  } else if (op == "aten::Bool" || op == "aten::is_nonzero") {
    to = DType::kBool;
  } else if (op == "aten::__not__") {
    op_name = "aten.logical_not";
  } else if (op == "aten::neg") {
    op_name = "aten.neg";
    if (dtype == DType::kBool) from = DType::kI64;
  } else if (op == "prim::abs" || op == "aten::abs" || op == "aten::fabs") {
    op_name = "aten.abs";
    if (dtype == DType::kBool) from = DType::kI64;
  } else if (op == "aten::floor" || op == "aten::ceil") {
    if (dtype != DType::kF64) return Number(value);
    op_name = op == "aten::floor" ? "aten.floor" : "aten.ceil";
    to = DType::kI64;
  } else {
    op_name = llvm::StringSwitch<const char*>(op)
                  .Case("aten::sqrt", "aten.sqrt")
                  .Case("aten::exp", "aten.exp")
                  .Case("aten::log", "aten.log")
                  .Case("aten::log2", "aten.log2")
                  .Case("aten::log10", "aten.log10")
                  .Case("aten::log1p", "aten.log1p")
                  .Case("aten::sin", "aten.sin")
                  .Case("aten::cos", "aten.cos")
                  .Case("aten::tan", "aten.tan")
                  .Case("aten::tanh", "aten.tanh")
                  .Case("aten::round", "aten.round")
                  .Default(nullptr);
    if (op_name == nullptr) return std::nullopt;
    from = DType::kF64;
  }
  if (from) {
    TP_ASSIGN_OR_RETURN(value, Cast(value, *from, context));
  }
  if (op_name != nullptr) {
    TP_ASSIGN_OR_RETURN(value, Make(op_name, {value}, context));
  }
  if (to) {
    TP_ASSIGN_OR_RETURN(value, Cast(value, *to, context));
  }
  return Number(value);
}

const char* ComparisonOf(llvm::StringRef op) {
  return llvm::StringSwitch<const char*>(op)
      .Case("aten::eq", "aten.eq.Tensor")
      .Case("aten::ne", "aten.ne.Tensor")
      .Case("aten::lt", "aten.lt.Tensor")
      .Case("aten::le", "aten.le.Tensor")
      .Case("aten::gt", "aten.gt.Tensor")
      .Case("aten::ge", "aten.ge.Tensor")
      .Default(nullptr);
}

const char* ArithmeticOf(llvm::StringRef op) {
  return llvm::StringSwitch<const char*>(op)
      .Case("aten::add", "aten.add.Tensor")
      .Case("aten::sub", "aten.sub.Tensor")
      .Case("aten::mul", "aten.mul.Tensor")
      .Case("aten::div", "aten.div.Tensor")
      .Cases("aten::floordiv", "aten::__floordiv__", "aten::floor_divide",
             "aten.floor_divide")
      .Case("aten::remainder", "aten.remainder.Tensor")
      .Case("aten::fmod", "aten.fmod.Tensor")
      .Case("aten::pow", "aten.pow.Tensor_Tensor")
      .Case("prim::min", "aten.minimum")
      .Case("prim::max", "aten.maximum")
      .Case("aten::atan2", "aten.atan2")
      .Case("aten::__and__", "aten.bitwise_and.Tensor")
      .Case("aten::__or__", "aten.bitwise_or.Tensor")
      .Case("aten::__xor__", "aten.bitwise_xor.Tensor")
      .Default(nullptr);
}

Result BinaryNumber(llvm::StringRef op, const AbstractValue& a,
                    const AbstractValue& b, ScalarKind result,
                    ImportContext& context) {
  const char* comparison = ComparisonOf(op);
  const char* arithmetic = ArithmeticOf(op);
  if (comparison == nullptr && arithmetic == nullptr) return std::nullopt;
  DType dtype = DType::kI64;
  if (NumberDType(a) == DType::kF64 || NumberDType(b) == DType::kF64)
    dtype = DType::kF64;
  const bool bools =
      NumberDType(a) == DType::kBool && NumberDType(b) == DType::kBool;
  const bool bits =
      op == "aten::__and__" || op == "aten::__or__" || op == "aten::__xor__";
  if (bools && bits) dtype = DType::kBool;
  const bool always_float = op == "aten::div" || op == "aten::atan2" ||
                            (op == "aten::pow" && result != ScalarKind::kInt);
  if (always_float) dtype = DType::kF64;
  TP_ASSIGN_OR_RETURN(Value * x, NumberValue(a, context, dtype));
  TP_ASSIGN_OR_RETURN(Value * y, NumberValue(b, context, dtype));
  TP_ASSIGN_OR_RETURN(
      Value * value,
      Make(comparison != nullptr ? comparison : arithmetic, {x, y}, context));
  return Number(value);
}

// len(range(start, end, step)) with a known step.
Result RangeLength(llvm::ArrayRef<AbstractValue> arguments,
                   ImportContext& context) {
  const AbstractValue& step = arguments[2];
  std::optional<int64_t> stride =
      step.is_int() ? step.as_int().AsConstant() : std::nullopt;
  if (!stride || *stride == 0) return std::nullopt;
  const AbstractValue& low = *stride > 0 ? arguments[0] : arguments[1];
  const AbstractValue& high = *stride > 0 ? arguments[1] : arguments[0];
  const int64_t size = *stride > 0 ? *stride : -*stride;
  auto binary = [&](llvm::StringRef op, const AbstractValue& a,
                    const AbstractValue& b) -> absl::StatusOr<AbstractValue> {
    TP_ASSIGN_OR_RETURN(std::optional<AbstractValue> value,
                        BinaryNumber(op, a, b, ScalarKind::kInt, context));
    return *value;
  };
  TP_ASSIGN_OR_RETURN(AbstractValue span, binary("aten::sub", high, low));
  if (size != 1) {
    TP_ASSIGN_OR_RETURN(span, binary("aten::add", span, SymExpr(size - 1)));
    TP_ASSIGN_OR_RETURN(span, binary("aten::floordiv", span, SymExpr(size)));
  }
  TP_ASSIGN_OR_RETURN(span, binary("prim::max", span, SymExpr(0)));
  return span;
}

Result RangeIndex(llvm::ArrayRef<AbstractValue> arguments,
                  ImportContext& context) {
  TP_ASSIGN_OR_RETURN(std::optional<AbstractValue> offset,
                      BinaryNumber("aten::mul", arguments[0], arguments[2],
                                   ScalarKind::kInt, context));
  return BinaryNumber("aten::add", arguments[1], *offset, ScalarKind::kInt,
                      context);
}

}  // namespace

DType NumberDType(const AbstractValue& number) {
  if (number.is_runtime_number())
    return number.as_runtime_number()->type().dtype;
  if (number.is_bool()) return DType::kBool;
  return number.is_float() ? DType::kF64 : DType::kI64;
}

absl::StatusOr<Value*> NumberValue(const AbstractValue& number,
                                   ImportContext& context,
                                   std::optional<DType> dtype) {
  if (number.is_runtime_number())
    return Cast(number.as_runtime_number(), dtype.value_or(NumberDType(number)),
                context);
  if (!number.is_number())
    return context.Invalid("a number was expected, got " + number.KindName());
  const DType own = NumberDType(number);
  // A known number is made as what it is to become, where that is plain.
  if (dtype == DType::kF64 && number.is_int()) {
    if (std::optional<int64_t> constant = number.as_int().AsConstant())
      return NumberValue(static_cast<double>(*constant), context);
  }
  TensorRef tensor = context.aliases.NewScalar(*ToAttribute(number), own);
  TP_ASSIGN_OR_RETURN(Value * value, context.aliases.Read(tensor));
  return Cast(value, dtype.value_or(own), context);
}

absl::StatusOr<AbstractValue> ReadRuntimeNumber(Value* tensor,
                                                ImportContext& context) {
  if (tensor->type().ndim() > 0) {
    TP_ASSIGN_OR_RETURN(
        tensor, Make("aten.reshape", {tensor}, context,
                     {{"shape", Attribute::Ints(llvm::ArrayRef<SymExpr>())}}));
  }
  const DType dtype = tensor->type().dtype;
  TP_ASSIGN_OR_RETURN(tensor, Cast(tensor,
                                   dtype == DType::kBool    ? DType::kBool
                                   : IsFloatingPoint(dtype) ? DType::kF64
                                                            : DType::kI64,
                                   context));
  return Number(tensor);
}

bool DependsOnData(const AbstractValue& value, ImportContext& context) {
  return value.is_runtime_number() ||
         (value.is_int() &&
          context.module.assumptions().DependsOnData(value.as_int()));
}

absl::StatusOr<std::optional<AbstractValue>> EvaluateRuntimeNumberOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ScalarKind result, ImportContext& context) {
  bool depends = false;
  for (const AbstractValue& argument : arguments) {
    if (!argument.is_number() && !argument.is_runtime_number())
      return std::nullopt;
    depends = depends || DependsOnData(argument, context);
  }
  if (!depends) return std::nullopt;
  if (arguments.size() == 1) return UnaryNumber(op, arguments[0], context);
  if (arguments.size() == 2)
    return BinaryNumber(op, arguments[0], arguments[1], result, context);
  if (op == "aten::__range_length" && arguments.size() == 3)
    return RangeLength(arguments, context);
  if (op == "aten::__derive_index" && arguments.size() == 3)
    return RangeIndex(arguments, context);
  return std::nullopt;
}

}  // namespace tp
