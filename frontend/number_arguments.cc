#include "frontend/number_arguments.h"

#include <ATen/core/jit_type.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "frontend/grown_list.h"
#include "frontend/op_call.h"
#include "frontend/runtime_numbers.h"
#include "frontend/torch_types.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

using Values = std::vector<AbstractValue>;

c10::TypeKind KindOf(const c10::Argument& argument) {
  c10::TypePtr type = argument.type();
  while (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();
  return type->kind();
}

bool IsTensorSlot(const c10::Argument& argument) {
  return KindOf(argument) == c10::TypeKind::TensorType;
}

// Whether a call of `given` can be one of `other`, and takes a tensor for
// every number that depends on data.
bool Serves(const c10::FunctionSchema& given, const c10::FunctionSchema& other,
            llvm::ArrayRef<AbstractValue> arguments) {
  // Writes in place become the op that does not.
  c10::OperatorName name = other.operator_name();
  if (name.name.back() == '_') name.name.pop_back();
  if (other.arguments().size() != arguments.size() ||
      FindOpDef(OpName(name)) == nullptr)
    return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& from = given.arguments()[i];
    const c10::Argument& to = other.arguments()[i];
    if (arguments[i].is_runtime_number()) {
      if (!IsTensorSlot(to)) return false;
    } else if (KindOf(from) != KindOf(to)) {
      // clamp(x, 0, n): the other bound becomes a tensor, too.
      const bool number = arguments[i].is_number() || arguments[i].is_none();
      if (!IsTensorSlot(to) || !number) return false;
    }
  }
  return true;
}

// Categories of dtypes: bool, then integers, then floats.
int Category(DType dtype) {
  if (dtype == DType::kBool) return 0;
  return IsFloatingPoint(dtype) ? 2 : 1;
}

// A number by a tensor of no dims, of the dtype that gives the result the
// dtype it has with a number.
absl::StatusOr<AbstractValue> NumberTensor(
    const AbstractValue& number, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  TP_ASSIGN_OR_RETURN(Value * value, NumberValue(number, context));
  int category = -1;
  bool has_dims = false;
  DType scalar = DType::kBool;
  for (const AbstractValue& argument : arguments) {
    if (!argument.is_tensor()) continue;
    const TensorType& type = argument.as_tensor()->type();
    category = std::max(category, Category(type.dtype));
    has_dims = has_dims || type.ndim() > 0;
    if (Category(type.dtype) == category) scalar = type.dtype;
  }
  DType dtype = value->type().dtype;
  if (Category(dtype) > category)
    dtype = dtype == DType::kF64 ? DType::kF32 : dtype;
  else if (!has_dims)
    dtype = scalar;
  if (dtype != value->type().dtype) {
    TP_ASSIGN_OR_RETURN(Op * cast,
                        context.builder.Create("aten.to.dtype", {value},
                                               {{"dtype", Attribute(dtype)}}));
    value = cast->result();
  }
  return context.aliases.NewTensor(value);
}

// x.select(dim, i) as a view that a write goes through.
absl::StatusOr<AbstractValue> Select(const TensorRef& self,
                                     const AbstractValue& dim,
                                     const AbstractValue& index,
                                     ImportContext& context) {
  const int ndim = self->type().ndim();
  std::optional<int64_t> at =
      dim.is_int() ? dim.as_int().AsConstant() : std::nullopt;
  if (!at || *at < -ndim || *at >= ndim)
    return context.Invalid("select() along a dim that is none");
  if (*at < 0) *at += ndim;
  TP_ASSIGN_OR_RETURN(Value * value, context.aliases.Read(self));
  TP_ASSIGN_OR_RETURN(Value * position,
                      WrappedIndex(index, self->type().dims[*at], context));
  TP_ASSIGN_OR_RETURN(
      Op * part, context.builder.Create("aten.index_select", {value, position},
                                        {{"dim", *at}}));
  TensorRef rows = context.aliases.NewView(
      self, ViewStep{part->name(), part->attributes(), {position}},
      part->result());
  TP_ASSIGN_OR_RETURN(
      Op * row, context.builder.Create("aten.squeeze.dim", {part->result()},
                                       {{"dim", *at}}));
  return context.aliases.NewView(rows, ViewStep{row->name(), row->attributes()},
                                 row->result());
}

}  // namespace

bool HasRuntimeNumbers(llvm::ArrayRef<AbstractValue> arguments) {
  return llvm::any_of(arguments, [](const AbstractValue& argument) {
    if (argument.is_runtime_number()) return true;
    const Values* items = argument.items();
    return items != nullptr && HasRuntimeNumbers(*items);
  });
}

absl::StatusOr<std::optional<TensorCall>> WithTensorNumbers(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  // Those in lists are sizes.
  const bool any = llvm::any_of(arguments, [](const AbstractValue& argument) {
    return argument.is_runtime_number();
  });
  if (!any || schema.arguments().size() != arguments.size())
    return std::nullopt;
  const auto overloads = torch::jit::getAllOperatorsFor(
      c10::Symbol::fromQualString(schema.name()));
  for (const auto& overload : overloads) {
    const c10::FunctionSchema& other = overload->schema();
    if (!Serves(schema, other, arguments)) continue;
    TensorCall call;
    call.schema = &other;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const bool lifts =
          arguments[i].is_runtime_number() ||
          (arguments[i].is_number() && IsTensorSlot(other.arguments()[i]));
      if (!lifts) {
        call.arguments.push_back(arguments[i]);
        continue;
      }
      TP_ASSIGN_OR_RETURN(AbstractValue tensor,
                          NumberTensor(arguments[i], arguments, context));
      call.arguments.push_back(tensor);
    }
    return call;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<std::vector<AbstractValue>>> ImportByNumber(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  const std::string& name = schema.name();
  if (name == "aten::select" && arguments.size() == 3 &&
      arguments[0].is_tensor() && arguments[2].is_runtime_number()) {
    TP_ASSIGN_OR_RETURN(
        AbstractValue part,
        Select(arguments[0].as_tensor(), arguments[1], arguments[2], context));
    return Values{part};
  }
  const AbstractValue* fill = FindArgument(schema, arguments, "fill_value");
  const bool fills = name == "aten::full" || name == "aten::full_like" ||
                     name == "aten::new_full";
  if (!fills || fill == nullptr || !fill->is_runtime_number())
    return std::nullopt;
  // Filled with a 0 of that kind, then with the number.
  Values zeros = arguments.vec();
  TP_ASSIGN_OR_RETURN(Value * value, NumberValue(*fill, context));
  const DType dtype = value->type().dtype;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema.arguments()[i].name() != "fill_value") continue;
    zeros[i] = dtype == DType::kBool  ? AbstractValue(false)
               : dtype == DType::kF64 ? AbstractValue(0.0)
                                      : AbstractValue(SymExpr(0));
  }
  TP_ASSIGN_OR_RETURN(OpCall call, MakeOpCall(schema, zeros, context));
  TP_ASSIGN_OR_RETURN(
      Op * zero,
      context.builder.Create(call.name, call.operands, call.attributes));
  const TensorType type = zero->result()->type();
  TP_ASSIGN_OR_RETURN(Op * cast,
                      context.builder.Create("aten.to.dtype", {value},
                                             {{"dtype", type.dtype}}));
  TP_ASSIGN_OR_RETURN(Op * filled,
                      context.builder.Create("aten.fill.Tensor",
                                             {zero->result(), cast->result()}));
  return Values{context.aliases.NewTensor(filled->result())};
}

}  // namespace tp
