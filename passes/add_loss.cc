// Puts a loss around a model that returns logits or a prediction first:
//
//   func @forward(%ids: i64[b,s]) -> f32[b,s,257] { ... return %9 }
// with cross_entropy, labels "labels" and shift 1 becomes
//   func @forward(%ids: i64[b,s], %labels: i64[b,s] input "labels") -> f32[] {
//     ...
//     %10 = aten.slice.Tensor(%9) {dim = 1, end = s - 1} : f32[b,s - 1,257]
//     %11 = aten.slice.Tensor(%labels) {dim = 1, start = 1} : i64[b,s - 1]
//     ... reshape both to rows ...
//     %14 = aten.cross_entropy_loss(%12, %13, none) : f32[]
//     return %14
//   }
// Labels of -100 are left out; the loss is the mean over the others. The
// other outputs of the model are dropped.
#include "absl/strings/str_cat.h"
#include "ir/builder.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace tp {
namespace {

class LossAdder {
 public:
  LossAdder(Module& module, Function& function, const LossOptions& loss)
      : module_(module),
        function_(function),
        loss_(loss),
        builder_(module, function.body()) {}

  absl::Status Run() {
    if (function_.body().results().empty())
      return absl::InvalidArgumentError("the model returns nothing");
    Value* output = function_.body().results()[0];
    if (!IsFloatingPoint(output->type().dtype))
      return absl::InvalidArgumentError(
          absl::StrCat("--loss ", loss_.kind, ": output_0 is ",
                       ToString(output->type()), ", not floating point"));
    for (const ArgumentInfo& info : function_.arguments())
      if (!info.is_weight() && info.name == loss_.labels)
        return absl::InvalidArgumentError(
            absl::StrCat("--labels ", loss_.labels,
                         ": the model has an input of that name; "
                         "if it computes the loss itself, leave --loss away"));
    Value* result = nullptr;
    if (loss_.kind == "cross_entropy") {
      TP_ASSIGN_OR_RETURN(result, CrossEntropy(output));
    } else if (loss_.kind == "mse") {
      Value* labels = AddLabels(output->type());
      TP_ASSIGN_OR_RETURN(result, Make("aten.mse_loss", {output, labels}, {}));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "--loss ", loss_.kind, ": the losses are cross_entropy and mse"));
    }
    function_.SetOnlyOutput(result);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Value*> Make(const std::string& name,
                              std::vector<OperandArg> operands,
                              std::vector<NamedAttribute> attributes) {
    TP_ASSIGN_OR_RETURN(Op * op, builder_.Create(name, std::move(operands),
                                                 std::move(attributes)));
    return op->result();
  }

  Value* AddLabels(TensorType type) {
    ArgumentInfo info;
    info.name = loss_.labels;
    return function_.AddArgument(std::move(type), info);
  }

  absl::StatusOr<Value*> CrossEntropy(Value* logits) {
    const TensorType type = logits->type();
    const int ndim = type.ndim();
    if (ndim < 2)
      return absl::InvalidArgumentError(
          absl::StrCat("--loss cross_entropy: output_0 is ", ToString(type),
                       "; it needs a dim of rows and one of classes"));
    TensorType label_type{loss_.labels_dtype, type.dims};
    label_type.dims.pop_back();
    Value* labels = AddLabels(label_type);
    if (loss_.shift > 0) {
      if (ndim < 3)
        return absl::InvalidArgumentError(absl::StrCat(
            "--shift ", loss_.shift, ": output_0 is ", ToString(type),
            " and has no dim of positions before the classes"));
      const int64_t dim = ndim - 2;
      TP_ASSIGN_OR_RETURN(
          logits, Make("aten.slice.Tensor", {logits},
                       {{"dim", dim},
                        {"end", Attribute(type.dims[dim] - loss_.shift)}}));
      TP_ASSIGN_OR_RETURN(labels, Make("aten.slice.Tensor", {labels},
                                       {{"dim", dim}, {"start", loss_.shift}}));
    }
    SymExpr rows = 1;
    for (const SymExpr& dim : labels->type().dims) rows = rows * dim;
    TP_ASSIGN_OR_RETURN(logits,
                        Make("aten.reshape", {logits},
                             {{"shape", Attribute::Ints(llvm::ArrayRef<SymExpr>{
                                            rows, type.dims.back()})}}));
    TP_ASSIGN_OR_RETURN(
        labels,
        Make("aten.reshape", {labels},
             {{"shape", Attribute::Ints(llvm::ArrayRef<SymExpr>{rows})}}));
    if (labels->type().dtype != DType::kI64) {
      TP_ASSIGN_OR_RETURN(labels, Make("aten.to.dtype", {labels},
                                       {{"dtype", Attribute(DType::kI64)}}));
    }
    if (ByteSize(type.dtype) < 4) {
      TP_ASSIGN_OR_RETURN(logits, Make("aten.to.dtype", {logits},
                                       {{"dtype", Attribute(DType::kF32)}}));
    }
    // Its defaults: -100 is left out, the mean over the rest.
    return Make("aten.cross_entropy_loss",
                {logits, labels, static_cast<Value*>(nullptr)}, {});
  }

  Module& module_;
  Function& function_;
  const LossOptions& loss_;
  Builder builder_;
};

}  // namespace

absl::Status AddLoss(Module& module, const PassContext& context) {
  if (context.loss.kind.empty()) return absl::OkStatus();
  Function* forward = module.function("forward");
  if (forward == nullptr)
    return absl::InvalidArgumentError("there is no @forward to add a loss to");
  return LossAdder(module, *forward, context.loss).Run();
}

}  // namespace tp
