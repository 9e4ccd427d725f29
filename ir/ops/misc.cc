// Recurrent layers, grouped products, and ops whose result sizes depend on
// data, which are refused with the reason.
#include <algorithm>

#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// The operands of a slot, as a range.
absl::StatusOr<OperandSlot> SlotOf(const Op& op, int index) {
  if (index >= static_cast<int>(op.slots().size())) {
    return OpError(op, "argument " + std::to_string(index) + " is missing");
  }
  return op.slots()[index];
}

// lstm, gru, rnn_tanh, rnn_relu (input, hx, params, ...): the output, and
// the states like those given.
Types RecurrentTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType input, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(OperandSlot states, SlotOf(op, 1));
  if (input.ndim() != 2 && input.ndim() != 3) {
    return OpError(op, "the input must have 2 or 3 dims");
  }
  std::vector<TensorType> types{input};
  for (int i = 0; i < states.size; ++i) {
    TP_ASSIGN_OR_RETURN(TensorType state, TypeOf(op, states.begin + i));
    if (state.ndim() != input.ndim()) {
      return OpError(op, "a state has other dims than the input");
    }
    types.push_back(state);
  }
  if (types.size() == 1) return OpError(op, "needs a state");
  TP_ASSIGN_OR_RETURN(bool both, BoolAttrOr(op, "bidirectional", false));
  types[0].dims.back() = types[1].dims.back() * SymExpr(both ? 2 : 1);
  return types;
}

// lstm_cell(input, [h, c], ...), gru_cell(input, h, ...): the new states.
Types CellTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(OperandSlot states, SlotOf(op, 1));
  std::vector<TensorType> types;
  for (int i = 0; i < states.size; ++i) {
    TP_ASSIGN_OR_RETURN(TensorType state, TypeOf(op, states.begin + i));
    types.push_back(state);
  }
  if (types.empty()) return OpError(op, "needs a state");
  return types;
}

// _grouped_mm(x [m,k], w [e,k,n], offs [e]): rows of x up to offs[0] times
// w[0], up to offs[1] times w[1], ...
Types GroupedMmTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType x, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType weight, TypeOf(op, 1));
  if (x.ndim() != 2 || weight.ndim() != 3) {
    return OpUnsupported(op,
                         "only groups of rows times a stack of weights "
                         "are supported");
  }
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, x.dims[1], weight.dims[1],
                              "the multiplied dims")
                         .status());
  x.dims[1] = weight.dims[2];
  TP_ASSIGN_OR_RETURN(x.dtype, DTypeAttrOr(op, "out_dtype", x.dtype));
  return std::vector<TensorType>{x};
}

// A size as (chunks unit): LibTorch's kernel wants rows of 16 bytes, so only
// whole chunks move. Whole where it does not divide.
struct Aligned {
  int chunks;
  int unit;
};
Aligned AlignedFactors(RuleMaker& rule, const SymExpr& size, DType dtype,
                       FactorKind kind) {
  SymExpr unit = std::max<int64_t>(1, 16 / ByteSize(dtype));
  std::optional<SymExpr> chunks = ExactDiv(size, unit);
  if (!chunks) return {rule.Whole(size), -1};
  return {kind == FactorKind::kReduce ? rule.Reduce(*chunks)
                                      : rule.Pass(*chunks),
          rule.Whole(unit)};
}

// Rows and experts stay whole: offs counts them.
absl::StatusOr<OpRule> GroupedMmRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& x = op.operand(0)->type();
  const TensorType& weight = op.operand(1)->type();
  if (x.ndim() != 2 || weight.ndim() != 3 || Has(op, 3)) {
    return ReplicateRule(op);
  }
  RuleMaker rule(op);
  int rows = rule.Whole(x.dims[0]);
  Aligned k = AlignedFactors(rule, x.dims[1], x.dtype, FactorKind::kReduce);
  Aligned n =
      AlignedFactors(rule, weight.dims[2], x.dtype, FactorKind::kPass);
  rule.Operand(0, 0, rows);
  rule.Operand(1, 0, rule.Whole(weight.dims[0]));
  for (int factor : {k.chunks, k.unit}) {
    rule.Operand(0, 1, factor);
    rule.Operand(1, 1, factor);
  }
  for (int factor : {n.chunks, n.unit}) {
    rule.Operand(1, 2, factor);
    rule.Result(0, 1, factor);
  }
  rule.WholeOperand(2);
  rule.Result(0, 0, rows);
  rule.Partial("0|1");
  return std::move(rule).Build();
}

Types HistcTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(SymExpr bins, IntAttrOr(op, "bins", 100));
  type.dims = Dims{bins};
  return std::vector<TensorType>{type};
}

// bucketize(self, boundaries): which interval each element falls into.
Types BucketizeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_RETURN_IF_ERROR(TypeOf(op, 1).status());
  TP_ASSIGN_OR_RETURN(bool narrow, BoolAttrOr(op, "out_int32", false));
  type.dtype = narrow ? DType::kI32 : DType::kI64;
  return std::vector<TensorType>{type};
}

absl::StatusOr<OpRule> BucketizeRule(const Op& op) {
  return RuleExcept(op, {}, "-");
}

Types DependsOnData(const Op& op, Assumptions&) {
  return OpUnsupported(op,
                       "the size of the result depends on data, which a "
                       "program compiled ahead of time cannot follow; "
                       "use a mask (torch.where) instead");
}

}  // namespace

void AddMiscRows(OpRows& rows) {
  for (const char* name : {"aten.lstm.input", "aten.gru.input",
                           "aten.rnn_tanh.input", "aten.rnn_relu.input"}) {
    rows.push_back(Row(name, "replicate", "-", RecurrentTypes));
    rows.back().saves = "0,result";
  }
  for (const char* name : {"aten.lstm_cell", "aten.gru_cell",
                           "aten.rnn_tanh_cell", "aten.rnn_relu_cell"}) {
    rows.push_back(Row(name, "replicate", "-", CellTypes));
    rows.back().saves = "0,result";
  }
  rows.push_back(Row("aten._grouped_mm", GroupedMmRule, GroupedMmTypes));
  rows.back().saves = "0,1";
  rows.push_back(Row("aten.histc", "replicate", "-", HistcTypes));
  rows.push_back(Row("aten.bucketize", BucketizeRule, BucketizeTypes));
  for (const char* name :
       {"aten.nonzero", "aten.masked_select", "aten.unique_dim",
        "aten._unique2", "aten.where", "aten.argwhere", "aten.bincount",
        "aten.repeat_interleave.Tensor"}) {
    rows.push_back(Row(name, "replicate", "-", DependsOnData));
  }
  SetNotations(rows, {
                         {"aten._grouped_mm",
                          "m^ (k+ u^), e^ (k+ u^) (n w^), e^ -> m^ (n w^)"},
                         {"aten.bucketize", "..., n^ -> ..."},
                     });
}

}  // namespace tp
