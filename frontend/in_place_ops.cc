#include "frontend/in_place_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "absl/strings/str_cat.h"
#include "frontend/op_call.h"
#include "frontend/tensor_ops.h"
#include "ir/status.h"
#include "llvm/ADT/StringRef.h"

namespace tp {
namespace {

using Results = absl::StatusOr<std::vector<AbstractValue>>;

// Ops that change what the variable looks like, not the data.
bool ChangesShape(llvm::StringRef name) {
  return name == "aten::squeeze_" || name == "aten::unsqueeze_" ||
         name == "aten::transpose_" || name == "aten::t_" ||
         name == "aten::swapaxes_" || name == "aten::swapdims_";
}

// The value with self's dtype and dims, as copy_ converts it.
absl::StatusOr<Value*> ConvertTo(Value* value, const TensorType& type,
                                 ImportContext& context) {
  if (value->type().dtype != type.dtype) {
    TP_ASSIGN_OR_RETURN(
        Op * cast, context.builder.Create("aten.to.dtype", {value},
                                          {{"dtype", Attribute(type.dtype)}}));
    value = cast->result();
  }
  if (value->type().dims != type.dims) {
    TP_ASSIGN_OR_RETURN(
        Op * expand,
        context.builder.Create("aten.expand", {value},
                               {{"size", Attribute::Ints(type.dims)}}));
    value = expand->result();
  }
  return value;
}

absl::StatusOr<Value*> Full(const TensorType& type, const Attribute& fill,
                            ImportContext& context) {
  TP_ASSIGN_OR_RETURN(
      Op * full, context.builder.Create("aten.full", {},
                                        {{"size", Attribute::Ints(type.dims)},
                                         {"fill_value", fill},
                                         {"dtype", Attribute(type.dtype)}}));
  return full->result();
}

// The functional form of an in-place op, or null.
const c10::FunctionSchema* FunctionalSchema(const c10::FunctionSchema& schema) {
  llvm::StringRef name = schema.name();
  if (!name.consume_back("_")) return nullptr;
  auto handle = c10::Dispatcher::singleton().findSchema(
      {name.str(), schema.overload_name()});
  return handle ? &handle->schema() : nullptr;
}

// What the op leaves in `self`; null where an operand is unknown.
absl::StatusOr<Value*> NewContent(const c10::FunctionSchema& schema,
                                  llvm::ArrayRef<AbstractValue> arguments,
                                  ImportContext& context) {
  const TensorRef& self = arguments[0].as_tensor();
  const llvm::StringRef name = schema.name();
  if (name == "aten::zero_") return Full(self->type(), 0, context);
  if ((name == "aten::copy_" || name == "aten::fill_") &&
      arguments.size() > 1) {
    if (arguments[1].is_tensor()) {
      TP_ASSIGN_OR_RETURN(Value * source,
                          context.aliases.Read(arguments[1].as_tensor()));
      return ConvertTo(source, self->type(), context);
    }
    if (std::optional<Attribute> fill = ToAttribute(arguments[1]))
      return Full(self->type(), *fill, context);
  }
  const c10::FunctionSchema* functional = FunctionalSchema(schema);
  if (functional == nullptr)
    return context.Unsupported(absl::StrCat("the in-place op ",
                                            OpName(schema.operator_name()),
                                            " is not supported"));
  TP_ASSIGN_OR_RETURN(std::vector<AbstractValue> results,
                      ImportTensorOp(*functional, arguments, context));
  if (results.size() != 1 || !results[0].is_tensor()) {
    TP_RETURN_IF_ERROR(context.MissingOps());
    return context.Unsupported(absl::StrCat("the in-place op ",
                                            OpName(schema.operator_name()),
                                            " gives no tensor"));
  }
  TP_ASSIGN_OR_RETURN(Value * value,
                      context.aliases.Read(results[0].as_tensor()));
  return ConvertTo(value, self->type(), context);
}

}  // namespace

absl::StatusOr<std::vector<AbstractValue>> ImportInPlaceOp(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  int writes = 0;
  for (const c10::Argument& formal : schema.arguments())
    writes += formal.alias_info() != nullptr && formal.alias_info()->isWrite();
  const auto& first = schema.arguments()[0];
  const bool writes_self =
      writes == 1 && first.alias_info() && first.alias_info()->isWrite();
  if (!writes_self || !arguments[0].is_tensor())
    return context.Unsupported(absl::StrCat(
        OpName(schema.operator_name()),
        " writes to arguments other than its first; write the call without "
        "out="));
  const TensorRef& self = arguments[0].as_tensor();
  if (ChangesShape(schema.name())) {
    const c10::FunctionSchema* functional = FunctionalSchema(schema);
    if (functional == nullptr) return context.Unsupported("no such view op");
    TP_ASSIGN_OR_RETURN(OpCall call,
                        MakeOpCall(*functional, arguments, context));
    TP_ASSIGN_OR_RETURN(
        Op * op,
        context.builder.Create(call.name, call.operands, call.attributes));
    context.aliases.Rebind(self, ViewStep{call.name, call.attributes},
                           op->result());
    return std::vector<AbstractValue>{arguments[0]};
  }
  TP_RETURN_IF_ERROR(context.aliases.CheckWritable(self));
  TP_ASSIGN_OR_RETURN(Value * value, NewContent(schema, arguments, context));
  TP_RETURN_IF_ERROR(context.aliases.Write(self, value));
  return std::vector<AbstractValue>{arguments[0]};
}

}  // namespace tp
