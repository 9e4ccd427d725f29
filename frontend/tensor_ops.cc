#include "frontend/tensor_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontend/batch_statistics.h"
#include "frontend/in_place_ops.h"
#include "frontend/index_bounds.h"
#include "frontend/number_arguments.h"
#include "frontend/op_call.h"
#include "frontend/runtime_numbers.h"
#include "frontend/scalar_ops.h"
#include "frontend/tensor_queries.h"
#include "frontend/torch_types.h"
#include "frontend/unknown_op.h"
#include "frontend/view_ops.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

using Values = std::vector<AbstractValue>;
using Results = absl::StatusOr<Values>;
using MaybeResults = absl::StatusOr<std::optional<Values>>;
using Arguments = llvm::ArrayRef<AbstractValue>;

bool IsTrue(const AbstractValue* value) {
  return value != nullptr && value->is_bool() && value->as_bool();
}

bool IsZero(const AbstractValue* value) {
  if (value == nullptr) return true;
  if (value->is_int()) return value->as_int() == SymExpr(0);
  return value->is_float() && value->as_float() == 0;
}

absl::Status InTrainingMode(llvm::StringRef what, ImportContext& context) {
  return context.Unsupported(absl::StrCat(
      what.str(),
      " is in training mode: the file was exported while the model "
      "was training; call .eval() before tracing or scripting it"));
}

std::optional<DType> CastTarget(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<DType>>(name)
      .Case("aten::float", DType::kF32)
      .Case("aten::double", DType::kF64)
      .Case("aten::half", DType::kF16)
      .Case("aten::bfloat16", DType::kBF16)
      .Case("aten::long", DType::kI64)
      .Case("aten::int", DType::kI32)
      .Case("aten::bool", DType::kBool)
      .Default(std::nullopt);
}

// All ops that convert a dtype, as aten.to.dtype, or the tensor itself.
MaybeResults ImportCast(const c10::FunctionSchema& schema, Arguments arguments,
                        ImportContext& context) {
  const std::string& name = schema.name();
  if (arguments.empty() || !arguments[0].is_tensor()) return std::nullopt;
  const TensorRef& self = arguments[0].as_tensor();
  std::optional<DType> dtype = CastTarget(name);
  const bool is_to = name == "aten::to" || name == "aten::_to_copy";
  if (!dtype && !is_to && name != "aten::type_as" && name != "aten::cpu")
    return std::nullopt;
  bool copy = name == "aten::_to_copy";
  if (!dtype) {
    dtype = self->type().dtype;
    const AbstractValue* other = FindArgument(schema, arguments, "other");
    const AbstractValue* target = FindArgument(schema, arguments, "dtype");
    if (other != nullptr && other->is_tensor()) {
      dtype = other->as_tensor()->type().dtype;
    } else if (target != nullptr && target->is_int()) {
      std::optional<int64_t> code = target->as_int().AsConstant();
      dtype = code ? FromScalarTypeCode(*code) : std::nullopt;
      if (!dtype)
        return context.Unsupported(
            absl::StrCat("to() a dtype that is not supported (code ",
                         target->ToString(), ")"));
    }
    copy = copy || IsTrue(FindArgument(schema, arguments, "copy"));
  }
  if (*dtype == self->type().dtype && !copy)
    return Values{context.aliases.NewAlias(self)};
  TP_ASSIGN_OR_RETURN(Value * value, context.aliases.Read(self));
  absl::StatusOr<Op*> op =
      *dtype == self->type().dtype
          ? context.builder.Create("aten.clone", {value})
          : context.builder.Create("aten.to.dtype", {value},
                                   {{"dtype", Attribute(*dtype)}});
  if (!op.ok()) return op.status();
  return Values{context.aliases.NewTensor((*op)->result())};
}

// Dropout and other ops that do nothing, or less, in evaluation mode.
MaybeResults ImportModal(const c10::FunctionSchema& schema, Arguments arguments,
                         ImportContext& context) {
  const llvm::StringRef name = schema.name();
  if (name.contains("dropout") && arguments.size() == 3 &&
      schema.arguments()[2].name() == "train") {
    if (IsTrue(&arguments[2]) && !IsZero(&arguments[1])) {
      if (context.train && name == "aten::dropout") return std::nullopt;
      return InTrainingMode("dropout", context);
    }
    return Values{arguments[0]};
  }
  const bool batch = name == "aten::batch_norm" ||
                     name == "aten::native_batch_norm" ||
                     name == "aten::_batch_norm_impl_index";
  if (batch || name == "aten::instance_norm") {
    const AbstractValue* mean = FindArgument(schema, arguments, "running_mean");
    const AbstractValue* training =
        FindArgument(schema, arguments, batch ? "training" : "use_input_stats");
    if (IsTrue(training) && mean != nullptr && mean->is_tensor()) {
      if (name == "aten::batch_norm" || name == "aten::instance_norm")
        return ImportBatchStatistics(schema, arguments, context);
      return InTrainingMode(name.drop_front(6), context);
    }
  }
  if (name == "aten::scaled_dot_product_attention" && !context.train &&
      !IsZero(FindArgument(schema, arguments, "dropout_p")))
    return InTrainingMode("dropout in scaled_dot_product_attention", context);
  if (IsTrue(FindArgument(schema, arguments, "train")) &&
      !IsZero(FindArgument(schema, arguments, "dropout")))
    return InTrainingMode(name.drop_front(6), context);
  if (IsTrue(FindArgument(schema, arguments, "training")) &&
      name.contains("rrelu"))
    return InTrainingMode(name.drop_front(6), context);
  return std::nullopt;
}

// torch.tensor of a number or a nested list of numbers.
absl::StatusOr<AbstractValue> TensorOf(const AbstractValue& data,
                                       std::optional<DType> dtype,
                                       ImportContext& context) {
  if (data.is_number()) return ScalarTensor(data, dtype, context);
  if (data.is_runtime_number()) {
    Value* value = data.as_runtime_number();
    const DType own = value->type().dtype;
    const DType wanted = dtype.value_or(own == DType::kF64 ? DType::kF32 : own);
    if (own != wanted) {
      TP_ASSIGN_OR_RETURN(
          Op * cast, context.builder.Create("aten.to.dtype", {value},
                                            {{"dtype", Attribute(wanted)}}));
      value = cast->result();
    }
    return context.aliases.NewTensor(value);
  }
  if (data.is_tensor()) return data;
  const Values* items = data.items();
  if (items == nullptr || items->empty())
    return context.Unsupported("torch.tensor of a " + data.KindName());
  if (!dtype) {
    const Values* leaves = items;
    while (leaves != nullptr && !leaves->empty() &&
           (*leaves)[0].items() != nullptr)
      leaves = (*leaves)[0].items();
    dtype = DType::kI64;
    for (const AbstractValue& leaf : *leaves) {
      const bool number = leaf.is_number() || leaf.is_runtime_number();
      if (number && NumberDType(leaf) == DType::kF64) dtype = DType::kF32;
      if (number && NumberDType(leaf) == DType::kBool) dtype = DType::kBool;
    }
  }
  std::vector<Value*> values;
  for (const AbstractValue& item : *items) {
    TP_ASSIGN_OR_RETURN(AbstractValue part, TensorOf(item, dtype, context));
    TP_ASSIGN_OR_RETURN(Value * value, context.aliases.Read(part.as_tensor()));
    values.push_back(value);
  }
  TP_ASSIGN_OR_RETURN(Op * op, context.builder.Create("aten.stack", {values}));
  return context.aliases.NewTensor(op->result());
}

MaybeResults ImportConstruction(const c10::FunctionSchema& schema,
                                Arguments arguments, ImportContext& context) {
  const std::string& name = schema.name();
  if (name == "prim::NumToTensor" && arguments[0].is_number())
    return Values{ScalarTensor(
        arguments[0],
        arguments[0].is_float() ? std::optional(DType::kF64) : std::nullopt,
        context)};
  if (name == "prim::NumToTensor" && arguments[0].is_runtime_number())
    return Values{context.aliases.NewTensor(arguments[0].as_runtime_number())};
  const bool makes = name == "aten::tensor" || name == "aten::as_tensor" ||
                     name == "aten::scalar_tensor";
  if (!makes) return std::nullopt;
  std::optional<DType> dtype;
  const AbstractValue* given = FindArgument(schema, arguments, "dtype");
  if (given != nullptr && given->is_int()) {
    std::optional<int64_t> code = given->as_int().AsConstant();
    dtype = code ? FromScalarTypeCode(*code) : std::nullopt;
    if (!dtype) return context.Unsupported("a tensor of an unknown dtype");
  } else if (name == "aten::scalar_tensor") {
    dtype = DType::kF32;
  }
  TP_ASSIGN_OR_RETURN(AbstractValue tensor,
                      TensorOf(arguments[0], dtype, context));
  return Values{tensor};
}

bool IsEmptyList(const TensorType& type) {
  return type.ndim() == 1 && type.dims[0] == SymExpr(0);
}

// upsample(x, none, ..., [2.0, 2.0]) by its output size, where that is the
// same to the last bit.
void ScaleToSize(Values& arguments) {
  const AbstractValue& factors = arguments.back();
  if (!arguments[0].is_tensor() || !arguments[1].is_none() ||
      !factors.is_list())
    return;
  const Dims& dims = arguments[0].as_tensor()->type().dims;
  const Values& scales = factors.as_list()->items;
  if (dims.size() != scales.size() + 2) return;
  Values sizes;
  for (size_t i = 0; i < scales.size(); ++i) {
    if (!scales[i].is_float()) return;
    const double scale = scales[i].as_float();
    if (!(scale >= 1 && scale <= 1024) || scale != std::floor(scale)) return;
    sizes.push_back(dims[i + 2] * SymExpr(static_cast<int64_t>(scale)));
  }
  arguments[1] = AbstractValue::MakeList(std::move(sizes));
  arguments.back() = NoneValue{};
}

// The call's arguments in the form that the op table knows.
Results Normalize(const c10::FunctionSchema& schema, Arguments arguments) {
  Values normal = arguments.vec();
  const std::string& name = schema.name();
  if ((name == "aten::cat" || name == "aten::concat") &&
      normal[0].items() != nullptr) {
    // cat leaves out tensors of dims [0], whatever the others have: caches
    // start as such.
    Values kept;
    for (const AbstractValue& item : *normal[0].items())
      if (!item.is_tensor() || !IsEmptyList(item.as_tensor()->type()))
        kept.push_back(item);
    if (!kept.empty()) normal[0] = AbstractValue::MakeList(std::move(kept));
  }
  if (llvm::StringRef(name).starts_with("aten::upsample_") &&
      schema.overload_name() == "vec")
    ScaleToSize(normal);
  return normal;
}

// repeat_interleave by a tensor that holds one known number.
MaybeResults ImportRepeat(const c10::FunctionSchema& schema,
                          Arguments arguments, ImportContext& context) {
  if (schema.name() != "aten::repeat_interleave" || arguments.size() < 3 ||
      !arguments[0].is_tensor() || !arguments[1].is_tensor())
    return std::nullopt;
  std::optional<Attribute> count =
      context.aliases.Scalar(arguments[1].as_tensor());
  if (!count || !count->is_int()) return std::nullopt;
  TP_ASSIGN_OR_RETURN(Value * self,
                      context.aliases.Read(arguments[0].as_tensor()));
  std::vector<NamedAttribute> attributes = {{"repeats", *count}};
  if (arguments[2].is_int())
    attributes.push_back({"dim", arguments[2].as_int()});
  TP_ASSIGN_OR_RETURN(
      Op * op, context.builder.Create("aten.repeat_interleave.self_int", {self},
                                      std::move(attributes)));
  return Values{context.aliases.NewTensor(op->result())};
}

// Ops that hand on their argument.
bool IsIdentity(llvm::StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Cases("aten::requires_grad_", "aten::detach_", "aten::resolve_conj",
             "aten::resolve_neg", "aten::lift", true)
      .Cases("prim::NumToTensor", "aten::cuda", "prim::profile",
             "aten::pin_memory", true)
      .Default(false);
}

Values Unknowns(size_t count, const std::string& reason) {
  return Values(count, AbstractValue::Unknown(reason));
}

bool GivesTensorList(const c10::FunctionSchema& schema) {
  return schema.returns().size() == 1 &&
         schema.returns()[0].type()->kind() == c10::TypeKind::ListType;
}

bool SharesMemory(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns())
    if (result.alias_info() != nullptr) return true;
  return false;
}

TensorRef FirstTensor(Arguments arguments) {
  for (const AbstractValue& argument : arguments) {
    if (argument.is_tensor()) return argument.as_tensor();
    if (argument.items() == nullptr) continue;
    for (const AbstractValue& item : *argument.items())
      if (item.is_tensor()) return item.as_tensor();
  }
  return nullptr;
}

Results Emit(const c10::FunctionSchema& schema, Arguments arguments,
             ImportContext& context) {
  const size_t num_returns = schema.returns().size();
  TP_ASSIGN_OR_RETURN(OpCall call, MakeOpCall(schema, arguments, context));
  TP_ASSIGN_OR_RETURN(call, NormalizeView(std::move(call), context));
  if (FindOpDef(call.name) == nullptr) {
    if (!context.strict)
      return ImportUnknownOp(schema, call, arguments, context);
    context.AddMissing(call.name);
    return Unknowns(num_returns, call.name + " has no row in the op table");
  }
  for (const c10::Argument& result : schema.returns()) {
    const auto kind = result.type()->kind();
    if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType)
      return Unknowns(
          num_returns,
          absl::StrCat(ToString(context.location()), ": ", call.name,
                       " is known only when the model runs"));
  }
  TP_ASSIGN_OR_RETURN(Op * op, context.builder.Create(call.name, call.operands,
                                                      call.attributes));
  if (op->Is("aten.embedding"))
    TP_RETURN_IF_ERROR(GuardEmbeddingIndices(*op, context));
  const Aliasing aliasing = AliasingOf(op->base_name(), SharesMemory(schema));
  TP_ASSIGN_OR_RETURN(
      Values results,
      TrackResults(*op, aliasing, FirstTensor(arguments), context));
  if (GivesContiguous(*op, arguments))
    for (const AbstractValue& result : results)
      result.as_tensor()->node->contiguous = true;
  if (GivesTensorList(schema))
    return Values{AbstractValue::MakeList(std::move(results))};
  if (results.size() > num_returns) results.resize(num_returns);
  while (results.size() < num_returns)
    results.push_back(AbstractValue::Unknown(
        absl::StrCat(ToString(context.location()), ": result ", results.size(),
                     " of ", call.name, " is not supported")));
  return results;
}

}  // namespace

bool WritesArguments(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments())
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite())
      return true;
  return false;
}

namespace {

// The op that takes the same arguments and gives the same values. What LibTorch
// calls unsafe are views that autograd does not know to be views.
const c10::FunctionSchema& UsualSpelling(const c10::FunctionSchema& schema) {
  static constexpr std::pair<llvm::StringLiteral, const char*> kSpellings[] = {
      {"aten::unsafe_chunk", "aten::chunk"},
      {"aten::unsafe_split", "aten::split"},
      {"aten::unsafe_split_with_sizes", "aten::split_with_sizes"}};
  for (const auto& [name, usual] : kSpellings) {
    if (schema.name() != name) continue;
    auto found = c10::Dispatcher::singleton().findSchema(
        {usual, schema.overload_name()});
    if (found) return found->schema();
  }
  return schema;
}

}  // namespace

absl::StatusOr<std::vector<AbstractValue>> ImportTensorOp(
    const c10::FunctionSchema& spelled, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  const c10::FunctionSchema& schema = UsualSpelling(spelled);
  for (auto step :
       {ImportModal, ImportCast, ImportConstruction, ImportRepeat}) {
    TP_ASSIGN_OR_RETURN(std::optional<Values> results,
                        step(schema, arguments, context));
    if (results) return *std::move(results);
  }
  if (HasRuntimeNumbers(arguments)) {
    TP_ASSIGN_OR_RETURN(std::optional<TensorCall> call,
                        WithTensorNumbers(schema, arguments, context));
    if (call) return ImportTensorOp(*call->schema, call->arguments, context);
    TP_ASSIGN_OR_RETURN(std::optional<Values> results,
                        ImportByNumber(schema, arguments, context));
    if (results) return *std::move(results);
    const std::string why = absl::StrCat(
        ToString(context.location()), ": ", OpName(schema.operator_name()),
        " by a number that depends on data gives a size that is known only "
        "when the model runs");
    if (WritesArguments(schema)) return context.Unsupported(why);
    return Unknowns(schema.returns().size(), why);
  }
  // Its other names would have to lose their gradients, too.
  if (context.train && schema.name() == "aten::detach_")
    return context.Unsupported(
        "detach_ in a model to be trained; write x = x.detach()");
  if (IsIdentity(schema.name())) return Values{arguments[0]};
  if (WritesArguments(schema))
    return ImportInPlaceOp(schema, arguments, context);
  TP_ASSIGN_OR_RETURN(std::optional<AbstractValue> folded,
                      FoldScalarTensorOp(schema.name(), arguments, context));
  if (folded) return Values{*folded};
  TP_ASSIGN_OR_RETURN(Values normal, Normalize(schema, arguments));
  return Emit(schema, normal, context);
}

}  // namespace tp
