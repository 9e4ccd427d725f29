// Matrix products.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

DType ProductDType(const TensorType& a, const TensorType& b) {
  return Promote(a.dtype, b.dtype);
}

absl::Status CheckNdim(const Op& op, int operand, int ndim) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, operand));
  if (type.ndim() == ndim) return absl::OkStatus();
  return OpError(op, "operand " + std::to_string(operand) + " must have " +
                         std::to_string(ndim) + " dims");
}

Types MatmulTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType a, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType b, TypeOf(op, 1));
  if (a.ndim() == 0 || b.ndim() == 0) {
    return OpError(op, "both operands need at least 1 dim");
  }
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, a.dims.back(),
                              b.dims[b.ndim() == 1 ? 0 : b.ndim() - 2],
                              "the multiplied dims")
                         .status());
  TensorType result;
  result.dtype = ProductDType(a, b);
  llvm::ArrayRef<SymExpr> batch_a = a.dims;
  llvm::ArrayRef<SymExpr> batch_b = b.dims;
  TP_ASSIGN_OR_RETURN(
      result.dims,
      Broadcast(op, assumptions, batch_a.drop_back(std::min(a.ndim(), 2)),
                batch_b.drop_back(std::min(b.ndim(), 2))));
  if (a.ndim() > 1) result.dims.push_back(a.dims[a.ndim() - 2]);
  if (b.ndim() > 1) result.dims.push_back(b.dims.back());
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> MatmulRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& a = op.operand(0)->type();
  const TensorType& b = op.operand(1)->type();
  const TensorType& result = op.result()->type();
  int matrix_dims = (a.ndim() > 1) + (b.ndim() > 1);
  int batch = result.ndim() - matrix_dims;
  if (a.ndim() == 0 || b.ndim() == 0 || batch < 0) {
    return OpError(op, "both operands need at least 1 dim");
  }
  RuleMaker rule(op);
  // Batch dims, aligned at their last one.
  for (int i = 1; i <= batch; ++i) {
    int factor = rule.Pass(result.dims[batch - i]);
    rule.Result(0, batch - i, factor);
    if (a.ndim() - 2 - i >= 0) rule.Operand(0, a.ndim() - 2 - i, factor);
    if (b.ndim() - 2 - i >= 0) rule.Operand(1, b.ndim() - 2 - i, factor);
  }
  int next = batch;
  if (a.ndim() > 1) {
    int m = rule.Pass(a.dims[a.ndim() - 2]);
    rule.Operand(0, -2, m);
    rule.Result(0, next++, m);
  }
  int k = rule.Reduce(a.dims.back());
  rule.Operand(0, -1, k);
  rule.Operand(1, b.ndim() == 1 ? 0 : -2, k);
  if (b.ndim() > 1) {
    int n = rule.Pass(b.dims.back());
    rule.Operand(1, -1, n);
    rule.Result(0, next++, n);
  }
  rule.Partial("0|1");
  return std::move(rule).Build();
}

template <int ndim_a, int ndim_b>
Types FixedMatmulTypes(const Op& op, Assumptions& assumptions) {
  TP_RETURN_IF_ERROR(CheckNdim(op, 0, ndim_a));
  TP_RETURN_IF_ERROR(CheckNdim(op, 1, ndim_b));
  if (ndim_a == 3) {
    TP_RETURN_IF_ERROR(SameSize(op, assumptions, op.operand(0)->type().dims[0],
                                op.operand(1)->type().dims[0], "the batch dims")
                           .status());
  }
  return MatmulTypes(op, assumptions);
}

Types LinearTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType x, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType w, TypeOf(op, 1));
  if (x.ndim() == 0) return OpError(op, "the input needs at least 1 dim");
  if (w.ndim() != 1 && w.ndim() != 2) {
    return OpError(op, "the weight must have 1 or 2 dims");
  }
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, x.dims.back(), w.dims.back(),
                              "the multiplied dims")
                         .status());
  TensorType result;
  result.dtype = ProductDType(x, w);
  result.dims.assign(x.dims.begin(), x.dims.end() - 1);
  if (w.ndim() == 2) result.dims.push_back(w.dims[0]);
  if (const TensorType* bias = TypeOrNull(op, 2)) {
    TP_RETURN_IF_ERROR(
        RequireBroadcastTo(op, assumptions, bias->dims, result.dims));
  }
  return std::vector<TensorType>{result};
}

// `... k+, n k+ -> ... n`. With a bias k stays whole: each rank would add it.
absl::StatusOr<OpRule> LinearRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& x = op.operand(0)->type();
  const TensorType& w = op.operand(1)->type();
  if (x.ndim() == 0 || w.ndim() == 0 || w.ndim() > 2) {
    return OpError(op, "needs an input and a weight matrix");
  }
  bool has_bias = Has(op, 2);
  RuleMaker rule(op);
  std::vector<int> factors;
  for (int i = 0; i + 1 < x.ndim(); ++i) {
    factors.push_back(rule.Pass(x.dims[i]));
    rule.Operand(0, i, factors.back());
    rule.Result(0, i, factors.back());
  }
  int k = has_bias ? rule.Whole(x.dims.back()) : rule.Reduce(x.dims.back());
  rule.Operand(0, -1, k);
  rule.Operand(1, -1, k);
  if (w.ndim() == 2) {
    factors.push_back(rule.Pass(w.dims[0]));
    rule.Operand(1, 0, factors.back());
    rule.Result(0, -1, factors.back());
  }
  rule.BroadcastOperand(2, factors);
  if (!has_bias) rule.Partial("0|1");
  return std::move(rule).Build();
}

// addmm, baddbmm, addmv: operand 0 plus a product of operands 1 and 2.
template <int ndim_a, int ndim_b>
Types AddProductTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_RETURN_IF_ERROR(CheckNdim(op, 1, ndim_a));
  TP_RETURN_IF_ERROR(CheckNdim(op, 2, ndim_b));
  const TensorType& a = op.operand(1)->type();
  const TensorType& b = op.operand(2)->type();
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, a.dims.back(),
                              b.dims[ndim_b == 1 ? 0 : ndim_b - 2],
                              "the multiplied dims")
                         .status());
  TensorType result;
  result.dtype = ProductDType(a, b);
  if (ndim_a == 3) {
    TP_ASSIGN_OR_RETURN(SymExpr batch, SameSize(op, assumptions, a.dims[0],
                                                b.dims[0], "the batch dims"));
    result.dims.push_back(batch);
  }
  result.dims.push_back(a.dims[ndim_a - 2]);
  if (ndim_b > 1) result.dims.push_back(b.dims.back());
  TP_RETURN_IF_ERROR(
      RequireBroadcastTo(op, assumptions, self.dims, result.dims));
  return std::vector<TensorType>{result};
}

template <int ndim_a, int ndim_b>
absl::StatusOr<OpRule> AddProductRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 3));
  TP_RETURN_IF_ERROR(CheckNdim(op, 1, ndim_a));
  TP_RETURN_IF_ERROR(CheckNdim(op, 2, ndim_b));
  const TensorType& a = op.operand(1)->type();
  const TensorType& b = op.operand(2)->type();
  RuleMaker rule(op);
  std::vector<int> factors;
  if (ndim_a == 3) {
    factors.push_back(rule.Pass(a.dims[0]));
    rule.Operand(1, 0, factors[0]);
    rule.Operand(2, 0, factors[0]);
  }
  factors.push_back(rule.Pass(a.dims[ndim_a - 2]));
  rule.Operand(1, -2, factors.back());
  int k = rule.Whole(a.dims.back());
  rule.Operand(1, -1, k);
  rule.Operand(2, ndim_b == 1 ? 0 : -2, k);
  if (ndim_b > 1) {
    factors.push_back(rule.Pass(b.dims.back()));
    rule.Operand(2, -1, factors.back());
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    rule.Result(0, static_cast<int>(i), factors[i]);
  }
  rule.BroadcastOperand(0, factors);
  return std::move(rule).Build();
}

Types OuterTypes(const Op& op, Assumptions&) {
  TP_RETURN_IF_ERROR(CheckNdim(op, 0, 1));
  TP_RETURN_IF_ERROR(CheckNdim(op, 1, 1));
  const TensorType& a = op.operand(0)->type();
  const TensorType& b = op.operand(1)->type();
  return std::vector<TensorType>{
      {ProductDType(a, b), Dims{a.dims[0], b.dims[0]}}};
}

}  // namespace

void AddLinearRows(OpRows& rows) {
  auto add = [&rows](OpDef row, const char* saves) {
    row.saves = saves;
    rows.push_back(std::move(row));
  };
  add(Row("aten.mm", "m k+, k+ n -> m n", "0|1", FixedMatmulTypes<2, 2>),
      "0,1");
  add(Row("aten.bmm", "b m k+, b k+ n -> b m n", "0|1", FixedMatmulTypes<3, 3>),
      "0,1");
  add(Row("aten.mv", MatmulRule, FixedMatmulTypes<2, 1>), "0,1");
  add(Row("aten.dot", MatmulRule, FixedMatmulTypes<1, 1>), "0,1");
  add(Row("aten.matmul", MatmulRule, MatmulTypes), "0,1");
  add(Row("aten.linear", LinearRule, LinearTypes), "0,1");
  add(Row("aten.addmm", AddProductRule<2, 2>, AddProductTypes<2, 2>), "1,2");
  add(Row("aten.baddbmm", AddProductRule<3, 3>, AddProductTypes<3, 3>), "1,2");
  add(Row("aten.addmv", AddProductRule<2, 1>, AddProductTypes<2, 1>), "1,2");
  for (const char* name : {"aten.outer", "aten.ger"}) {
    add(Row(name, "m, n -> m n", "0|1", OuterTypes), "0,1");
  }
  SetNotations(rows, {
                         {"aten.mv", "m k+, k+ -> m"},
                         {"aten.dot", "k+, k+ ->"},
                         {"aten.matmul", "... m k+, ... k+ n -> ... m n"},
                         {"aten.linear", "... k+, n k+ -> ... n"},
                         {"aten.addmm", "m n, m k^, k^ n -> m n"},
                         {"aten.baddbmm", "b m n, b m k^, b k^ n -> b m n"},
                         {"aten.addmv", "m, m k^, k^ -> m"},
                     });
}

}  // namespace tp
