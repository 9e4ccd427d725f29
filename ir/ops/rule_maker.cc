// The rule helpers of op_util.h.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/ops/op_util.h"

namespace tp {

int RuleMaker::Add(SymExpr size, FactorKind kind, std::string name,
                   ReduceKind reduce) {
  if (size == SymExpr(1)) return -1;  // never split: no factor
  int index = count_++;
  if (name.empty()) {
    name = index < 26 ? std::string(1, static_cast<char>('a' + index))
                      : absl::StrCat("f", index);
  }
  return builder_.AddFactor(std::move(name), std::move(size), kind, reduce);
}

int RuleMaker::Pass(SymExpr size, std::string name) {
  return Add(std::move(size), FactorKind::kPass, std::move(name));
}

int RuleMaker::Whole(SymExpr size) {
  return Add(std::move(size), FactorKind::kWhole, "");
}

int RuleMaker::Reduce(SymExpr size, ReduceKind reduce) {
  return Add(std::move(size), FactorKind::kReduce, "", reduce);
}

void RuleMaker::Operand(int operand, int dim, int factor) {
  const TensorType* type = TypeOrNull(op_, operand);
  if (factor < 0 || type == nullptr) return;
  if (dim < 0) dim += type->ndim();
  if (dim < 0 || dim >= type->ndim()) return;
  builder_.Operand(operand, dim, factor);
}

void RuleMaker::Result(int result, int dim, int factor) {
  if (factor < 0 || result >= op_.num_results()) return;
  int ndim = op_.result(result)->type().ndim();
  if (dim < 0) dim += ndim;
  if (dim < 0 || dim >= ndim) return;
  builder_.Result(result, dim, factor);
}

void RuleMaker::WholeOperand(int operand) {
  const TensorType* type = TypeOrNull(op_, operand);
  for (int i = 0; type != nullptr && i < type->ndim(); ++i) {
    Operand(operand, i, Whole(type->dims[i]));
  }
}

void RuleMaker::WholeResult(int result) {
  if (result >= op_.num_results()) return;
  const TensorType& type = op_.result(result)->type();
  for (int i = 0; i < type.ndim(); ++i) {
    Result(result, i, Whole(type.dims[i]));
  }
}

void RuleMaker::BroadcastOperand(int operand,
                                 llvm::ArrayRef<int> result_factors) {
  const TensorType* type = TypeOrNull(op_, operand);
  if (type == nullptr) return;
  int count = static_cast<int>(result_factors.size());
  for (int i = 1; i <= type->ndim() && i <= count; ++i) {
    Operand(operand, -i, result_factors[count - i]);
  }
}

void RuleMaker::ReduceBroadcast(ReduceKind reduce) {
  int ndim = 0;
  for (int i = 0; i < op_.num_operands(); ++i)
    if (const TensorType* type = TypeOrNull(op_, i))
      ndim = std::max(ndim, type->ndim());
  for (int from_end = 1; from_end <= ndim; ++from_end) {
    // Whoever is not repeated along the dim says its size.
    SymExpr size = 1;
    llvm::SmallVector<int, 4> holders;
    for (int i = 0; i < op_.num_operands(); ++i) {
      const TensorType* type = TypeOrNull(op_, i);
      if (type == nullptr || from_end > type->ndim()) continue;
      holders.push_back(i);
      const SymExpr& own = type->dims[type->ndim() - from_end];
      if (size == SymExpr(1)) size = own;
    }
    const int factor = Reduce(size, reduce);
    for (int i : holders) Operand(i, -from_end, factor);
  }
}

absl::StatusOr<OpRule> RuleExcept(const Op& op, llvm::ArrayRef<int> whole,
                                  llvm::StringRef partial) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  RuleMaker rule(op);
  for (int i = 0; i < type.ndim(); ++i) {
    bool keep = llvm::is_contained(whole, i);
    int factor = keep ? rule.Whole(type.dims[i]) : rule.Pass(type.dims[i]);
    rule.Operand(0, i, factor);
    for (int r = 0; r < op.num_results(); ++r) {
      const TensorType& result = op.result(r)->type();
      if (result.ndim() != type.ndim()) {
        return OpError(op, "has a result of other dims than its operand");
      }
      if (keep && !(result.dims[i] == type.dims[i])) {
        rule.Result(r, i, rule.Whole(result.dims[i]));
      } else {
        rule.Result(r, i, factor);
      }
    }
  }
  for (int i = 1; i < op.num_operands(); ++i) rule.WholeOperand(i);
  rule.Partial(partial);
  return std::move(rule).Build();
}

absl::StatusOr<OpRule> ViewRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  ViewFactors view =
      FactorView(op.operand(0)->type().dims, op.result()->type().dims);
  OpRule rule;
  rule.factors = std::move(view.factors);
  // A second operand lends its shape only; the kernel reads its local one.
  rule.operands.push_back(std::move(view.from));
  for (int i = 1; i < op.num_operands(); ++i) {
    rule.operands.push_back(Has(op, i) ? view.to : TensorFactors());
  }
  rule.results.push_back(std::move(view.to));
  rule.partial = {{0}};
  return rule;
}

}  // namespace tp
