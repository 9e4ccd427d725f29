// Ops that give the elements of operand 0 other dims.
#include "ir/builder.h"
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// Sizes in which one may be -1, for `count` elements.
absl::StatusOr<Dims> ResolveSizes(const Op& op, Assumptions& assumptions,
                                  Dims sizes, const SymExpr& count) {
  int unknown = -1;
  SymExpr product = 1;
  for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
    std::optional<int64_t> constant = sizes[i].AsConstant();
    if (constant && *constant == -1) {
      if (unknown >= 0) return OpError(op, "two sizes are -1");
      unknown = i;
    } else if (constant && *constant < 0) {
      return OpError(op, "size " + std::to_string(*constant) + " is negative");
    } else {
      product = product * sizes[i];
    }
  }
  if (unknown < 0) {
    TP_RETURN_IF_ERROR(
        SameSize(op, assumptions, count, product, "the numbers of elements")
            .status());
    return sizes;
  }
  if (product == SymExpr(0)) {
    return OpError(op, "-1 is ambiguous where another size is 0");
  }
  if (std::optional<SymExpr> exact = ExactDiv(count, product)) {
    sizes[unknown] = *exact;
    return sizes;
  }
  if (count.is_constant() && product.is_constant()) {
    return OpError(op, count.ToString() + " elements do not divide by " +
                           product.ToString());
  }
  TP_RETURN_IF_ERROR(SameSize(op, assumptions, Mod(count, product), 0,
                              "the rest of dividing the elements by the "
                              "given sizes")
                         .status());
  sizes[unknown] = FloorDiv(count, product);
  return sizes;
}

Types WithSizes(const Op& op, Assumptions& assumptions, llvm::StringRef name) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(Dims sizes, IntsAttr(op, name));
  TP_ASSIGN_OR_RETURN(type.dims,
                      ResolveSizes(op, assumptions, sizes, Product(type.dims)));
  return std::vector<TensorType>{type};
}

Types ViewTypes(const Op& op, Assumptions& assumptions) {
  return WithSizes(op, assumptions, "size");
}

Types ReshapeTypes(const Op& op, Assumptions& assumptions) {
  return WithSizes(op, assumptions, "shape");
}

// view_as, reshape_as.
Types ViewAsTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(TensorType other, TypeOf(op, 1));
  TP_ASSIGN_OR_RETURN(
      type.dims, ResolveSizes(op, assumptions, other.dims, Product(type.dims)));
  return std::vector<TensorType>{type};
}

Types FlattenTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int first, DimAttrOr(op, "start_dim", type.ndim(), 0));
  TP_ASSIGN_OR_RETURN(int last, DimAttrOr(op, "end_dim", type.ndim(), -1));
  if (first > last) return OpError(op, "start_dim comes after end_dim");
  if (type.ndim() == 0) {
    type.dims.push_back(1);
    return std::vector<TensorType>{type};
  }
  llvm::ArrayRef<SymExpr> dims = type.dims;
  Dims result(dims.begin(), dims.begin() + first);
  result.push_back(Product(dims.slice(first, last - first + 1)));
  result.append(dims.begin() + last + 1, dims.end());
  type.dims = result;
  return std::vector<TensorType>{type};
}

Types UnflattenTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim()));
  TP_ASSIGN_OR_RETURN(Dims sizes, IntsAttr(op, "sizes"));
  if (type.ndim() == 0) return OpError(op, "has no dim to unflatten");
  TP_ASSIGN_OR_RETURN(sizes,
                      ResolveSizes(op, assumptions, sizes, type.dims[dim]));
  Dims result(type.dims.begin(), type.dims.begin() + dim);
  result.append(sizes.begin(), sizes.end());
  result.append(type.dims.begin() + dim + 1, type.dims.end());
  type.dims = result;
  return std::vector<TensorType>{type};
}

// The sizes of the dims that `dim` became, from the local result.
absl::StatusOr<Value*> LocalizeUnflatten(Op& op, const LocalizeContext&,
                                         Builder&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim()));
  TP_ASSIGN_OR_RETURN(Dims sizes, IntsAttr(op, "sizes"));
  llvm::ArrayRef<SymExpr> local = op.result()->type().dims;
  if (dim + sizes.size() > local.size()) {
    return OpError(op, "has fewer dims than its sizes");
  }
  op.SetAttribute("sizes", Attribute::Ints(local.slice(dim, sizes.size())));
  return op.result();
}

Types SqueezeTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  // Absent in the default overload only, which squeezes all.
  TP_ASSIGN_OR_RETURN(std::vector<int> dims,
                      DimsAttr(op, "dim", type.ndim(), false));
  Dims result;
  for (int i = 0; i < type.ndim(); ++i) {
    bool one = type.dims[i] == SymExpr(1);
    if (!one && !type.dims[i].is_constant() && llvm::is_contained(dims, i)) {
      TP_ASSIGN_OR_RETURN(one,
                          assumptions.Decide(type.dims[i], Relation::kEq, 1,
                                             op.name() + ": whether a dim is 1",
                                             op.location()));
    }
    if (!one || !llvm::is_contained(dims, i)) result.push_back(type.dims[i]);
  }
  type.dims = result;
  return std::vector<TensorType>{type};
}

// A dim can have local size 1 that is no 1 globally and must stay.
absl::StatusOr<Value*> LocalizeSqueeze(Op& op, const LocalizeContext&,
                                       Builder& builder) {
  Op* reshape = builder.CreateTyped(
      "aten.reshape", {op.operand(0)},
      {{"shape", Attribute::Ints(op.result()->type().dims)}},
      {op.result()->type()});
  return reshape->result();
}

Types UnsqueezeTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(int dim, DimAttr(op, "dim", type.ndim() + 1));
  type.dims.insert(type.dims.begin() + dim, SymExpr(1));
  return std::vector<TensorType>{type};
}

// For each dim of the result, the dim of operand 0 it is.
absl::StatusOr<std::vector<int>> Permutation(const Op& op) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  int ndim = type.ndim();
  std::vector<int> order;
  for (int i = 0; i < ndim; ++i) order.push_back(i);
  if (op.Is("aten.t")) {
    if (ndim > 2) return OpError(op, "takes at most 2 dims");
    std::reverse(order.begin(), order.end());
    return order;
  }
  if (op.Is("aten.numpy_T")) {
    std::reverse(order.begin(), order.end());
    return order;
  }
  if (op.Is("aten.mT") || op.Is("aten.adjoint")) {
    if (ndim < 2) return OpError(op, "needs at least 2 dims");
    std::swap(order[ndim - 2], order[ndim - 1]);
    return order;
  }
  if (op.Is("aten.transpose") || op.Is("aten.swapaxes") ||
      op.Is("aten.swapdims")) {
    bool axes = op.Is("aten.swapaxes");
    TP_ASSIGN_OR_RETURN(int a, DimAttr(op, axes ? "axis0" : "dim0", ndim));
    TP_ASSIGN_OR_RETURN(int b, DimAttr(op, axes ? "axis1" : "dim1", ndim));
    if (ndim > 0) std::swap(order[a], order[b]);
    return order;
  }
  if (op.Is("aten.permute")) {
    TP_ASSIGN_OR_RETURN(Dims dims, IntsAttr(op, "dims"));
    if (static_cast<int>(dims.size()) != ndim) {
      return OpError(op, "dims must name every dim once");
    }
    std::vector<bool> seen(ndim, false);
    for (int i = 0; i < ndim; ++i) {
      std::optional<int64_t> dim = dims[i].AsConstant();
      if (!dim) return OpError(op, "dims must be constant");
      TP_ASSIGN_OR_RETURN(order[i], WrapDim(op, *dim, ndim));
      if (seen[order[i]]) return OpError(op, "dims must name every dim once");
      seen[order[i]] = true;
    }
    return order;
  }
  // movedim(source, destination).
  TP_ASSIGN_OR_RETURN(Dims source, IntsAttr(op, "source"));
  TP_ASSIGN_OR_RETURN(Dims destination, IntsAttr(op, "destination"));
  if (source.size() != destination.size()) {
    return OpError(op, "source and destination differ in length");
  }
  std::vector<int> from(ndim, -1);
  std::vector<bool> moved(ndim, false);
  for (size_t i = 0; i < source.size(); ++i) {
    std::optional<int64_t> s = source[i].AsConstant();
    std::optional<int64_t> d = destination[i].AsConstant();
    if (!s || !d) return OpError(op, "dims must be constant");
    TP_ASSIGN_OR_RETURN(int source_dim, WrapDim(op, *s, ndim));
    TP_ASSIGN_OR_RETURN(int to_dim, WrapDim(op, *d, ndim));
    if (ndim == 0) continue;
    if (moved[source_dim] || from[to_dim] >= 0) {
      return OpError(op, "a dim is named twice");
    }
    from[to_dim] = source_dim;
    moved[source_dim] = true;
  }
  int next = 0;
  for (int i = 0; i < ndim; ++i) {
    if (from[i] >= 0) continue;
    while (moved[next]) ++next;
    from[i] = next++;
  }
  return from;
}

Types PermuteTypes(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  TP_ASSIGN_OR_RETURN(std::vector<int> order, Permutation(op));
  TensorType result = type;
  for (size_t i = 0; i < order.size(); ++i) {
    result.dims[i] = type.dims[order[i]];
  }
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> PermuteRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 1));
  TP_ASSIGN_OR_RETURN(std::vector<int> order, Permutation(op));
  RuleMaker rule(op);
  for (size_t i = 0; i < order.size(); ++i) {
    int factor = rule.Pass(op.operand(0)->type().dims[order[i]]);
    rule.Operand(0, order[i], factor);
    rule.Result(0, static_cast<int>(i), factor);
  }
  rule.Partial("0");
  return std::move(rule).Build();
}

}  // namespace

void AddViewRows(OpRows& rows) {
  auto add = [&rows](const char* name, ShapeFn shape, const char* sizes = "",
                     LocalizeFn localize = nullptr) {
    rows.push_back(Row(std::string("aten.") + name, ViewRule, shape));
    rows.back().traits = kView;
    rows.back().sizes_attribute = sizes;
    rows.back().localize = localize;
  };
  add("view", ViewTypes, "size");
  add("_unsafe_view", ViewTypes, "size");
  add("reshape", ReshapeTypes, "shape");
  add("view_as", ViewAsTypes);
  add("reshape_as", ViewAsTypes);
  add("flatten", FlattenTypes);
  add("unflatten", UnflattenTypes, "", LocalizeUnflatten);
  add("squeeze", SqueezeTypes, "", LocalizeSqueeze);
  add("unsqueeze", UnsqueezeTypes);
  for (const char* name :
       {"aten.transpose", "aten.permute", "aten.t", "aten.numpy_T",
        "aten.swapaxes", "aten.swapdims", "aten.movedim", "aten.moveaxis",
        "aten.mT", "aten.adjoint"}) {
    rows.push_back(Row(name, PermuteRule, PermuteTypes));
    rows.back().traits = kView;
  }
  SetNotations(rows, {
                         {"aten.view", "by the dims before and after"},
                         {"aten._unsafe_view", "by the dims before and after"},
                         {"aten.reshape", "by the dims before and after"},
                         {"aten.view_as", "by the dims before and after"},
                         {"aten.reshape_as", "by the dims before and after"},
                         {"aten.flatten", "by the dims before and after"},
                         {"aten.unflatten", "by the dims before and after"},
                         {"aten.squeeze", "by the dims before and after"},
                         {"aten.unsqueeze", "by the dims before and after"},
                         {"aten.transpose", "... -> ... in another order"},
                         {"aten.permute", "... -> ... in another order"},
                         {"aten.t", "... -> ... in another order"},
                         {"aten.numpy_T", "... -> ... in another order"},
                         {"aten.swapaxes", "... -> ... in another order"},
                         {"aten.swapdims", "... -> ... in another order"},
                         {"aten.movedim", "... -> ... in another order"},
                         {"aten.moveaxis", "... -> ... in another order"},
                         {"aten.mT", "... -> ... in another order"},
                         {"aten.adjoint", "... -> ... in another order"},
                     });
}

}  // namespace tp
