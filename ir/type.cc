#include "ir/type.h"

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

SymExpr TensorType::num_elements() const {
  SymExpr product = 1;
  for (const SymExpr& dim : dims) product = product * dim;
  return product;
}

std::string ToString(const TensorType& type) {
  std::string text(Name(type.dtype));
  text += "[";
  for (size_t i = 0; i < type.dims.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ",", type.dims[i].ToString());
  return text + "]";
}

absl::StatusOr<llvm::SmallVector<int64_t, 4>> EvaluateDims(
    llvm::ArrayRef<SymExpr> dims, const SymbolValues& values) {
  llvm::SmallVector<int64_t, 4> result;
  for (const SymExpr& dim : dims) {
    TP_ASSIGN_OR_RETURN(int64_t size, dim.Evaluate(values));
    if (size < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("the size ", dim.ToString(), " is ", size,
                       " for these inputs; a size cannot be negative"));
    result.push_back(size);
  }
  return result;
}

}  // namespace tp
