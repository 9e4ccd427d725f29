#include "frontend/tensor_queries.h"

#include "absl/strings/str_cat.h"
#include "frontend/runtime_numbers.h"
#include "frontend/scalar_ops.h"
#include "frontend/torch_types.h"
#include "ir/status.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

using Result = absl::StatusOr<std::optional<AbstractValue>>;

// 0 is the layout code of torch.strided.
constexpr int64_t kStridedLayout = 0;

absl::StatusOr<SymExpr> SizeOf(const TensorType& type, const AbstractValue& dim,
                               ImportContext& context) {
  if (!dim.is_int()) return context.Invalid("size() of a dim that is no int");
  TP_ASSIGN_OR_RETURN(int64_t index,
                      context.Concrete(dim.as_int(), "a dim's index"));
  if (index < -type.ndim() || index >= type.ndim())
    return context.Invalid(absl::StrCat("size(", index, ") of a tensor of ",
                                        type.ndim(), " dims"));
  return context.module.assumptions().Simplify(
      type.dims[index < 0 ? index + type.ndim() : index]);
}

AbstractValue Sizes(const TensorType& type, ImportContext& context) {
  std::vector<AbstractValue> sizes;
  for (const SymExpr& dim : type.dims)
    sizes.push_back(context.module.assumptions().Simplify(dim));
  return AbstractValue::MakeList(std::move(sizes));
}

// item() and the conversions to a number.
Result ReadNumber(llvm::StringRef op, const TensorRef& tensor,
                  ImportContext& context) {
  std::optional<Attribute> scalar = context.aliases.Scalar(tensor);
  if (scalar)
    return EvaluateScalarOp(op, {FromAttribute(*scalar)}, ScalarKind::kOther,
                            context);
  if (context.module.assumptions()
          .Known(tensor->type().num_elements(), Relation::kEq, 1)
          .value_or(false)) {
    TP_ASSIGN_OR_RETURN(Value * value, context.aliases.Read(tensor));
    TP_ASSIGN_OR_RETURN(AbstractValue number,
                        ReadRuntimeNumber(value, context));
    return EvaluateRuntimeNumberOp(op, {number}, ScalarKind::kOther, context);
  }
  return AbstractValue::Unknown(absl::StrCat(
      ToString(context.location()),
      ": reads a number out of a tensor that may have more than one"));
}

// Whether all elements are equal, where both have the same dims.
Result EqualTensors(const TensorRef& a, const TensorRef& b,
                    ImportContext& context) {
  if (a->type().dims != b->type().dims)
    return AbstractValue::Unknown(
        absl::StrCat(ToString(context.location()),
                     ": torch.equal of tensors of other sizes"));
  TP_ASSIGN_OR_RETURN(Value * x, context.aliases.Read(a));
  TP_ASSIGN_OR_RETURN(Value * y, context.aliases.Read(b));
  TP_ASSIGN_OR_RETURN(Op * same,
                      context.builder.Create("aten.eq.Tensor", {x, y}));
  TP_ASSIGN_OR_RETURN(Op * all,
                      context.builder.Create("aten.all", {same->result()}));
  return AbstractValue(RuntimeNumber{all->result()});
}

}  // namespace

absl::StatusOr<std::optional<AbstractValue>> EvaluateTensorQuery(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  if (arguments.empty() || !arguments[0].is_tensor()) return std::nullopt;
  const TensorRef& tensor = arguments[0].as_tensor();
  const TensorType& type = tensor->type();
  if (op == "aten::size" || op == "aten::sym_size") {
    if (arguments.size() == 1) return Sizes(type, context);
    TP_ASSIGN_OR_RETURN(SymExpr size, SizeOf(type, arguments[1], context));
    return AbstractValue(size);
  }
  if (op == "prim::shape") return Sizes(type, context);
  if (op == "aten::dim" || op == "prim::ndim")
    return AbstractValue(SymExpr(type.ndim()));
  if (op == "aten::numel" || op == "aten::sym_numel")
    return AbstractValue(
        context.module.assumptions().Simplify(type.num_elements()));
  if (op == "aten::len" || op == "aten::__len__") {
    TP_ASSIGN_OR_RETURN(SymExpr size, SizeOf(type, SymExpr(0), context));
    return AbstractValue(size);
  }
  if (op == "prim::dtype")
    return AbstractValue(SymExpr(ToScalarTypeCode(type.dtype)));
  if (op == "prim::device") return AbstractValue(DeviceValue{"cpu"});
  if (op == "prim::layout") return AbstractValue(SymExpr(kStridedLayout));
  if (op == "aten::is_floating_point")
    return AbstractValue(IsFloatingPoint(type.dtype));
  // As with gradients on: modules that choose between a fused fast path and
  // plain ops by it take the plain ops, which can be split.
  if (op == "prim::requires_grad")
    return AbstractValue(IsFloatingPoint(type.dtype));
  if (op == "aten::element_size")
    return AbstractValue(SymExpr(ByteSize(type.dtype)));
  if (op == "aten::is_complex" || op == "prim::is_cuda" ||
      op == "prim::is_sparse" || op == "prim::is_mkldnn" ||
      op == "prim::is_quantized" || op == "prim::is_meta" ||
      op == "prim::is_nested" || op == "prim::is_xpu" || op == "prim::is_mps" ||
      op == "prim::requires_grad" || op == "aten::is_neg" ||
      op == "aten::is_conj")
    return AbstractValue(false);
  const bool reads_number =
      llvm::StringSwitch<bool>(op)
          .Cases("aten::item", "aten::Int", "aten::Float", "aten::Bool",
                 "aten::IntImplicit", "aten::FloatImplicit",
                 "aten::ScalarImplicit", true)
          .Default(false);
  if (reads_number && arguments.size() == 1)
    return ReadNumber(op, tensor, context);
  if (op == "aten::is_nonzero")
    return ReadNumber("aten::Bool", tensor, context);
  if (op == "aten::equal" && arguments.size() == 2 && arguments[1].is_tensor())
    return EqualTensors(tensor, arguments[1].as_tensor(), context);
  if (op == "aten::stride" || op == "aten::is_contiguous" ||
      op == "aten::storage_offset" || op == "aten::equal" ||
      op == "aten::allclose" || op == "aten::tolist" || op == "prim::tolist")
    return AbstractValue::Unknown(
        absl::StrCat(ToString(context.location()), ": ", op.str(),
                     " is known only when the model runs"));
  return std::nullopt;
}

absl::StatusOr<std::optional<AbstractValue>> FoldScalarTensorOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  if ((op == "aten::detach" || op == "aten::clone") &&
      arguments[0].is_tensor()) {
    const TensorRef& tensor = arguments[0].as_tensor();
    std::optional<Attribute> scalar = context.aliases.Scalar(tensor);
    if (!scalar || !scalar->is_int()) return std::nullopt;
    if (op == "aten::detach")
      return AbstractValue(context.aliases.NewAlias(tensor));
    return AbstractValue(
        context.aliases.NewScalar(*scalar, tensor->type().dtype));
  }
  std::vector<AbstractValue> numbers;
  bool any_tensor = false;
  // div(a, b, rounding_mode="trunc") is a floor division where nothing is
  // negative.
  bool truncates = false;
  if (op == "aten::div") {
    if (arguments.size() != 3 || !arguments[2].is_string()) return std::nullopt;
    truncates = arguments[2].as_string() == "trunc";
    arguments = arguments.drop_back();
    op = "aten::floor_divide";
  }
  for (const AbstractValue& argument : arguments) {
    if (argument.is_int()) {
      numbers.push_back(argument);
      continue;
    }
    if (!argument.is_tensor()) return std::nullopt;
    any_tensor = true;
    std::optional<Attribute> scalar =
        context.aliases.Scalar(argument.as_tensor());
    if (!scalar || argument.as_tensor()->type().dtype != DType::kI64 ||
        !scalar->is_int())
      return std::nullopt;
    numbers.push_back(scalar->as_int());
  }
  if (!any_tensor) return std::nullopt;
  for (const AbstractValue& number : numbers)
    if (truncates && number.as_int().LowerBound().value_or(-1) < 0)
      return std::nullopt;
  const bool has_alpha =
      (op == "aten::add" || op == "aten::sub") && numbers.size() == 3;
  if (op == "aten::rsub") {
    // rsub(a, b, alpha) = b - alpha * a.
    if (numbers.size() == 3)
      numbers[0] = numbers[0].as_int() * numbers[2].as_int();
    numbers.resize(2);
    std::swap(numbers[0], numbers[1]);
    op = "aten::sub";
  } else if (has_alpha) {
    numbers[1] = numbers[1].as_int() * numbers[2].as_int();
    numbers.pop_back();
  }
  const llvm::StringRef scalar_op =
      llvm::StringSwitch<llvm::StringRef>(op)
          .Case("aten::floor_divide", "aten::floordiv")
          .Cases("aten::min", "aten::minimum", "prim::min")
          .Cases("aten::max", "aten::maximum", "prim::max")
          .Cases("aten::add", "aten::sub", "aten::mul", "aten::remainder",
                 "aten::neg", "aten::eq", "aten::ne", "aten::lt", op)
          .Cases("aten::le", "aten::gt", "aten::ge", "aten::abs", op)
          .Default("");
  if (scalar_op.empty() || numbers.size() > 2) return std::nullopt;
  if (numbers.size() == 1 && (op != "aten::neg" && op != "aten::abs"))
    return std::nullopt;
  TP_ASSIGN_OR_RETURN(
      std::optional<AbstractValue> result,
      EvaluateScalarOp(scalar_op, numbers, ScalarKind::kInt, context));
  if (!result) return std::nullopt;
  return ScalarTensor(*result, std::nullopt, context);
}

AbstractValue ScalarTensor(const AbstractValue& number,
                           std::optional<DType> dtype, ImportContext& context) {
  DType own = number.is_bool()    ? DType::kBool
              : number.is_float() ? DType::kF32
                                  : DType::kI64;
  return context.aliases.NewScalar(*ToAttribute(number), dtype.value_or(own));
}

}  // namespace tp
