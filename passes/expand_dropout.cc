// Spells dropout out when training, so that it does not depend on the number
// of ranks and an op around it may be split:
//
//   %1 = aten.dropout(%0) {p = 0.1, train = true}
// becomes
//   %2 = tp.dropout_mask() {size = [b,s,96], of = [b,s,96], p = 0.1, ...}
//   %1 = aten.mul.Tensor(%0, %2)
//
// and attention with dropout becomes the products, the softmax and the mask
// that it stands for.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "ir/builder.h"
#include "ir/replacements.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace tp {
namespace {

class Expander {
 public:
  Expander(Module& module, Block& block) : module_(module), block_(block) {}

  absl::Status Run() {
    Replacements replaced;
    // Values are looked up by address: an op goes when all its users know.
    OpList gone;
    for (auto it = block_.ops().begin(); it != block_.ops().end();) {
      auto current = it++;
      Op& op = **current;
      replaced.ApplyTo(op);
      Builder builder(module_, block_, current);
      builder.set_location(op.location());
      builder_ = &builder;
      Value* result = nullptr;
      if (op.Is("aten.dropout") && op.BoolOr("train", false)) {
        TP_ASSIGN_OR_RETURN(result,
                            Dropout(op.operand(0), op.FloatOr("p", 0.5)));
      } else if (op.Is("aten.scaled_dot_product_attention") &&
                 op.FloatOr("dropout_p", 0) > 0) {
        TP_ASSIGN_OR_RETURN(result, Attention(op));
      }
      if (result == nullptr) continue;
      replaced.Set(op.result(), result);
      gone.splice(gone.end(), block_.ops(), current);
    }
    replaced.ApplyToResults(block_);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Value*> Make(const char* name,
                              std::vector<OperandArg> operands,
                              std::vector<NamedAttribute> attributes = {}) {
    TP_ASSIGN_OR_RETURN(Op * op, builder_->Create(name, std::move(operands),
                                                  std::move(attributes)));
    return op->result();
  }

  absl::StatusOr<Value*> Dropout(Value* value, double p) {
    const TensorType type = value->type();
    Op* mask = builder_->CreateTyped("tp.dropout_mask", {},
                                     {{"size", Attribute::Ints(type.dims)},
                                      {"of", Attribute::Ints(type.dims)},
                                      {"p", p},
                                      {"number", num_masks_++},
                                      {"dtype", Attribute(type.dtype)}},
                                     {type});
    return Make("aten.mul.Tensor", {value, mask->result()});
  }

  absl::StatusOr<Value*> Attention(const Op& op) {
    Value* q = op.operand(0);
    Value* k = op.operand(1);
    Value* v = op.operand(2);
    Value* mask = op.operand_or_null(3);
    const TensorType type = q->type();
    const int ndim = type.ndim();
    if (op.BoolOr("enable_gqa", false))
      return absl::UnimplementedError(absl::StrCat(
          "dropout in attention whose heads share keys: ", Print(op),
          "; export with eager attention, or in evaluation mode"));
    double scale = op.FloatOr("scale", 0);
    if (op.attribute("scale") == nullptr || scale == 0) {
      const std::optional<int64_t> width = type.dims[ndim - 1].AsConstant();
      if (!width)
        return absl::UnimplementedError(
            absl::StrCat("attention of unknown width: ", Print(op)));
      scale = 1 / std::sqrt(static_cast<double>(*width));
    }
    TP_ASSIGN_OR_RETURN(Value * keys, Make("aten.transpose.int", {k},
                                           {{"dim0", int64_t{ndim - 2}},
                                            {"dim1", int64_t{ndim - 1}}}));
    TP_ASSIGN_OR_RETURN(q, Make("aten.mul.Scalar", {q}, {{"other", scale}}));
    TP_ASSIGN_OR_RETURN(Value * scores, Make("aten.matmul", {q, keys}));
    if (op.BoolOr("is_causal", false)) {
      TP_ASSIGN_OR_RETURN(
          Value * ones,
          Make("aten.ones", {},
               {{"size", Attribute::Ints(llvm::ArrayRef<SymExpr>{
                             type.dims[ndim - 2], k->type().dims[ndim - 2]})},
                {"dtype", Attribute(DType::kBool)}}));
      TP_ASSIGN_OR_RETURN(mask, Make("aten.tril", {ones}));
    }
    if (mask != nullptr && mask->type().dtype == DType::kBool) {
      TP_ASSIGN_OR_RETURN(Value * hidden, Make("aten.logical_not", {mask}));
      TP_ASSIGN_OR_RETURN(
          scores, Make("aten.masked_fill.Scalar", {scores, hidden},
                       {{"value", -std::numeric_limits<double>::infinity()}}));
    } else if (mask != nullptr) {
      TP_ASSIGN_OR_RETURN(scores, Make("aten.add.Tensor", {scores, mask}));
    }
    TP_ASSIGN_OR_RETURN(Value * weights, Make("aten.softmax.int", {scores},
                                              {{"dim", int64_t{-1}}}));
    TP_ASSIGN_OR_RETURN(weights, Dropout(weights, op.FloatOr("dropout_p", 0)));
    return Make("aten.matmul", {weights, v});
  }

  Module& module_;
  Block& block_;
  Builder* builder_ = nullptr;  // before the op being expanded
  int64_t num_masks_ = 0;
};

}  // namespace

absl::Status ExpandDropout(Module& module, const PassContext& context) {
  if (!context.train) return absl::OkStatus();
  for (const auto& function : module.functions())
    TP_RETURN_IF_ERROR(Expander(module, function->body()).Run());
  return absl::OkStatus();
}

}  // namespace tp
