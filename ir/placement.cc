#include "ir/placement.h"

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

constexpr std::pair<ReduceKind, std::string_view> kReduceNames[] = {
    {ReduceKind::kSum, "sum"},
    {ReduceKind::kMax, "max"},
    {ReduceKind::kMin, "min"},
};

// A size between the separators of a box: bare if that cannot be misread.
std::string BoxSize(const SymExpr& size) {
  const bool bare =
      size.AsSymbol() || (size.is_constant() && size.constant() >= 0);
  return bare ? size.ToString() : absl::StrCat("(", size.ToString(), ")");
}

absl::Status PlacementError(llvm::StringRef text, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("placement '", text.str(), "': ", why));
}

// The size that the text is, after "x" (or before it) where there is one.
absl::StatusOr<SymExpr> ParseBoxSize(llvm::StringRef text) {
  TP_ASSIGN_OR_RETURN(SymExpr size, SymExpr::Parse(text));
  if (size.is_constant() && size.constant() < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("the size ", size.ToString(), " is negative"));
  return size;
}

// "3x[8]x12", "[8]x12", "3x[8]", "[8]".
absl::StatusOr<DimFactor> ParseBox(llvm::StringRef text) {
  const size_t open = text.find('[');
  const size_t close = text.rfind(']');
  if (open == llvm::StringRef::npos || close == llvm::StringRef::npos ||
      close < open)
    return absl::InvalidArgumentError(
        "a box is written [left]x[size]x[right] with only the size in "
        "brackets, as in 3x[8]x12");
  DimFactor factor;
  llvm::StringRef left = text.take_front(open).trim();
  llvm::StringRef right = text.drop_front(close + 1).trim();
  if (!left.empty()) {
    if (!left.consume_back("x"))
      return absl::InvalidArgumentError("expected 'x' before '['");
    TP_ASSIGN_OR_RETURN(factor.left, ParseBoxSize(left));
  }
  if (!right.empty()) {
    if (!right.consume_front("x"))
      return absl::InvalidArgumentError("expected 'x' after ']'");
    TP_ASSIGN_OR_RETURN(factor.right, ParseBoxSize(right));
  }
  TP_ASSIGN_OR_RETURN(factor.size, ParseBoxSize(text.slice(open + 1, close)));
  return factor;
}

}  // namespace

Placement Placement::Shard(int dim, DimFactor factor) {
  Placement placement;
  placement.kind_ = Kind::kShard;
  placement.dim_ = dim;
  placement.factor_ = std::move(factor);
  return placement;
}

Placement Placement::Shard(int dim, SymExpr dim_size) {
  return Shard(dim, DimFactor{1, std::move(dim_size), 1});
}

Placement Placement::Partial(ReduceKind reduce) {
  Placement placement;
  placement.kind_ = Kind::kPartial;
  placement.reduce_ = reduce;
  return placement;
}

std::string Placement::ToString() const {
  if (is_replicate()) return "R";
  if (is_partial()) return "P(" + std::string(Name(reduce_)) + ")";
  std::string text = absl::StrCat("S(", dim_);
  if (factor_.left != 1 || factor_.right != 1) {
    text += ":";
    if (factor_.left != 1) absl::StrAppend(&text, BoxSize(factor_.left), "x");
    absl::StrAppend(&text, "[", factor_.size.ToString(), "]");
    if (factor_.right != 1) absl::StrAppend(&text, "x", BoxSize(factor_.right));
  }
  return text + ")";
}

std::string_view Name(ReduceKind reduce) {
  return kReduceNames[static_cast<size_t>(reduce)].second;
}

std::optional<ReduceKind> ParseReduceKind(llvm::StringRef name) {
  for (const auto& [kind, kind_name] : kReduceNames)
    if (name == llvm::StringRef(kind_name)) return kind;
  return std::nullopt;
}

absl::StatusOr<Placement> ParsePlacement(llvm::StringRef text,
                                         llvm::ArrayRef<SymExpr> dims) {
  const llvm::StringRef whole = text.trim();
  llvm::StringRef rest = whole;
  if (rest == "R") return Placement::Replicate();
  if (rest == "P") return Placement::Partial();
  if (rest.consume_front("P(") && rest.consume_back(")")) {
    std::optional<ReduceKind> reduce = ParseReduceKind(rest.trim());
    if (!reduce) return PlacementError(whole, "a partial is a sum, max or min");
    return Placement::Partial(*reduce);
  }
  rest = whole;
  if (!rest.consume_front("S(") || !rest.consume_back(")"))
    return PlacementError(
        whole, "expected R, S(dim), S(dim:LEFTx[SIZE]xRIGHT) or P(sum)");
  const auto [dim_text, box_text] = rest.split(':');
  const int ndim = static_cast<int>(dims.size());
  int dim;
  if (dim_text.trim().getAsInteger(10, dim))
    return PlacementError(whole, "the dim must be an integer");
  if (dim < -ndim || dim >= ndim)
    return PlacementError(
        whole, absl::StrCat("there is no dim ", dim, " in a tensor of ", ndim,
                            ndim == 1 ? " dim" : " dims"));
  if (dim < 0) dim += ndim;
  if (!rest.contains(':')) return Placement::Shard(dim, dims[dim]);
  absl::StatusOr<DimFactor> factor = ParseBox(box_text);
  if (!factor.ok())
    return PlacementError(whole, std::string(factor.status().message()));
  if (factor->dim_size() != dims[dim])
    return PlacementError(
        whole, absl::StrCat("the box holds ", factor->dim_size().ToString(),
                            " indices, but dim ", dim, " has size ",
                            dims[dim].ToString()));
  return Placement::Shard(dim, *std::move(factor));
}

bool SameLayout(const Placement& a, const Placement& b, int64_t axis_size) {
  // One rank holds everything whatever the placement says.
  if (a == b || axis_size == 1) return true;
  if (!a.is_shard() || !b.is_shard() || a.dim() != b.dim()) return false;
  const DimFactor& x = a.factor();
  const DimFactor& y = b.factor();
  // With an equal left part, an even split cuts the rest of the dim at the
  // same places whatever its unit is.
  return x.left == y.left && x.size * x.right == y.size * y.right &&
         ExactDiv(x.size, axis_size) && ExactDiv(y.size, axis_size);
}

std::string ToString(llvm::ArrayRef<Placement> spec) {
  std::string text = "<";
  for (size_t i = 0; i < spec.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", spec[i].ToString());
  return text + ">";
}

std::ostream& operator<<(std::ostream& out, const Placement& placement) {
  return out << placement.ToString();
}

}  // namespace tp
