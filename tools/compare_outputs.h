// How far a package's outputs are from those of the unsharded model.
#ifndef TP_TOOLS_COMPARE_OUTPUTS_H_
#define TP_TOOLS_COMPARE_OUTPUTS_H_

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tp {

struct Difference {
  bool comparable = true;  // the same dtype and shape
  std::string why_not;
  double absolute = 0;  // largest difference
  double relative = 0;  // the same over the largest expected value
};

// Infinities and NaNs have to be at the same places; integers and booleans
// have to be equal.
inline Difference Compare(const at::Tensor& got, const at::Tensor& expected) {
  Difference difference;
  if (got.sizes() != expected.sizes()) {
    difference.comparable = false;
    difference.why_not = absl::StrCat(
        "shape [", absl::StrJoin(got.sizes(), ", "), "] instead of [",
        absl::StrJoin(expected.sizes(), ", "), "]");
    return difference;
  }
  if (got.scalar_type() != expected.scalar_type()) {
    difference.comparable = false;
    difference.why_not =
        absl::StrCat("dtype ", toString(got.scalar_type()), " instead of ",
                     toString(expected.scalar_type()));
    return difference;
  }
  if (got.numel() == 0) return difference;
  const at::Tensor a = got.to(at::kDouble);
  const at::Tensor b = expected.to(at::kDouble);
  const at::Tensor finite = at::isfinite(b);
  const at::Tensor same =
      a.eq(b).logical_or(at::isnan(a).logical_and(at::isnan(b)));
  if (!same.logical_or(finite.logical_and(at::isfinite(a)))
           .all()
           .item<bool>()) {
    difference.comparable = false;
    difference.why_not = "NaN or infinity at other places than expected";
    return difference;
  }
  const at::Tensor error =
      at::where(finite, (a - b).abs(), at::zeros({}, at::kDouble));
  difference.absolute = error.max().item<double>();
  const double largest = at::where(finite, b.abs(), at::zeros({}, at::kDouble))
                             .max()
                             .item<double>();
  difference.relative =
      largest > 0 ? difference.absolute / largest : difference.absolute;
  if (!at::isFloatingType(expected.scalar_type()) && difference.absolute != 0) {
    difference.comparable = false;
    difference.why_not = absl::StrFormat(
        "%d of %d integers differ", at::ne(got, expected).sum().item<int64_t>(),
        got.numel());
  }
  return difference;
}

// What rounding alone may do to a result of this dtype.
inline double DefaultTolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 1e-9;
    case at::kHalf:
      return 1e-2;
    case at::kBFloat16:
      return 5e-2;
    default:
      return 1e-4;
  }
}

}  // namespace tp

#endif  // TP_TOOLS_COMPARE_OUTPUTS_H_
