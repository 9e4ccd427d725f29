#include "frontend/batch_statistics.h"

#include "absl/strings/str_cat.h"
#include "frontend/op_call.h"
#include "frontend/tensor_ops.h"
#include "ir/status.h"

namespace tp {
namespace {

class StatisticsWriter {
 public:
  explicit StatisticsWriter(ImportContext& context) : context_(context) {}

  // running = (1 - momentum) * running + momentum * statistic
  absl::Status Move(const TensorRef& running, Value* statistic,
                    double momentum) {
    TP_RETURN_IF_ERROR(context_.aliases.CheckWritable(running));
    TP_ASSIGN_OR_RETURN(Value * old, context_.aliases.Read(running));
    TP_ASSIGN_OR_RETURN(Value * kept, Make("aten.mul.Scalar", {old},
                                           {{"other", 1 - momentum}}));
    TP_ASSIGN_OR_RETURN(
        Value * moved,
        Make("aten.add.Tensor", {kept, statistic}, {{"alpha", momentum}}));
    return context_.aliases.Write(running, moved);
  }

  absl::StatusOr<Value*> Make(const char* name,
                              std::vector<OperandArg> operands,
                              std::vector<NamedAttribute> attributes) {
    TP_ASSIGN_OR_RETURN(Op * op,
                        context_.builder.Create(name, std::move(operands),
                                                std::move(attributes)));
    return op->result();
  }

 private:
  ImportContext& context_;
};

}  // namespace

absl::StatusOr<std::optional<std::vector<AbstractValue>>> ImportBatchStatistics(
    const c10::FunctionSchema& schema, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  const bool batch = schema.name() == "aten::batch_norm";
  if (!batch && schema.name() != "aten::instance_norm") return std::nullopt;
  const AbstractValue* training =
      FindArgument(schema, arguments, batch ? "training" : "use_input_stats");
  const AbstractValue* momentum = FindArgument(schema, arguments, "momentum");
  std::vector<AbstractValue> running;
  std::vector<AbstractValue> without(arguments.begin(), arguments.end());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (name != "running_mean" && name != "running_var") continue;
    running.push_back(arguments[i]);
    without[i] = AbstractValue();
  }
  const bool writes = training != nullptr && training->is_bool() &&
                      training->as_bool() && running.size() == 2 &&
                      running[0].is_tensor() && running[1].is_tensor();
  if (!writes) return std::nullopt;
  if (momentum == nullptr || !momentum->is_float() || !arguments[0].is_tensor())
    return context.Unsupported(absl::StrCat(
        schema.name().substr(6), " whose momentum is known only at run time"));
  context.AddNote(absl::StrCat(
      schema.name().substr(6),
      " is in training mode (the file was exported without .eval()): it uses "
      "the statistics of the batch and updates the running ones"));
  TP_ASSIGN_OR_RETURN(std::vector<AbstractValue> results,
                      ImportTensorOp(schema, without, context));
  StatisticsWriter writer(context);
  TP_ASSIGN_OR_RETURN(Value * x,
                      context.aliases.Read(arguments[0].as_tensor()));
  TP_ASSIGN_OR_RETURN(x, writer.Make("aten.detach", {x}, {}));
  const DType dtype = running[0].as_tensor()->type().dtype;
  if (x->type().dtype != dtype) {
    TP_ASSIGN_OR_RETURN(
        x, writer.Make("aten.to.dtype", {x}, {{"dtype", Attribute(dtype)}}));
  }
  // Over the batch and space; instance_norm averages over the batch what it
  // finds in space.
  std::vector<int64_t> dims;
  for (int64_t dim = batch ? 0 : 2; dim < x->type().ndim(); ++dim)
    if (dim != 1) dims.push_back(dim);
  TP_ASSIGN_OR_RETURN(
      Value * mean,
      writer.Make("aten.mean.dim", {x}, {{"dim", Attribute::Ints(dims)}}));
  TP_ASSIGN_OR_RETURN(Value * var, writer.Make("aten.var.correction", {x},
                                               {{"dim", Attribute::Ints(dims)},
                                                {"correction", Attribute(1)}}));
  for (Value** statistic : {&mean, &var}) {
    if (batch) continue;
    TP_ASSIGN_OR_RETURN(
        *statistic,
        writer.Make("aten.mean.dim", {*statistic},
                    {{"dim", Attribute::Ints(std::vector<int64_t>{0})}}));
  }
  TP_RETURN_IF_ERROR(
      writer.Move(running[0].as_tensor(), mean, momentum->as_float()));
  TP_RETURN_IF_ERROR(
      writer.Move(running[1].as_tensor(), var, momentum->as_float()));
  return results;
}

}  // namespace tp
