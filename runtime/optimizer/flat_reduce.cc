#include "runtime/optimizer/flat_reduce.h"

#include "ir/status.h"

namespace tp {
namespace {

absl::Status SumOfType(std::vector<at::Tensor*>& tensors, Communicator* axis,
                       const char* what, at::ScalarType dtype) {
  int64_t count = 0;
  for (const at::Tensor* tensor : tensors) {
    if (tensor->scalar_type() == dtype) count += tensor->numel();
  }
  if (count == 0) return absl::OkStatus();
  at::Tensor flat = at::empty({count}, at::dtype(dtype));
  int64_t at = 0;
  for (const at::Tensor* tensor : tensors) {
    if (tensor->scalar_type() != dtype) continue;
    flat.narrow(0, at, tensor->numel()).copy_(tensor->reshape({-1}));
    at += tensor->numel();
  }
  CallSite site;
  site.op = what;
  TP_RETURN_IF_ERROR(axis->AllReduce(
      flat.data_ptr(), flat.data_ptr(), count,
      dtype == at::kDouble ? DType::kF64 : DType::kF32, ReduceOp::kSum, site));
  at = 0;
  for (at::Tensor* tensor : tensors) {
    if (tensor->scalar_type() != dtype) continue;
    *tensor = flat.narrow(0, at, tensor->numel()).view(tensor->sizes());
    at += tensor->numel();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SumOverRanks(std::vector<at::Tensor*>& tensors, Communicator* axis,
                          const char* what) {
  if (axis->size() == 1) return absl::OkStatus();
  TP_RETURN_IF_ERROR(SumOfType(tensors, axis, what, at::kFloat));
  return SumOfType(tensors, axis, what, at::kDouble);
}

absl::Status SumOverAxes(
    llvm::ArrayRef<at::Tensor*> tensors, llvm::ArrayRef<Communicator*> axes,
    llvm::function_ref<bool(size_t tensor, size_t axis)> is_split,
    const char* what) {
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<at::Tensor*> shared;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i]->defined() && is_split(i, axis)) {
        shared.push_back(tensors[i]);
      }
    }
    TP_RETURN_IF_ERROR(SumOverRanks(shared, axes[axis], what));
  }
  return absl::OkStatus();
}

}  // namespace tp
