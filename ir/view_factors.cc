// Factors of a view, by peeling equal leading and trailing parts.
//
// In row-major order the leading index of a dim of size 12 = (3 4) is the
// leading index of every shape of the same elements that starts with 3. So
// from the front: equal sizes are one shared factor; if one divides the
// other, the smaller is a factor of both and the quotient goes on. From the
// back likewise. [b, 6, 4] -> [2*b, 12]: b | b, then 2 | 6, 3 | 12, 4.
//
// [6, 4, s] -> [8, 3, s] has nothing to peel in front, s behind; 6, 4, 8, 3
// stay whole. Where running products meet, a new group starts, so that such
// a knot does not spoil what lies between it and another one.

#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/sharding_rule.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

// What is left of the dims of one side of a group.
struct Side {
  TensorFactors* factors = nullptr;                  // of the whole tensor
  llvm::SmallVector<int, 4> dims;                    // those not used up
  llvm::SmallVector<SymExpr, 4> sizes;               // what is left of them
  llvm::SmallVector<std::pair<int, int>, 4> behind;  // (dim, factor)
};

// A divisor of both sizes: the greatest where they are constants, else the
// smaller of the two if it divides the other.
SymExpr CommonPart(const SymExpr& a, const SymExpr& b) {
  if (a.is_constant() && b.is_constant())
    return std::gcd(a.constant(), b.constant());
  if (ExactDiv(b, a)) return a;
  if (ExactDiv(a, b)) return b;
  return 1;
}

class ViewFactorer {
 public:
  ViewFactorer(llvm::ArrayRef<SymExpr> from, llvm::ArrayRef<SymExpr> to)
      : from_(from), to_(to) {
    result_.from.resize(from.size());
    result_.to.resize(to.size());
  }

  ViewFactors Run() && {
    auto is_empty = [](const SymExpr& size) { return size == 0; };
    if (llvm::any_of(from_, is_empty) || llvm::any_of(to_, is_empty)) {
      Side from = MakeSide(from_, result_.from, 0, from_.size());
      Side to = MakeSide(to_, result_.to, 0, to_.size());
      Finish(from);
      Finish(to);
      return std::move(result_);
    }
    size_t i = 0;
    size_t j = 0;
    while (i < from_.size() || j < to_.size()) {
      const auto [i_end, j_end] = GroupEnd(i, j);
      Side from = MakeSide(from_, result_.from, i, i_end);
      Side to = MakeSide(to_, result_.to, j, j_end);
      Peel(from, to, /*front=*/true);
      Peel(from, to, /*front=*/false);
      Finish(from);
      Finish(to);
      i = i_end;
      j = j_end;
    }
    return std::move(result_);
  }

 private:
  // The first place where the products from here on meet again, or the end.
  std::pair<size_t, size_t> GroupEnd(size_t i, size_t j) const {
    SymExpr left = 1;
    for (size_t p = i; p < from_.size(); ++p) {
      left = left * from_[p];
      if (left == 1) continue;
      SymExpr right = 1;
      for (size_t q = j; q < to_.size(); ++q) {
        right = right * to_[q];
        if (left == right) return {p + 1, q + 1};
      }
    }
    return {from_.size(), to_.size()};
  }

  static Side MakeSide(llvm::ArrayRef<SymExpr> dims, TensorFactors& factors,
                       size_t begin, size_t end) {
    Side side;
    side.factors = &factors;
    for (size_t i = begin; i < end; ++i) {
      if (dims[i] == 1) continue;
      side.dims.push_back(static_cast<int>(i));
      side.sizes.push_back(dims[i]);
    }
    return side;
  }

  int AddFactor(llvm::StringRef prefix, const SymExpr& size, FactorKind kind) {
    const int id = static_cast<int>(result_.factors.size());
    result_.factors.push_back(
        {absl::StrCat(prefix.str(), id), size, kind, ReduceKind::kSum});
    return id;
  }

  // Gives the outermost dim of the side the factor and leaves the quotient.
  static void Take(Side& side, int factor, SymExpr quotient, bool front) {
    const size_t index = front ? 0 : side.dims.size() - 1;
    if (front)
      (*side.factors)[side.dims[index]].push_back(factor);
    else
      side.behind.push_back({side.dims[index], factor});
    if (quotient == 1) {
      side.dims.erase(side.dims.begin() + index);
      side.sizes.erase(side.sizes.begin() + index);
    } else {
      side.sizes[index] = std::move(quotient);
    }
  }

  void Peel(Side& from, Side& to, bool front) {
    while (!from.dims.empty() && !to.dims.empty()) {
      const SymExpr a = front ? from.sizes.front() : from.sizes.back();
      const SymExpr b = front ? to.sizes.front() : to.sizes.back();
      const SymExpr size = CommonPart(a, b);
      if (size == 1) return;
      const int factor = AddFactor("d", size, FactorKind::kPass);
      Take(from, factor, *ExactDiv(a, size), front);
      Take(to, factor, *ExactDiv(b, size), front);
    }
  }

  // What is left of each dim stays whole; then come the parts peeled from
  // the back, the last one first.
  void Finish(Side& side) {
    for (size_t i = 0; i < side.dims.size(); ++i)
      (*side.factors)[side.dims[i]].push_back(
          AddFactor("w", side.sizes[i], FactorKind::kWhole));
    for (const auto& [dim, factor] : llvm::reverse(side.behind))
      (*side.factors)[dim].push_back(factor);
  }

  llvm::ArrayRef<SymExpr> from_;
  llvm::ArrayRef<SymExpr> to_;
  ViewFactors result_;
};

}  // namespace

ViewFactors FactorView(llvm::ArrayRef<SymExpr> from,
                       llvm::ArrayRef<SymExpr> to) {
  return ViewFactorer(from, to).Run();
}

}  // namespace tp
