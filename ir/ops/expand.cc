// Ops that repeat elements: expand, repeat, repeat_interleave.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

absl::StatusOr<Dims> Expanded(const Op& op, Assumptions& assumptions,
                              llvm::ArrayRef<SymExpr> dims, Dims sizes) {
  if (sizes.size() < dims.size()) {
    return OpError(op, "fewer sizes than dims");
  }
  size_t shift = sizes.size() - dims.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == SymExpr(-1)) {
      if (i < shift) return OpError(op, "-1 for a dim that is new");
      sizes[i] = dims[i - shift];
    } else if (i >= shift && !(dims[i - shift] == SymExpr(1))) {
      TP_ASSIGN_OR_RETURN(sizes[i],
                          SameSize(op, assumptions, dims[i - shift], sizes[i],
                                   "a size that is not 1 cannot expand"));
    }
  }
  return sizes;
}

Types ExpandTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(Dims sizes, IntsAttr(op, "size"));
  TP_ASSIGN_OR_RETURN(type.dims, Expanded(op, assumptions, type.dims, sizes));
  return std::vector<TensorType>{type};
}

Types ExpandAsTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType other, TypeOf(op, 1));
  TP_ASSIGN_OR_RETURN(type.dims,
                      Expanded(op, assumptions, type.dims, other.dims));
  return std::vector<TensorType>{type};
}

// Every dim of the result passes; operand 0 holds it unless it is 1 there.
// expand_as reads the local shape of operand 1, which is split alike.
absl::StatusOr<OpRule> ExpandRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& result = op.result()->type();
  RuleMaker rule(op);
  std::vector<int> factors;
  for (int i = 0; i < result.ndim(); ++i) {
    factors.push_back(rule.Pass(result.dims[i]));
    rule.Result(0, i, factors.back());
  }
  for (int i = 0; i < op.num_operands(); ++i) {
    rule.BroadcastOperand(i, factors);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

// broadcast_tensors(tensors): each of them, expanded to the dims they share.
Types BroadcastTensorsTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(Dims dims, BroadcastOperands(op, assumptions));
  std::vector<TensorType> types;
  for (int i = 0; i < op.num_operands(); ++i) {
    TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, i));
    types.push_back({type.dtype, dims});
  }
  return types;
}

Types RepeatTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  llvm::StringRef name = op.Is("aten.tile") ? "dims" : "repeats";
  TP_ASSIGN_OR_RETURN(Dims repeats, IntsAttr(op, name));
  if (op.Is("aten.tile")) {
    while (static_cast<int>(repeats.size()) < type.ndim()) {
      repeats.insert(repeats.begin(), SymExpr(1));
    }
  }
  if (static_cast<int>(repeats.size()) < type.ndim()) {
    return OpError(op, "fewer repeats than dims");
  }
  size_t shift = repeats.size() - type.ndim();
  for (size_t i = shift; i < repeats.size(); ++i) {
    repeats[i] = repeats[i] * type.dims[i - shift];
  }
  type.dims = repeats;
  return std::vector<TensorType>{type};
}

// A dim of n repeated r times is (r n); r stays whole.
absl::StatusOr<OpRule> RepeatRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  const TensorType& result = op.result()->type();
  int shift = result.ndim() - type.ndim();
  if (shift < 0) return OpError(op, "fewer dims in the result");
  RuleMaker rule(op);
  for (int i = 0; i < result.ndim(); ++i) {
    if (i < shift) {
      rule.Result(0, i, rule.Whole(result.dims[i]));
      continue;
    }
    const SymExpr& size = type.dims[i - shift];
    std::optional<SymExpr> repeats = ExactDiv(result.dims[i], size);
    if (!repeats) {
      rule.Operand(0, i - shift, rule.Whole(size));
      rule.Result(0, i, rule.Whole(result.dims[i]));
      continue;
    }
    rule.Result(0, i, rule.Whole(*repeats));
    int factor = rule.Pass(size);
    rule.Operand(0, i - shift, factor);
    rule.Result(0, i, factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

// repeat_interleave.self_int: each element `repeats` times.
Types RepeatInterleaveTypes(const Op& op, Assumptions&) {
  if (!op.Is("aten.repeat_interleave.self_int")) {
    return OpUnsupported(op, "repeats given as a tensor are not supported");
  }
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(SymExpr repeats, IntAttr(op, "repeats"));
  if (IsNone(op, "dim") || type.ndim() == 0) {
    type.dims = Dims{Product(type.dims) * repeats};
    return std::vector<TensorType>{type};
  }
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim()));
  type.dims[dim] = type.dims[dim] * repeats;
  return std::vector<TensorType>{type};
}

// A dim of n becomes (n repeats).
absl::StatusOr<OpRule> RepeatInterleaveRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  const TensorType& result = op.result()->type();
  // output_size would have to be local.
  if (IsNone(op, "dim") || !IsNone(op, "output_size") ||
      type.ndim() != result.ndim() ||
      !op.Is("aten.repeat_interleave.self_int")) {
    return ReplicateRule(op);
  }
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim()));
  TP_ASSIGN_OR_RETURN(SymExpr repeats, IntAttr(op, "repeats"));
  RuleMaker rule(op);
  for (int i = 0; i < type.ndim(); ++i) {
    int factor = rule.Pass(type.dims[i]);
    rule.Operand(0, i, factor);
    rule.Result(0, i, factor);
    if (i == dim) rule.Result(0, i, rule.Whole(repeats));
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

}  // namespace

void AddExpandRows(OpRows& rows) {
  for (const char* name : {"aten.expand", "aten.broadcast_to"}) {
    rows.push_back(Row(name, ExpandRule, ExpandTypes));
    rows.back().sizes_attribute = "size";
    rows.back().traits = kView;
  }
  rows.push_back(Row("aten.expand_as", ExpandRule, ExpandAsTypes));
  rows.back().traits = kView;
  // Sums that are due pass only together: one of them may be on a rank.
  rows.push_back(Row("aten.broadcast_tensors", "pointwise", "*",
                     BroadcastTensorsTypes));
  rows.push_back(Row("aten.repeat", RepeatRule, RepeatTypes));
  rows.push_back(Row("aten.tile", RepeatRule, RepeatTypes));
  rows.push_back(Row("aten.repeat_interleave", RepeatInterleaveRule,
                     RepeatInterleaveTypes));
  SetNotations(rows,
               {
                   {"aten.expand", "... -> ..."},
                   {"aten.broadcast_to", "... -> ..."},
                   {"aten.expand_as", "... -> ..."},
                   {"aten.repeat", "... -> (r^ ...)"},
                   {"aten.tile", "... -> (r^ ...)"},
                   {"aten.repeat_interleave", "... s ... -> ... (s r^) ..."},
               });
}

}  // namespace tp
