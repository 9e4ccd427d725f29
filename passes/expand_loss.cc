#include "passes/expand_loss.h"

#include <optional>
#include <utility>

#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// Fewer classes are not worth more than one op.
constexpr int64_t kVocabulary = 64;

class Expansion {
 public:
  explicit Expansion(Builder& builder) : builder_(builder) {}

  absl::StatusOr<Value*> Make(const char* name,
                              std::vector<OperandArg> operands,
                              std::vector<NamedAttribute> attributes = {}) {
    TP_ASSIGN_OR_RETURN(Op * op, builder_.Create(name, std::move(operands),
                                                 std::move(attributes)));
    return op->result();
  }

 private:
  Builder& builder_;
};

// Whether a loss compares elements, and is averaged over all of them.
bool IsElementLoss(const Op& op) {
  static constexpr llvm::StringLiteral kNames[] = {
      "aten.mse_loss",
      "aten.l1_loss",
      "aten.smooth_l1_loss",
      "aten.huber_loss",
      "aten.kl_div",
      "aten.binary_cross_entropy",
      "aten.binary_cross_entropy_with_logits"};
  return llvm::any_of(kNames,
                      [&](llvm::StringRef name) { return op.Is(name); });
}

bool IsClassLoss(const Op& op) {
  return op.Is("aten.cross_entropy_loss") || op.Is("aten.nll_loss") ||
         op.Is("aten.nll_loss_nd");
}

// What the mean over classes divides by: the examples that are not ignored,
// each by the weight of its class.
absl::StatusOr<Value*> CountedExamples(const Op& op, Expansion& expand) {
  Value* target = op.operand(1);
  Value* weight = op.operand_or_null(2);
  TP_ASSIGN_OR_RETURN(Value * counted,
                      expand.Make("aten.ne.Scalar", {target},
                                  {{"other", op.IntOr("ignore_index", -100)}}));
  if (weight != nullptr) {
    TP_ASSIGN_OR_RETURN(Value * classes,
                        expand.Make("aten.where.ScalarOther", {counted, target},
                                    {{"other", 0}}));
    TP_ASSIGN_OR_RETURN(Value * weights,
                        expand.Make("aten.index.Tensor",
                                    {weight, std::vector<Value*>{classes}}));
    TP_ASSIGN_OR_RETURN(counted,
                        expand.Make("aten.mul.Tensor", {weights, counted}));
  }
  return expand.Make("aten.sum", {counted});
}

// Whether the loss compares classes by their numbers, so many that ranks
// should have a part of them each.
bool IsOverVocabulary(const Op& op, Builder& builder) {
  const TensorType& logits = op.operand(0)->type();
  const TensorType& target = op.operand(1)->type();
  if (!op.Is("aten.cross_entropy_loss") ||
      builder.module().mesh().num_ranks() == 1 ||
      op.operand_or_null(2) != nullptr ||
      op.FloatOr("label_smoothing", 0) != 0 || target.dtype != DType::kI64 ||
      (logits.dtype != DType::kF32 && logits.dtype != DType::kF64))
    return false;
  const SymExpr& classes = logits.dims[logits.ndim() == 1 ? 0 : 1];
  return classes.is_constant() && classes.constant() >= kVocabulary;
}

// log(sum(exp(logits))) - logits[target], each of whose sums ranks make up
// from what their classes give; the largest logit is taken off first, as ever.
absl::StatusOr<Value*> VocabularyLoss(const Op& op, int64_t reduction,
                                      Expansion& expand) {
  Value* logits = op.operand(0);
  Value* target = op.operand(1);
  const int64_t dim = logits->type().ndim() == 1 ? 0 : 1;
  const NamedAttribute at{"dim", dim};
  const NamedAttribute over{"dim", Attribute::Ints(std::vector<int64_t>{dim})};
  TP_ASSIGN_OR_RETURN(Value * plain, expand.Make("aten.detach", {logits}));
  TP_ASSIGN_OR_RETURN(Value * largest, expand.Make("aten.amax", {plain},
                                                   {over, {"keepdim", true}}));
  TP_ASSIGN_OR_RETURN(Value * shifted,
                      expand.Make("aten.sub.Tensor", {logits, largest}));
  TP_ASSIGN_OR_RETURN(Value * powers, expand.Make("aten.exp", {shifted}));
  TP_ASSIGN_OR_RETURN(Value * sum,
                      expand.Make("aten.sum.dim_IntList", {powers}, {over}));
  TP_ASSIGN_OR_RETURN(Value * log_sum, expand.Make("aten.log", {sum}));
  TP_ASSIGN_OR_RETURN(Value * counted,
                      expand.Make("aten.ne.Scalar", {target},
                                  {{"other", op.IntOr("ignore_index", -100)}}));
  TP_ASSIGN_OR_RETURN(
      Value * classes,
      expand.Make("aten.where.ScalarOther", {counted, target}, {{"other", 0}}));
  TP_ASSIGN_OR_RETURN(Value * index,
                      expand.Make("aten.unsqueeze", {classes}, {at}));
  TP_ASSIGN_OR_RETURN(Value * found,
                      expand.Make("aten.gather", {shifted, index}, {at}));
  TP_ASSIGN_OR_RETURN(Value * chosen,
                      expand.Make("aten.squeeze.dim", {found}, {at}));
  TP_ASSIGN_OR_RETURN(Value * losses,
                      expand.Make("aten.sub.Tensor", {log_sum, chosen}));
  TP_ASSIGN_OR_RETURN(Value * kept,
                      expand.Make("aten.where.ScalarOther", {counted, losses},
                                  {{"other", 0.0}}));
  if (reduction == kNone) return kept;
  return expand.Make("aten.sum", {kept});
}

// A mean of the means of parts is no mean: it becomes a sum and a count, each
// of which parts make up.
absl::StatusOr<std::vector<Value*>> ExpandMeanLoss(const Op& op,
                                                   Builder& builder) {
  const DType dtype = op.result()->type().dtype;
  // A sum may leave the range of f16, and loses digits in bf16.
  if (op.IntOr("reduction", kMean) != kMean ||
      (dtype != DType::kF32 && dtype != DType::kF64))
    return std::vector<Value*>();
  Expansion expand(builder);
  Value* sum = nullptr;
  if (IsOverVocabulary(op, builder)) {
    TP_ASSIGN_OR_RETURN(sum, VocabularyLoss(op, kSum, expand));
  } else {
    std::vector<OperandArg> operands(op.operands().begin(),
                                     op.operands().end());
    std::vector<NamedAttribute> attributes;
    for (const NamedAttribute& attribute : op.attributes())
      if (attribute.name != "reduction") attributes.push_back(attribute);
    attributes.push_back({"reduction", static_cast<int64_t>(kSum)});
    TP_ASSIGN_OR_RETURN(
        Op * whole,
        builder.Create(op.name(), std::move(operands), std::move(attributes)));
    sum = whole->result();
  }
  Value* mean = nullptr;
  if (IsClassLoss(op) && !IsFloatingPoint(op.operand(1)->type().dtype)) {
    TP_ASSIGN_OR_RETURN(Value * count, CountedExamples(op, expand));
    TP_ASSIGN_OR_RETURN(mean, expand.Make("aten.div.Tensor", {sum, count}));
  } else {
    // Class probabilities are averaged over examples.
    const TensorType& type = op.operand(0)->type();
    SymExpr count = type.num_elements();
    if (IsClassLoss(op)) {
      std::optional<SymExpr> examples =
          ExactDiv(count, type.dims[type.ndim() == 1 ? 0 : 1]);
      if (!examples) return std::vector<Value*>();
      count = *examples;
    } else if (!(op.operand(1)->type().dims == type.dims)) {
      return std::vector<Value*>();  // broadcast
    }
    TP_ASSIGN_OR_RETURN(
        mean, expand.Make("aten.div.Scalar", {sum}, {{"other", count}}));
  }
  return std::vector<Value*>{mean};
}

}  // namespace

absl::StatusOr<std::vector<Value*>> ExpandLoss(const Op& op, Builder& builder) {
  if (!IsElementLoss(op) && !IsClassLoss(op)) return std::vector<Value*>();
  const int64_t reduction = op.IntOr("reduction", kMean);
  if (reduction == kMean) return ExpandMeanLoss(op, builder);
  if (!IsOverVocabulary(op, builder)) return std::vector<Value*>();
  Expansion expand(builder);
  TP_ASSIGN_OR_RETURN(Value * loss, VocabularyLoss(op, reduction, expand));
  return std::vector<Value*>{loss};
}

}  // namespace tp
