// What the families share: reading operands and attributes with located
// errors, broadcasting and type promotion as ATen does, small rule helpers.
#ifndef TP_IR_OPS_OP_UTIL_H_
#define TP_IR_OPS_OP_UTIL_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/op_def.h"
#include "ir/status.h"

namespace tp {

using Types = absl::StatusOr<std::vector<TensorType>>;

// Errors of shape functions and rules. InferTypes and RuleOf put in front
// "gpt2.py:12 in wpe: aten.mm(f32[2,3], f32[4,5]): ".
absl::Status OpError(const Op& op, std::string_view what);
absl::Status OpUnsupported(const Op& op, std::string_view what);

// The type of an operand; an error where it is absent.
absl::StatusOr<TensorType> TypeOf(const Op& op, int operand);
// Null where it is absent.
const TensorType* TypeOrNull(const Op& op, int operand);
bool Has(const Op& op, int operand);
// Errors unless the first `count` operands are there and there is a result.
absl::Status CheckRuleInputs(const Op& op, int count);

// Attributes. "Const" ones must be constants.
absl::StatusOr<SymExpr> IntAttr(const Op& op, llvm::StringRef name);
absl::StatusOr<SymExpr> IntAttrOr(const Op& op, llvm::StringRef name,
                                  const SymExpr& otherwise);
absl::StatusOr<int64_t> ConstIntAttr(const Op& op, llvm::StringRef name);
absl::StatusOr<int64_t> ConstIntAttrOr(const Op& op, llvm::StringRef name,
                                       int64_t otherwise);
// A list of integers; one integer counts as a list of one.
absl::StatusOr<Dims> IntsAttr(const Op& op, llvm::StringRef name);
bool IsNone(const Op& op, llvm::StringRef name);  // absent or none
// One integer per spatial dim, where one may stand for all.
absl::StatusOr<Dims> PerDimAttr(const Op& op, llvm::StringRef name, int count);
// As PerDimAttr; `otherwise` where it is absent, none or [].
absl::StatusOr<Dims> PerDimAttrOr(const Op& op, llvm::StringRef name, int count,
                                  const Dims& otherwise);
absl::StatusOr<bool> BoolAttrOr(const Op& op, llvm::StringRef name,
                                bool otherwise);
absl::StatusOr<DType> DTypeAttrOr(const Op& op, llvm::StringRef name,
                                  DType otherwise);

// A dim counted from the start; `dim` may be negative. A 0-dim tensor takes
// dim 0 and -1, as in ATen (wrap_scalar).
absl::StatusOr<int> WrapDim(const Op& op, int64_t dim, int ndim);
absl::StatusOr<int> DimAttr(const Op& op, llvm::StringRef name, int ndim);
absl::StatusOr<int> DimAttrOr(const Op& op, llvm::StringRef name, int ndim,
                              int64_t otherwise);
// Sorted, each once. Absent, none and (if `empty_is_all`) [] mean all dims.
absl::StatusOr<std::vector<int>> DimsAttr(const Op& op, llvm::StringRef name,
                                          int ndim, bool empty_is_all = true);

// The dims both broadcast to; equal sizes may become a guard.
absl::StatusOr<Dims> Broadcast(const Op& op, Assumptions& assumptions,
                               llvm::ArrayRef<SymExpr> a,
                               llvm::ArrayRef<SymExpr> b);
// Of all operands from `first` on that are there.
absl::StatusOr<Dims> BroadcastOperands(const Op& op, Assumptions& assumptions,
                                       int first = 0);
// An error unless a == b (perhaps with a guard). Gives the simpler of both.
absl::StatusOr<SymExpr> SameSize(const Op& op, Assumptions& assumptions,
                                 const SymExpr& a, const SymExpr& b,
                                 std::string_view what);
// An error unless `inner` broadcasts to `outer` without changing it.
absl::Status RequireBroadcastTo(const Op& op, Assumptions& assumptions,
                                llvm::ArrayRef<SymExpr> inner,
                                llvm::ArrayRef<SymExpr> outer);

// ATen's result_type: tensors with dims, then 0-dim ones, then scalars,
// where a lower group counts only by a higher category.
class DTypePromotion {
 public:
  void AddTensor(const TensorType& type);
  void AddScalar(const Attribute& attribute);
  DType Result() const;

 private:
  std::optional<DType> dim_;
  std::optional<DType> zero_dim_;
  std::optional<DType> scalar_;
};
// Of operands from `first` on and the scalar attributes self, other,
// exponent, min and max.
DType PromotedDType(const Op& op, int first, bool scalars = true);
// What sqrt, div or mean of values of that dtype give.
inline DType ToFloat(DType dtype) {
  return IsFloatingPoint(dtype) ? dtype : DType::kF32;
}
inline DType ToSum(DType dtype) {
  return IsFloatingPoint(dtype) ? dtype : DType::kI64;
}
// The dtype of a scalar as a tensor: i64, f32, bool; f32 for anything else.
DType ScalarDType(const Attribute& attribute);
// The attribute is the number 0 (or false).
bool IsZero(const Attribute* attribute);

// ceil(a / b); exact where it divides.
SymExpr CeilDiv(const SymExpr& a, const SymExpr& b);
SymExpr Product(llvm::ArrayRef<SymExpr> dims);

// The size of the chosen split's factor on this rank.
SymExpr LocalFactorSize(const LocalizeContext& context);

// The type of operand 0, once.
Types SameAsOperand0(const Op& op, Assumptions& assumptions);

// A Partial sum survives a conversion between these dtypes: it loses nothing
// before the reduction.
bool PartialSurvivesCast(DType from, DType to);

// Rules in code. Adds a factor of kind `kind` for every dim of an operand
// that the dims of result 0 share, and so on.
class RuleMaker {
 public:
  explicit RuleMaker(const Op& op) : op_(op), builder_(op) {}
  // -1, which adds nothing, for a constant size of 1.
  int Pass(SymExpr size, std::string name = "");
  int Whole(SymExpr size);
  int Reduce(SymExpr size, ReduceKind reduce = ReduceKind::kSum);
  void Operand(int operand, int dim, int factor);
  void Result(int result, int dim, int factor);
  // A whole factor for each dim of the operand (result).
  void WholeOperand(int operand);
  void WholeResult(int result);
  // Adds factor of a dim of result 0 to an operand broadcast against it.
  void BroadcastOperand(int operand, llvm::ArrayRef<int> result_factors);
  // A reduced factor for each dim that the operands broadcast to.
  void ReduceBroadcast(ReduceKind reduce = ReduceKind::kSum);
  void Partial(llvm::StringRef column) { builder_.Partial(column); }
  OpRule Build() && { return std::move(builder_).Build(); }

 private:
  int Add(SymExpr size, FactorKind kind, std::string name,
          ReduceKind reduce = ReduceKind::kSum);
  const Op& op_;
  RuleBuilder builder_;
  int count_ = 0;
};

// Rule of an op that maps each dim of operand 0 to itself in every result
// except the dims in `whole`. Other operands are whole.
absl::StatusOr<OpRule> RuleExcept(const Op& op, llvm::ArrayRef<int> whole,
                                  llvm::StringRef partial);
// The rule of a view of operand 0, by its dims and those of result 0.
absl::StatusOr<OpRule> ViewRule(const Op& op);
// Row helpers.
OpDef Row(std::string name, std::string rule, std::string partial,
          ShapeFn shape);
OpDef Row(std::string name, RuleFn rule, ShapeFn shape);
// What the rules that rows compute amount to, for who reads the op table.
void SetNotations(OpRows& rows,
                  llvm::ArrayRef<std::pair<const char*, const char*>> texts);

}  // namespace tp

#endif  // TP_IR_OPS_OP_UTIL_H_
