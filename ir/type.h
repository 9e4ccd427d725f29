// Types of values. Every value of the IR is a tensor: sizes are expressions,
// other scalars are attributes, and an integer that depends on data is a
// 0-dim tensor.
#ifndef TP_IR_TYPE_H_
#define TP_IR_TYPE_H_

#include <string>

#include "ir/dtype.h"
#include "ir/sym_expr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace tp {

using Dims = llvm::SmallVector<SymExpr, 4>;

// Prints as f32[batch,seq,96]; a 0-dim tensor as f32[].
struct TensorType {
  DType dtype = DType::kF32;
  Dims dims;

  int ndim() const { return static_cast<int>(dims.size()); }
  SymExpr num_elements() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

std::string ToString(const TensorType& type);

// Values of the dims for given symbols.
absl::StatusOr<llvm::SmallVector<int64_t, 4>> EvaluateDims(
    llvm::ArrayRef<SymExpr> dims, const SymbolValues& values);

}  // namespace tp

#endif  // TP_IR_TYPE_H_
