#include "runtime/packed_linear.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <utility>
#include <vector>

#include "ir/mapped_file.h"

namespace tp {
namespace {

// Layouts hardly depend on the number of rows [measured: 16 rows and more
// give the same one, and it is also the fastest for one row].
constexpr int64_t kRowsHint = 128;
// Below, the product is over before a better layout pays.
constexpr int64_t kMinElements = 64 * 64;

struct Operators {
  std::optional<c10::OperatorHandle> reorder;
  std::optional<c10::OperatorHandle> linear;
};

// LibTorch builds without oneDNN lack them.
const Operators& Find() {
  static const Operators operators = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    return Operators{
        dispatcher.findSchema({"mkldnn::_reorder_linear_weight", ""}),
        dispatcher.findSchema({"mkldnn::_linear_pointwise", ""})};
  }();
  return operators;
}

bool HasInstructionsFor(at::ScalarType type) {
#if defined(__x86_64__)
  if (type == at::kBFloat16) return __builtin_cpu_supports("avx512bw");
  return __builtin_cpu_supports("avx2");
#else
  static_cast<void>(type);
  return false;
#endif
}

}  // namespace

bool CanPackWeight(const at::Tensor& weight) {
  const at::ScalarType type = weight.scalar_type();
  return (type == at::kFloat || type == at::kBFloat16) &&
         weight.device().is_cpu() && weight.dim() == 2 &&
         weight.numel() >= kMinElements && at::globalContext().hasMKLDNN() &&
         Find().reorder && Find().linear && HasInstructionsFor(type);
}

at::Tensor PackWeight(const at::Tensor& weight, bool transposed) {
  PopulatePages(weight.const_data_ptr(), weight.nbytes());
  c10::Stack stack;
  stack.emplace_back(transposed ? weight.t().contiguous()
                                : weight.contiguous());
  stack.emplace_back(kRowsHint);
  Find().reorder->callBoxed(stack);
  return std::move(stack[0]).toTensor();
}

at::Tensor PackedLinear(const at::Tensor& x, const at::Tensor& packed,
                        const at::Tensor& bias,
                        const LinearEpilogue& epilogue) {
  if (x.dim() == 1) {
    return PackedLinear(x.unsqueeze(0), packed, bias, epilogue).squeeze(0);
  }
  if (x.numel() == 0) {
    std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
    sizes.back() = packed.size(0);
    return at::empty(sizes, x.options());
  }
  c10::Stack stack;
  stack.reserve(6);
  stack.emplace_back(x);
  stack.emplace_back(packed);
  stack.push_back(bias.defined() ? c10::IValue(bias) : c10::IValue());
  stack.emplace_back(epilogue.function);
  stack.emplace_back(c10::List<std::optional<at::Scalar>>());
  stack.emplace_back(epilogue.approximate);
  Find().linear->callBoxed(stack);
  return std::move(stack[0]).toTensor();
}

}  // namespace tp
