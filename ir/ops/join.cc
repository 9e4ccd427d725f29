// Ops that put tensors together along a dim: cat, stack, pad.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

absl::Status CheckList(const Op& op) {
  if (op.num_operands() == 0) return OpError(op, "an empty list of tensors");
  for (int i = 0; i < op.num_operands(); ++i) {
    TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, i));
    if (type.ndim() != op.operand(0)->type().ndim()) {
      return OpError(op, "tensors of different dims");
    }
  }
  return absl::OkStatus();
}

Types CatTypes(const Op& op, Assumptions& assumptions) {
  TP_RETURN_IF_ERROR(CheckList(op));
  TensorType result = op.operand(0)->type();
  if (result.ndim() == 0) return OpError(op, "0-dim tensors cannot be joined");
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", result.ndim(), 0));
  for (int i = 1; i < op.num_operands(); ++i) {
    const TensorType& type = op.operand(i)->type();
    for (int d = 0; d < result.ndim(); ++d) {
      if (d == dim) {
        result.dims[d] = result.dims[d] + type.dims[d];
        continue;
      }
      TP_ASSIGN_OR_RETURN(result.dims[d],
                          SameSize(op, assumptions, result.dims[d],
                                   type.dims[d], "dims that must agree"));
    }
  }
  result.dtype = PromotedDType(op, 0, /*scalars=*/false);
  return std::vector<TensorType>{result};
}

// Tensors of equal size n along the dim give (pieces n), and n passes.
absl::StatusOr<OpRule> CatRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckList(op));
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& result = op.result()->type();
  int ndim = op.operand(0)->type().ndim();
  if (result.ndim() != ndim) return OpError(op, "has a result of other dims");
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", ndim, 0));
  RuleMaker rule(op);
  for (int d = 0; d < ndim; ++d) {
    if (d != dim) {
      int factor = rule.Pass(result.dims[d]);
      for (int i = 0; i < op.num_operands(); ++i) rule.Operand(i, d, factor);
      rule.Result(0, d, factor);
      continue;
    }
    const SymExpr& piece = op.operand(0)->type().dims[d];
    bool equal = true;
    for (const Value* operand : op.operands()) {
      equal &= operand->type().dims[d] == piece;
    }
    if (!equal) {
      for (int i = 0; i < op.num_operands(); ++i) {
        rule.Operand(i, d, rule.Whole(op.operand(i)->type().dims[d]));
      }
      rule.Result(0, d, rule.Whole(result.dims[d]));
      continue;
    }
    rule.Result(0, d, rule.Whole(op.num_operands()));
    int factor = rule.Pass(piece);
    for (int i = 0; i < op.num_operands(); ++i) rule.Operand(i, d, factor);
    rule.Result(0, d, factor);
  }
  rule.Partial("*");
  return std::move(rule).Build();
}

Types StackTypes(const Op& op, Assumptions& assumptions) {
  TP_RETURN_IF_ERROR(CheckList(op));
  TensorType result = op.operand(0)->type();
  for (int i = 1; i < op.num_operands(); ++i) {
    for (int d = 0; d < result.ndim(); ++d) {
      TP_ASSIGN_OR_RETURN(
          result.dims[d],
          SameSize(op, assumptions, result.dims[d],
                   op.operand(i)->type().dims[d], "dims that must agree"));
    }
  }
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", result.ndim() + 1, 0));
  result.dims.insert(result.dims.begin() + dim, SymExpr(op.num_operands()));
  result.dtype = PromotedDType(op, 0, /*scalars=*/false);
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> StackRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckList(op));
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& result = op.result()->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", result.ndim(), 0));
  RuleMaker rule(op);
  int next = 0;
  for (int d = 0; d < result.ndim(); ++d) {
    if (d == dim) {
      rule.Result(0, d, rule.Whole(result.dims[d]));
      continue;
    }
    int factor = rule.Pass(result.dims[d]);
    for (int i = 0; i < op.num_operands(); ++i) {
      rule.Operand(i, next, factor);
    }
    rule.Result(0, d, factor);
    ++next;
  }
  rule.Partial("*");
  return std::move(rule).Build();
}

// pad(self, pad, mode, value): pairs (before, after), the last dim first.
Types PadTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(Dims pad, IntsAttr(op, "pad"));
  if (pad.size() % 2 != 0 || static_cast<int>(pad.size() / 2) > type.ndim()) {
    return OpError(op, "pad must hold pairs for some of the last dims");
  }
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    SymExpr& size = type.dims[type.ndim() - 1 - static_cast<int>(i / 2)];
    size = size + pad[i] + pad[i + 1];
    TP_RETURN_IF_ERROR(assumptions.Require(
        size, Relation::kGe, 0, "aten.pad: the padded size", op.location()));
  }
  return std::vector<TensorType>{type};
}

absl::StatusOr<OpRule> PadRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(Dims pad, IntsAttr(op, "pad"));
  int ndim = op.operand(0)->type().ndim();
  std::vector<int> whole;
  for (size_t i = 0; i + 1 < pad.size(); i += 2) {
    if (pad[i] == SymExpr(0) && pad[i + 1] == SymExpr(0)) continue;
    whole.push_back(ndim - 1 - static_cast<int>(i / 2));
  }
  const Attribute* mode = op.attribute("mode");
  bool linear = IsNone(op, "value") || IsZero(op.attribute("value")) ||
                (mode != nullptr && !(*mode == Attribute("constant")));
  return RuleExcept(op, whole, linear ? "0" : "-");
}

}  // namespace

void AddJoinRows(OpRows& rows) {
  for (const char* name : {"aten.cat", "aten.concat", "aten.concatenate"}) {
    rows.push_back(Row(name, CatRule, CatTypes));
  }
  rows.push_back(Row("aten.stack", StackRule, StackTypes));
  rows.push_back(Row("aten.pad", PadRule, PadTypes));
  rows.push_back(Row("aten.constant_pad_nd", PadRule, PadTypes));
}

}  // namespace tp
