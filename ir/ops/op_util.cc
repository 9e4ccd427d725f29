#include "ir/ops/op_util.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/shard_extent.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

absl::Status AttrError(const Op& op, llvm::StringRef name,
                       std::string_view what) {
  const Attribute* attribute = op.attribute(name);
  if (attribute == nullptr) {
    return OpError(op, absl::StrCat("attribute ", name.str(), " is missing"));
  }
  return OpError(
      op, absl::StrCat("attribute ", name.str(), " must be ", std::string(what),
                       ", not ", attribute->ToString()));
}

}  // namespace

absl::Status OpError(const Op&, std::string_view what) {
  return absl::InvalidArgumentError(std::string(what));
}

absl::Status OpUnsupported(const Op&, std::string_view what) {
  return absl::UnimplementedError(std::string(what));
}

const TensorType* TypeOrNull(const Op& op, int operand) {
  const Value* value = operand < 0 ? nullptr : op.operand_or_null(operand);
  return value == nullptr ? nullptr : &value->type();
}

bool Has(const Op& op, int operand) {
  return TypeOrNull(op, operand) != nullptr;
}

absl::StatusOr<TensorType> TypeOf(const Op& op, int operand) {
  const TensorType* type = TypeOrNull(op, operand);
  if (type == nullptr) {
    return OpError(op, absl::StrCat("operand ", operand, " is missing"));
  }
  return *type;
}

absl::Status CheckRuleInputs(const Op& op, int count) {
  for (int i = 0; i < count; ++i) {
    TP_RETURN_IF_ERROR(TypeOf(op, i).status());
  }
  if (op.num_results() == 0) return OpError(op, "has no results");
  return absl::OkStatus();
}

bool IsNone(const Op& op, llvm::StringRef name) {
  const Attribute* attribute = op.attribute(name);
  return attribute == nullptr || attribute->is_none();
}

absl::StatusOr<SymExpr> IntAttr(const Op& op, llvm::StringRef name) {
  const Attribute* attribute = op.attribute(name);
  if (attribute == nullptr || !attribute->is_int()) {
    return AttrError(op, name, "an integer");
  }
  return attribute->as_int();
}

absl::StatusOr<SymExpr> IntAttrOr(const Op& op, llvm::StringRef name,
                                  const SymExpr& otherwise) {
  if (IsNone(op, name)) return otherwise;
  return IntAttr(op, name);
}

absl::StatusOr<int64_t> ConstIntAttr(const Op& op, llvm::StringRef name) {
  const Attribute* attribute = op.attribute(name);
  std::optional<int64_t> value;
  if (attribute != nullptr) value = attribute->AsConstantInt();
  if (!value) return AttrError(op, name, "a constant integer");
  return *value;
}

absl::StatusOr<int64_t> ConstIntAttrOr(const Op& op, llvm::StringRef name,
                                       int64_t otherwise) {
  if (IsNone(op, name)) return otherwise;
  return ConstIntAttr(op, name);
}

absl::StatusOr<Dims> IntsAttr(const Op& op, llvm::StringRef name) {
  const Attribute* attribute = op.attribute(name);
  if (attribute != nullptr && attribute->is_int()) {
    return Dims{attribute->as_int()};
  }
  if (attribute != nullptr) {
    if (auto ints = attribute->AsInts())
      return Dims(ints->begin(), ints->end());
  }
  return AttrError(op, name, "a list of integers");
}

absl::StatusOr<Dims> PerDimAttr(const Op& op, llvm::StringRef name, int count) {
  TP_ASSIGN_OR_RETURN(Dims values, IntsAttr(op, name));
  if (values.size() == 1) return Dims(count, values[0]);
  if (static_cast<int>(values.size()) != count) {
    return OpError(op, name.str() + " must have one value per spatial dim");
  }
  return values;
}

absl::StatusOr<Dims> PerDimAttrOr(const Op& op, llvm::StringRef name, int count,
                                  const Dims& otherwise) {
  if (IsNone(op, name)) return otherwise;
  const Attribute* attribute = op.attribute(name);
  if (attribute->is_list() && attribute->as_list().empty()) return otherwise;
  return PerDimAttr(op, name, count);
}

absl::StatusOr<bool> BoolAttrOr(const Op& op, llvm::StringRef name,
                                bool otherwise) {
  if (IsNone(op, name)) return otherwise;
  const Attribute* attribute = op.attribute(name);
  if (!attribute->is_bool()) return AttrError(op, name, "true or false");
  return attribute->as_bool();
}

absl::StatusOr<DType> DTypeAttrOr(const Op& op, llvm::StringRef name,
                                  DType otherwise) {
  if (IsNone(op, name)) return otherwise;
  const Attribute* attribute = op.attribute(name);
  if (!attribute->is_dtype()) return AttrError(op, name, "a dtype");
  return attribute->as_dtype();
}

absl::StatusOr<int> WrapDim(const Op& op, int64_t dim, int ndim) {
  int64_t range = std::max(ndim, 1);
  if (dim < -range || dim >= range) {
    return OpError(
        op, absl::StrCat("dim ", dim, " is out of range for ", ndim, " dims"));
  }
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

absl::StatusOr<int> DimAttr(const Op& op, llvm::StringRef name, int ndim) {
  TP_ASSIGN_OR_RETURN(int64_t dim, ConstIntAttr(op, name));
  return WrapDim(op, dim, ndim);
}

absl::StatusOr<int> DimAttrOr(const Op& op, llvm::StringRef name, int ndim,
                              int64_t otherwise) {
  TP_ASSIGN_OR_RETURN(int64_t dim, ConstIntAttrOr(op, name, otherwise));
  return WrapDim(op, dim, ndim);
}

absl::StatusOr<std::vector<int>> DimsAttr(const Op& op, llvm::StringRef name,
                                          int ndim, bool empty_is_all) {
  Dims values;
  bool all = IsNone(op, name);
  if (!all) {
    TP_ASSIGN_OR_RETURN(values, IntsAttr(op, name));
    all = values.empty() && empty_is_all;
  }
  std::vector<int> dims;
  if (all) {
    for (int i = 0; i < ndim; ++i) dims.push_back(i);
    return dims;
  }
  for (const SymExpr& value : values) {
    std::optional<int64_t> constant = value.AsConstant();
    if (!constant) return AttrError(op, name, "constant dims");
    TP_ASSIGN_OR_RETURN(int dim, WrapDim(op, *constant, ndim));
    if (ndim == 0) continue;
    if (llvm::is_contained(dims, dim)) {
      return OpError(op, absl::StrCat("dim ", dim, " is named twice"));
    }
    dims.push_back(dim);
  }
  std::sort(dims.begin(), dims.end());
  return dims;
}

absl::StatusOr<SymExpr> SameSize(const Op& op, Assumptions& assumptions,
                                 const SymExpr& a, const SymExpr& b,
                                 std::string_view what) {
  if (a == b) return a;
  bool same = false;
  if (!a.is_constant() || !b.is_constant()) {
    TP_ASSIGN_OR_RETURN(
        same,
        assumptions.Decide(a, Relation::kEq, b,
                           absl::StrCat(op.name(), ": ", std::string(what)),
                           op.location()));
  }
  if (!same) {
    return OpError(op, absl::StrCat(std::string(what), ": ", a.ToString(),
                                    " and ", b.ToString(), " differ"));
  }
  return a.is_constant() ? a : b.is_constant() ? b : a;
}

absl::StatusOr<Dims> Broadcast(const Op& op, Assumptions& assumptions,
                               llvm::ArrayRef<SymExpr> a,
                               llvm::ArrayRef<SymExpr> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Dims result(a.begin(), a.end());
  size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    SymExpr& left = result[shift + i];
    const SymExpr& right = b[i];
    if (left == right || right == SymExpr(1)) continue;
    if (left == SymExpr(1)) {
      left = right;
      continue;
    }
    TP_ASSIGN_OR_RETURN(left, SameSize(op, assumptions, left, right,
                                       "sizes that must broadcast"));
  }
  return result;
}

absl::StatusOr<Dims> BroadcastOperands(const Op& op, Assumptions& assumptions,
                                       int first) {
  Dims result;
  for (int i = first; i < op.num_operands(); ++i) {
    const TensorType* type = TypeOrNull(op, i);
    if (type == nullptr) continue;
    TP_ASSIGN_OR_RETURN(result, Broadcast(op, assumptions, result, type->dims));
  }
  return result;
}

absl::Status RequireBroadcastTo(const Op& op, Assumptions& assumptions,
                                llvm::ArrayRef<SymExpr> inner,
                                llvm::ArrayRef<SymExpr> outer) {
  if (inner.size() > outer.size()) {
    return OpError(op, absl::StrCat(inner.size(), " dims do not broadcast to ",
                                    outer.size()));
  }
  size_t shift = outer.size() - inner.size();
  for (size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] == SymExpr(1)) continue;
    TP_RETURN_IF_ERROR(SameSize(op, assumptions, inner[i], outer[shift + i],
                                "a size that must broadcast")
                           .status());
  }
  return absl::OkStatus();
}

namespace {

void Join(std::optional<DType>& into, DType dtype) {
  into = into ? Promote(*into, dtype) : dtype;
}

std::optional<DType> Combine(std::optional<DType> higher,
                             std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || IsFloatingPoint(*higher)) return higher;
  if (*higher == DType::kBool || IsFloatingPoint(*lower)) {
    return Promote(*higher, *lower);
  }
  return higher;
}

}  // namespace

void DTypePromotion::AddTensor(const TensorType& type) {
  Join(type.ndim() == 0 ? zero_dim_ : dim_, type.dtype);
}

void DTypePromotion::AddScalar(const Attribute& attribute) {
  if (attribute.is_none()) return;
  Join(scalar_, ScalarDType(attribute));
}

DType DTypePromotion::Result() const {
  return Combine(dim_, Combine(zero_dim_, scalar_)).value_or(DType::kF32);
}

DType PromotedDType(const Op& op, int first, bool scalars) {
  DTypePromotion promotion;
  for (int i = first; i < op.num_operands(); ++i) {
    if (const TensorType* type = TypeOrNull(op, i)) promotion.AddTensor(*type);
  }
  if (scalars) {
    for (const char* name : {"self", "other", "exponent", "min", "max"}) {
      if (!IsNone(op, name)) promotion.AddScalar(*op.attribute(name));
    }
  }
  return promotion.Result();
}

DType ScalarDType(const Attribute& attribute) {
  if (attribute.is_bool()) return DType::kBool;
  return attribute.is_int() ? DType::kI64 : DType::kF32;
}

bool IsZero(const Attribute* attribute) {
  if (attribute == nullptr) return false;
  if (attribute->is_bool()) return !attribute->as_bool();
  if (attribute->is_int()) return attribute->as_int() == SymExpr(0);
  return attribute->is_float() && attribute->as_float() == 0.0;
}

SymExpr CeilDiv(const SymExpr& a, const SymExpr& b) {
  if (b == SymExpr(1)) return a;
  if (std::optional<SymExpr> exact = ExactDiv(a, b)) return *exact;
  return FloorDiv(a + b - SymExpr(1), b);
}

SymExpr Product(llvm::ArrayRef<SymExpr> dims) {
  SymExpr product = 1;
  for (const SymExpr& dim : dims) product = product * dim;
  return product;
}

SymExpr LocalFactorSize(const LocalizeContext& context) {
  const DimFactor& within = context.sharding.within;
  return within.left *
         ShardExtentOf(within.size, context.axis_size, context.coordinate)
             .extent *
         within.right;
}

Types SameAsOperand0(const Op& op, Assumptions&) {
  TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, 0));
  return std::vector<TensorType>{type};
}

bool PartialSurvivesCast(DType from, DType to) {
  if (from == to) return true;
  return IsFloatingPoint(from) && IsFloatingPoint(to) &&
         ByteSize(to) > ByteSize(from);
}

OpDef Row(std::string name, std::string rule, std::string partial,
          ShapeFn shape) {
  OpDef row;
  row.name = std::move(name);
  row.rule = std::move(rule);
  row.partial = std::move(partial);
  row.shape = shape;
  return row;
}

void SetNotations(OpRows& rows,
                  llvm::ArrayRef<std::pair<const char*, const char*>> texts) {
  for (const auto& [name, text] : texts) {
    auto row = llvm::find_if(
        rows, [name = name](const OpDef& def) { return def.name == name; });
    TP_CHECK(row != rows.end(), std::string("there is no row ") + name);
    row->rule = text;
  }
}

OpDef Row(std::string name, RuleFn rule, ShapeFn shape) {
  OpDef row;
  row.name = std::move(name);
  row.rule_fn = rule;
  row.shape = shape;
  return row;
}

}  // namespace tp
