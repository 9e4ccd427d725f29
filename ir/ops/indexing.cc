// Ops that read or write elements at positions held in tensors.
#include "ir/builder.h"
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"
#include "ir/shard_extent.h"

namespace tp {
namespace {

// index.Tensor(self, indices): where the index tensors' dims come to lie.
struct IndexPlan {
  std::vector<int> indexed;  // dims of self with an index tensor
  int position = 0;          // of the first index dim in the result
  Dims index_dims;           // the index tensors broadcast together
};

// `first` is the first operand of the list.
absl::StatusOr<IndexPlan> PlanIndex(const Op& op, Assumptions& assumptions,
                                    const TensorType& self, int first,
                                    int last) {
  IndexPlan plan;
  if (last - first > self.ndim()) {
    return OpError(op, "more index tensors than dims");
  }
  for (int i = first; i < last; ++i) {
    const TensorType* type = TypeOrNull(op, i);
    if (type == nullptr) continue;
    if (type->dtype == DType::kBool || type->dtype == DType::kU8) {
      return OpUnsupported(op,
                           "a boolean mask as an index gives a size that "
                           "depends on data; use torch.where or "
                           "masked_fill");
    }
    plan.indexed.push_back(i - first);
    TP_ASSIGN_OR_RETURN(
        plan.index_dims,
        Broadcast(op, assumptions, plan.index_dims, type->dims));
  }
  if (plan.indexed.empty()) return plan;
  bool adjacent = plan.indexed.back() - plan.indexed.front() + 1 ==
                  static_cast<int>(plan.indexed.size());
  plan.position = adjacent ? plan.indexed.front() : 0;
  return plan;
}

Dims IndexedDims(const IndexPlan& plan, const TensorType& self) {
  Dims dims;
  for (int d = 0; d < self.ndim(); ++d) {
    if (!llvm::is_contained(plan.indexed, d)) dims.push_back(self.dims[d]);
  }
  if (!plan.indexed.empty()) {
    dims.insert(dims.begin() + plan.position, plan.index_dims.begin(),
                plan.index_dims.end());
  }
  return dims;
}

Types IndexTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(IndexPlan plan,
                      PlanIndex(op, assumptions, self, 1, op.num_operands()));
  self.dims = IndexedDims(plan, self);
  return std::vector<TensorType>{self};
}

// Indexed dims of self stay whole; its other dims pass, and so do the dims of
// the index tensors: each index is looked up on its own.
absl::StatusOr<OpRule> IndexRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const TensorType& self = op.operand(0)->type();
  const TensorType& result = op.result()->type();
  // Only counts matter here: a broadcast against symbols cannot be redone.
  std::vector<int> indexed;
  int index_ndim = 0;
  for (int i = 1; i < op.num_operands(); ++i) {
    const TensorType* type = TypeOrNull(op, i);
    if (type == nullptr) continue;
    indexed.push_back(i - 1);
    index_ndim = std::max(index_ndim, type->ndim());
  }
  int kept = self.ndim() - static_cast<int>(indexed.size());
  if (kept < 0 || result.ndim() != kept + index_ndim) {
    return OpError(op, "has a result of other dims");
  }
  bool adjacent = !indexed.empty() && indexed.back() - indexed.front() + 1 ==
                                          static_cast<int>(indexed.size());
  int position = adjacent ? indexed.front() : 0;
  RuleMaker rule(op);
  std::vector<int> index_factors;
  for (int d = 0; d < index_ndim; ++d) {
    index_factors.push_back(rule.Pass(result.dims[position + d]));
    rule.Result(0, position + d, index_factors.back());
  }
  for (int i = 1; i < op.num_operands(); ++i) {
    rule.BroadcastOperand(i, index_factors);
  }
  int next = 0;
  for (int d = 0; d < self.ndim(); ++d) {
    if (llvm::is_contained(indexed, d)) {
      rule.Operand(0, d, rule.Whole(self.dims[d]));
      continue;
    }
    if (next == position) next += index_ndim;
    int factor = rule.Pass(self.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, next++, factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

// index_put(self, indices, values, accumulate): a tensor like self.
Types IndexPutTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  int last = op.num_operands() - 1;
  TP_ASSIGN_OR_RETURN(TensorType values, TypeOf(op, last));
  if (last < 1) return OpError(op, "needs indices and values");
  for (int i = 1; i < last; ++i) {
    const TensorType* type = TypeOrNull(op, i);
    // A mask writes in place: no size depends on it.
    if (type != nullptr && type->dtype == DType::kBool) {
      return std::vector<TensorType>{self};
    }
  }
  TP_ASSIGN_OR_RETURN(IndexPlan plan,
                      PlanIndex(op, assumptions, self, 1, last));
  TP_RETURN_IF_ERROR(RequireBroadcastTo(op, assumptions, values.dims,
                                        IndexedDims(plan, self)));
  return std::vector<TensorType>{self};
}

// Where the parts of an index_put lie: dims of self that are indexed (a mask
// takes several), and in the values the position and number of the dims of
// the indices.
struct PutPlan {
  std::vector<int> indexed;
  int position = 0;
  int index_ndim = 0;
};

absl::StatusOr<PutPlan> PlanPut(const Op& op) {
  PutPlan plan;
  const TensorType& self = op.operand(0)->type();
  int next = 0;
  for (int i = 1; i + 1 < op.num_operands(); ++i) {
    const TensorType* type = TypeOrNull(op, i);
    if (type == nullptr) {
      ++next;
      continue;
    }
    const bool mask = type->dtype == DType::kBool || type->dtype == DType::kU8;
    for (int d = 0; d < (mask ? type->ndim() : 1); ++d)
      plan.indexed.push_back(next++);
    plan.index_ndim = std::max(plan.index_ndim, mask ? 1 : type->ndim());
  }
  if (next > self.ndim()) return OpError(op, "more indices than dims");
  if (!plan.indexed.empty() && plan.indexed.back() - plan.indexed.front() + 1 ==
                                   static_cast<int>(plan.indexed.size())) {
    plan.position = plan.indexed.front();
  }
  return plan;
}

// Indexed dims are whole, and so are the dims of the indices: two of them may
// name one element. The other dims of self pass; the values are broadcast
// against them.
absl::StatusOr<OpRule> IndexPutRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  const int last = op.num_operands() - 1;
  if (last < 1 || !Has(op, last)) return OpError(op, "needs values");
  TP_ASSIGN_OR_RETURN(PutPlan plan, PlanPut(op));
  TP_ASSIGN_OR_RETURN(bool accumulate, BoolAttrOr(op, "accumulate", false));
  const TensorType& self = op.operand(0)->type();
  const TensorType& values = op.operand(last)->type();
  RuleMaker rule(op);
  std::vector<int> written;  // factors of what the values are broadcast to
  for (int d = 0; d < self.ndim(); ++d) {
    const bool whole = llvm::is_contained(plan.indexed, d);
    const int factor =
        whole ? rule.Whole(self.dims[d]) : rule.Pass(self.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, d, factor);
    if (!whole) written.push_back(factor);
  }
  written.insert(written.begin() + plan.position, plan.index_ndim, -1);
  rule.BroadcastOperand(last, written);
  for (int i = 1; i <= values.ndim() && i <= static_cast<int>(written.size());
       ++i) {
    const int dim = values.ndim() - i;
    if (written[written.size() - i] < 0)
      rule.Operand(last, dim, rule.Whole(values.dims[dim]));
  }
  for (int i = 1; i < last; ++i) rule.WholeOperand(i);
  // Of equal indices one wins; sums have no winner.
  if (accumulate) rule.Partial("0&" + std::to_string(last));
  return std::move(rule).Build();
}

Types IndexSelectTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType index, TypeOf(op, 1));
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", self.ndim()));
  if (index.ndim() > 1) return OpError(op, "the index must have 1 dim");
  if (self.ndim() > 0) self.dims[dim] = Product(index.dims);
  return std::vector<TensorType>{self};
}

// The dim of self is whole, that of index and result passes.
absl::StatusOr<OpRule> IndexSelectRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& self = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", self.ndim()));
  RuleMaker rule(op);
  for (int d = 0; d < self.ndim(); ++d) {
    int factor = rule.Pass(op.result()->type().dims[d]);
    rule.Operand(0, d, d == dim ? rule.Whole(self.dims[d]) : factor);
    if (d == dim) rule.Operand(1, 0, factor);
    rule.Result(0, d, factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

// take(self, index): of all elements, in the index's shape.
Types TakeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType index, TypeOf(op, 1));
  return std::vector<TensorType>{{self.dtype, index.dims}};
}

absl::StatusOr<OpRule> TakeRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  RuleMaker rule(op);
  rule.WholeOperand(0);
  const TensorType& index = op.operand(1)->type();
  for (int d = 0; d < index.ndim(); ++d) {
    const int factor = rule.Pass(index.dims[d]);
    rule.Operand(1, d, factor);
    rule.Result(0, d, factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

// isin(elements, test_elements): each element on its own.
Types IsInTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType elements, TypeOf(op, 0));
  elements.dtype = DType::kBool;
  return std::vector<TensorType>{elements};
}

absl::StatusOr<OpRule> IsInRule(const Op& op) {
  return RuleExcept(op, {}, "-");
}

absl::Status CheckGather(const Op& op) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType index, TypeOf(op, 1));
  if (self.ndim() == index.ndim()) return absl::OkStatus();
  return OpError(op, "index must have as many dims as self");
}

// gather(self, dim, index): like index.
Types GatherTypes(const Op& op, Assumptions&) {
  TP_RETURN_IF_ERROR(CheckGather(op));
  TensorType self = op.operand(0)->type();
  TP_RETURN_IF_ERROR(DimAttr(op, "dim", self.ndim()).status());
  self.dims = op.operand(1)->type().dims;
  return std::vector<TensorType>{self};
}

// What an index picks from a rank that has a part of the dim is that element
// or nothing; the sum over ranks has it once.
absl::StatusOr<OpRule> GatherRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  TP_RETURN_IF_ERROR(CheckGather(op));
  const TensorType& self = op.operand(0)->type();
  const TensorType& index = op.operand(1)->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", self.ndim()));
  RuleMaker rule(op);
  for (int d = 0; d < self.ndim(); ++d) {
    if (d == dim) {
      rule.Operand(0, d,
                   IsFloatingPoint(self.dtype) ? rule.Reduce(self.dims[d])
                                               : rule.Whole(self.dims[d]));
    }
    // Where index is shorter than self, it means the first ones only.
    bool pass = d == dim || self.dims[d] == index.dims[d];
    int factor = pass ? rule.Pass(index.dims[d]) : rule.Whole(index.dims[d]);
    rule.Operand(1, d, factor);
    rule.Result(0, d, factor);
    if (d != dim) {
      rule.Operand(0, d, pass ? factor : rule.Whole(self.dims[d]));
    }
  }
  rule.Partial("0");
  OpRule built = std::move(rule).Build();
  // A rank finds its elements by their offset, so they have to be one range.
  for (Factor& factor : built.factors)
    factor.one_range = factor.kind == FactorKind::kReduce;
  return built;
}

absl::StatusOr<Value*> LocalizeGather(Op& op, const LocalizeContext& context,
                                      Builder& builder) {
  const Factor& factor = context.rule->factors[context.sharding.factor];
  if (factor.kind != FactorKind::kReduce) return op.result();
  const DimFactor& within = context.sharding.within;
  if (!(within.left == SymExpr(1))) {
    return OpUnsupported(op, "the elements of a rank have to be one range");
  }
  TP_ASSIGN_OR_RETURN(int dim,
                      DimAttr(op, "dim", op.operand(0)->type().ndim()));
  const SymExpr offset =
      ShardExtentOf(within.size, context.axis_size, context.coordinate).offset *
      within.right;
  Op* shard = builder.CreateTyped(
      "tp.gather_shard", {op.operand(0), op.operand(1)},
      {{"dim", dim}, {"offset", offset}, {"size", factor.size}},
      {op.result()->type()});
  return shard->result();
}

// take_along_dim(self, indices, dim): gather with broadcasting.
Types TakeAlongDimTypes(const Op& op, Assumptions& assumptions) {
  TP_RETURN_IF_ERROR(CheckGather(op));
  TensorType self = op.operand(0)->type();
  const TensorType& index = op.operand(1)->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", self.ndim()));
  for (int d = 0; d < self.ndim(); ++d) {
    if (d == dim || self.dims[d] == SymExpr(1)) {
      self.dims[d] = index.dims[d];
    } else if (!(index.dims[d] == SymExpr(1))) {
      TP_ASSIGN_OR_RETURN(self.dims[d],
                          SameSize(op, assumptions, self.dims[d], index.dims[d],
                                   "dims that broadcast"));
    }
  }
  return std::vector<TensorType>{self};
}

absl::StatusOr<OpRule> TakeAlongDimRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  TP_RETURN_IF_ERROR(CheckGather(op));
  const TensorType& self = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", self.ndim()));
  RuleMaker rule(op);
  for (int d = 0; d < self.ndim(); ++d) {
    int factor = rule.Pass(op.result()->type().dims[d]);
    rule.Operand(1, d, factor);
    rule.Result(0, d, factor);
    rule.Operand(0, d, d == dim ? rule.Whole(self.dims[d]) : factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

// scatter and its kin: the written dim is whole. Another dim passes where all
// tensors have it in full.
absl::StatusOr<OpRule> ScatterRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& self = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", self.ndim()));
  for (const Value* operand : op.operands()) {
    if (operand == nullptr) return ReplicateRule(op);
    if (operand->type().ndim() != self.ndim()) return ReplicateRule(op);
  }
  RuleMaker rule(op);
  for (int d = 0; d < self.ndim(); ++d) {
    bool pass = d != dim;
    for (const Value* operand : op.operands()) {
      pass &= operand->type().dims[d] == self.dims[d];
    }
    int factor = pass ? rule.Pass(self.dims[d]) : rule.Whole(self.dims[d]);
    rule.Result(0, d, factor);
    rule.Operand(0, d, factor);
    for (int i = 1; i < op.num_operands(); ++i) {
      rule.Operand(i, d,
                   pass ? factor : rule.Whole(op.operand(i)->type().dims[d]));
    }
  }
  return std::move(rule).Build();
}

// index_add, index_copy, index_fill (self, dim, index, source).
absl::StatusOr<OpRule> IndexAddRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& self = op.operand(0)->type();
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", self.ndim()));
  const TensorType* source = TypeOrNull(op, 2);
  bool full = source != nullptr && source->ndim() == self.ndim();
  if (source != nullptr && !full && source->ndim() > 0) {
    return ReplicateRule(op);
  }
  RuleMaker rule(op);
  for (int d = 0; d < self.ndim(); ++d) {
    bool pass = d != dim && (!full || source->dims[d] == self.dims[d]);
    int factor = pass ? rule.Pass(self.dims[d]) : rule.Whole(self.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, d, factor);
    if (full) rule.Operand(2, d, pass ? factor : rule.Whole(source->dims[d]));
  }
  rule.WholeOperand(1);
  // Adding and copying are linear in self and source together.
  if (full) rule.Partial("0&2");
  return std::move(rule).Build();
}

// slice_scatter and select_scatter (self, src, dim, ...).
absl::StatusOr<OpRule> SliceScatterRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  const TensorType& self = op.operand(0)->type();
  const TensorType& source = op.operand(1)->type();
  bool select = op.Is("aten.select_scatter");
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", self.ndim(), 0));
  if (source.ndim() + (select ? 1 : 0) != self.ndim()) {
    return OpError(op, "src has other dims than the part it replaces");
  }
  RuleMaker rule(op);
  int next = 0;
  for (int d = 0; d < self.ndim(); ++d) {
    int factor = d == dim ? rule.Whole(self.dims[d]) : rule.Pass(self.dims[d]);
    rule.Operand(0, d, factor);
    rule.Result(0, d, factor);
    if (d == dim && select) continue;
    rule.Operand(1, next, d == dim ? rule.Whole(source.dims[next]) : factor);
    ++next;
  }
  rule.Partial("0&1");
  return std::move(rule).Build();
}

Types SliceScatterTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType source, TypeOf(op, 1));
  bool select = op.Is("aten.select_scatter");
  TP_ASSIGN_OR_RETURN(int dim, DimAttrOr(op, "dim", self.ndim(), 0));
  if (source.ndim() + (select ? 1 : 0) != self.ndim()) {
    return OpError(op, "src has other dims than the part it replaces");
  }
  int next = 0;
  for (int d = 0; d < self.ndim(); ++d) {
    if (d == dim) {
      if (!select) ++next;
      continue;
    }
    TP_RETURN_IF_ERROR(SameSize(op, assumptions, source.dims[next++],
                                self.dims[d], "dims of self and src")
                           .status());
  }
  return std::vector<TensorType>{self};
}

Types ScatterTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType self, TypeOf(op, 0));
  TP_RETURN_IF_ERROR(TypeOf(op, 1).status());
  TP_RETURN_IF_ERROR(DimAttr(op, "dim", self.ndim()).status());
  return std::vector<TensorType>{self};
}

}  // namespace

void AddIndexingRows(OpRows& rows) {
  rows.push_back(Row("aten.index.Tensor", IndexRule, IndexTypes));
  rows.push_back(Row("aten.index_put", IndexPutRule, IndexPutTypes));
  rows.back().saves = "1";
  rows.push_back(Row("aten.index_select", IndexSelectRule, IndexSelectTypes));
  rows.push_back(Row("aten.gather", GatherRule, GatherTypes));
  rows.back().localize = LocalizeGather;
  rows.push_back(Row("aten.take", TakeRule, TakeTypes));
  rows.back().saves = "1";
  rows.push_back(Row("aten.isin.Tensor_Tensor", IsInRule, IsInTypes));
  rows.push_back(Row("aten.isin.Tensor_Scalar", IsInRule, IsInTypes));
  rows.push_back(
      Row("aten.take_along_dim", TakeAlongDimRule, TakeAlongDimTypes));
  for (const char* name :
       {"aten.scatter", "aten.scatter_add", "aten.scatter_reduce"}) {
    rows.push_back(Row(name, ScatterRule, ScatterTypes));
    rows.back().saves = "1";
  }
  for (const char* name :
       {"aten.index_add", "aten.index_copy", "aten.index_fill"}) {
    rows.push_back(Row(name, IndexAddRule, ScatterTypes));
    rows.back().saves = "1";
  }
  for (const char* name : {"aten.slice_scatter", "aten.select_scatter"}) {
    rows.push_back(Row(name, SliceScatterRule, SliceScatterTypes));
  }
  for (const char* name : {"aten.index.Tensor", "aten.gather"}) {
    for (OpDef& row : rows) {
      if (row.name == name) row.saves = "1";
    }
  }
  SetNotations(
      rows,
      {
          {"aten.index.Tensor", "... i^ ..., n -> ... n ..."},
          {"aten.index_put", "... i^ ..., n^, ... n^ ... -> ... i^ ..."},
          {"aten.index_select", "... s^ ..., n -> ... n ..."},
          {"aten.gather", "... s+ ..., ... n ... -> ... n ..."},
          {"aten.take_along_dim", "... s^ ..., ... n ... -> ... n ..."},
          {"aten.take", "...^, ... -> ..."},
          {"aten.scatter", "... s^ ..., ... n^ ..., ... n^ ... -> ... s^ ..."},
          {"aten.scatter_add",
           "... s^ ..., ... n^ ..., ... n^ ... -> ... s^ ..."},
          {"aten.index_add", "... s^ ..., n^, ... n^ ... -> ... s^ ..."},
          {"aten.index_copy", "... s^ ..., n^, ... n^ ... -> ... s^ ..."},
      });
}

}  // namespace tp
