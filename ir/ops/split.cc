// Ops with a list of parts as results: split, chunk, unbind.
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

constexpr int64_t kMaxParts = 1 << 16;

// The constant number of parts a dim of `size` is cut into.
absl::StatusOr<int64_t> CountParts(const Op& op, Assumptions& assumptions,
                                   const SymExpr& size, const SymExpr& part) {
  SymExpr count = CeilDiv(size, part);
  TP_ASSIGN_OR_RETURN(int64_t parts, assumptions.Hint(count));
  if (parts < 0 || parts > kMaxParts) {
    return OpError(op, "gives " + std::to_string(parts) + " parts");
  }
  if (count.is_constant()) return parts;
  TP_RETURN_IF_ERROR(assumptions.Require(count, Relation::kEq, parts,
                                         op.name() + ": the number of parts",
                                         op.location()));
  return parts;
}

std::vector<TensorType> EvenParts(const TensorType& type, int dim,
                                  const SymExpr& part, int64_t parts) {
  std::vector<TensorType> types;
  for (int64_t i = 0; i < parts; ++i) {
    TensorType piece = type;
    piece.dims[dim] = part;
    if (i + 1 == parts) {
      piece.dims[dim] = type.dims[dim] - part * SymExpr(parts - 1);
    }
    types.push_back(std::move(piece));
  }
  return types;
}

struct SplitInput {
  TensorType type;
  int dim = 0;
};

absl::StatusOr<SplitInput> InputOf(const Op& op) {
  SplitInput input;
  TP_ASSIGN_OR_RETURN(input.type, TypeOf(op, 0));
  if (input.type.ndim() == 0) {
    return OpError(op, "a 0-dim tensor has no parts");
  }
  TP_ASSIGN_OR_RETURN(input.dim, DimAttrOr(op, "dim", input.type.ndim(), 0));
  return input;
}

Types SplitTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  TP_ASSIGN_OR_RETURN(SymExpr part, IntAttr(op, "split_size"));
  const SymExpr& size = input.type.dims[input.dim];
  if (part.is_constant() && part.constant() <= 0) {
    return OpError(op, "split_size must be positive");
  }
  TP_ASSIGN_OR_RETURN(int64_t parts, CountParts(op, assumptions, size, part));
  return EvenParts(input.type, input.dim, part, parts);
}

Types ChunkTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  TP_ASSIGN_OR_RETURN(int64_t chunks, ConstIntAttr(op, "chunks"));
  if (chunks <= 0) return OpError(op, "chunks must be positive");
  const SymExpr& size = input.type.dims[input.dim];
  if (size == SymExpr(0)) {
    return EvenParts(input.type, input.dim, 0, chunks);
  }
  SymExpr part = CeilDiv(size, chunks);
  TP_ASSIGN_OR_RETURN(int64_t parts, CountParts(op, assumptions, size, part));
  return EvenParts(input.type, input.dim, part, parts);
}

// tensor_split.sections: the first size mod n parts get one more.
Types TensorSplitTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  TP_ASSIGN_OR_RETURN(int64_t sections, ConstIntAttr(op, "sections"));
  if (sections <= 0 || sections > kMaxParts) {
    return OpError(op, "sections must be positive");
  }
  const SymExpr& size = input.type.dims[input.dim];
  std::vector<TensorType> types;
  for (int64_t i = 0; i < sections; ++i) {
    TensorType piece = input.type;
    piece.dims[input.dim] =
        FloorDiv(size + SymExpr(sections - 1 - i), SymExpr(sections));
    types.push_back(std::move(piece));
  }
  return types;
}

Types SplitWithSizesTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  llvm::StringRef name =
      op.Is("aten.split.sizes") ? "split_size" : "split_sizes";
  TP_ASSIGN_OR_RETURN(Dims sizes, IntsAttr(op, name));
  SymExpr total = 0;
  std::vector<TensorType> types;
  for (const SymExpr& size : sizes) {
    total = total + size;
    types.push_back(input.type);
    types.back().dims[input.dim] = size;
  }
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, total,
                              input.type.dims[input.dim],
                              "the sum of split_sizes and the dim")
                         .status());
  return types;
}

Types UnbindTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  TP_ASSIGN_OR_RETURN(int64_t parts, CountParts(op, assumptions,
                                                input.type.dims[input.dim], 1));
  input.type.dims.erase(input.type.dims.begin() + input.dim);
  return std::vector<TensorType>(parts, input.type);
}

// Equal parts: the dim is (parts n) and n passes; else it stays whole.
absl::StatusOr<OpRule> SplitRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  const int dim = input.dim;
  bool equal = true;
  for (int r = 0; r < op.num_results(); ++r) {
    const TensorType& result = op.result(r)->type();
    if (result.ndim() != type.ndim()) return OpError(op, "changes its dims");
    equal &= result.dims[dim] == op.result()->type().dims[dim];
  }
  SymExpr part = op.result()->type().dims[dim];
  SymExpr parts = op.num_results();
  // chunk and tensor_split cut by the local size: right for equal parts.
  if (!equal || !(part * parts == type.dims[dim])) {
    return RuleExcept(op, {dim}, "0");
  }
  RuleMaker rule(op);
  for (int i = 0; i < type.ndim(); ++i) {
    if (i == dim) rule.Operand(0, i, rule.Whole(parts));
    int factor = rule.Pass(i == dim ? part : type.dims[i]);
    rule.Operand(0, i, factor);
    for (int r = 0; r < op.num_results(); ++r) rule.Result(r, i, factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

absl::StatusOr<OpRule> UnbindRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& type = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  RuleMaker rule(op);
  int next = 0;
  for (int i = 0; i < type.ndim(); ++i) {
    bool whole = i == input.dim;
    int factor = whole ? rule.Whole(type.dims[i]) : rule.Pass(type.dims[i]);
    rule.Operand(0, i, factor);
    for (int r = 0; !whole && r < op.num_results(); ++r) {
      rule.Result(r, next, factor);
    }
    if (!whole) ++next;
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

absl::StatusOr<Value*> LocalizeSplit(Op& op, const LocalizeContext&, Builder&) {
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  const SymExpr& part = op.result()->type().dims[input.dim];
  op.SetAttribute("split_size", part);
  return op.result();
}

absl::StatusOr<Value*> LocalizeSplitWithSizes(Op& op, const LocalizeContext&,
                                              Builder&) {
  TP_ASSIGN_OR_RETURN(SplitInput input, InputOf(op));
  Dims sizes;
  for (int r = 0; r < op.num_results(); ++r) {
    sizes.push_back(op.result(r)->type().dims[input.dim]);
  }
  op.SetAttribute(op.Is("aten.split.sizes") ? "split_size" : "split_sizes",
                  Attribute::Ints(sizes));
  return op.result();
}

}  // namespace

void AddSplitRows(OpRows& rows) {
  auto add = [&rows](const char* name, RuleFn rule, ShapeFn shape,
                     LocalizeFn localize = nullptr) {
    rows.push_back(Row(name, rule, shape));
    rows.back().traits = kView;
    rows.back().localize = localize;
  };
  add("aten.split.Tensor", SplitRule, SplitTypes, LocalizeSplit);
  add("aten.split.sizes", SplitRule, SplitWithSizesTypes,
      LocalizeSplitWithSizes);
  add("aten.split_with_sizes", SplitRule, SplitWithSizesTypes,
      LocalizeSplitWithSizes);
  add("aten.chunk", SplitRule, ChunkTypes);
  add("aten.tensor_split.sections", SplitRule, TensorSplitTypes);
  add("aten.unbind", UnbindRule, UnbindTypes);
}

}  // namespace tp
