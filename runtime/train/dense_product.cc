#include "runtime/train/dense_product.h"

#include <torch/csrc/autograd/custom_function.h>

#include "runtime/packed_linear.h"

namespace tp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// a [m, k] times b^T, b [n, k]; both may be transposed views. Of another
// layout of b (rows of a wider matrix) oneDNN has but its reference
// implementation, a thousand times slower.
at::Tensor Multiply(const at::Tensor& a, const at::Tensor& b,
                    const at::Tensor& bias = at::Tensor()) {
  const bool dense = b.is_contiguous() || b.t().is_contiguous();
  return PackedLinear(a, dense ? b : b.contiguous(), bias);
}

at::Tensor Rows(const at::Tensor& tensor) {
  return tensor.reshape({-1, tensor.size(-1)});
}

struct Product : public torch::autograd::Function<Product> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            bool transposed) {
    context->save_for_backward({x, weight});
    context->saved_data["transposed"] = transposed;
    context->saved_data["bias"] = bias.has_value();
    return Multiply(x, transposed ? weight.t() : weight,
                    bias.value_or(at::Tensor()));
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const bool transposed = context->saved_data["transposed"].toBool();
    // Rows of zero stride (the gradient of a sum) are no matrix to oneDNN.
    const at::Tensor gradient = gradients[0].contiguous();
    variable_list results(4);
    if (context->needs_input_grad(0)) {
      results[0] = Multiply(gradient, transposed ? weight : weight.t());
    }
    if (context->needs_input_grad(1)) {
      const at::Tensor rows = Rows(gradient);
      const at::Tensor inputs = Rows(x);
      results[1] = transposed ? Multiply(inputs.t(), rows.t())
                              : Multiply(rows.t(), inputs.t());
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) {
      results[2] = Rows(gradient).sum(0);
    }
    return results;
  }
};

}  // namespace

bool HasDenseProduct(const at::Tensor& x, const at::Tensor& weight) {
  return weight.scalar_type() == at::kFloat && x.scalar_type() == at::kFloat &&
         x.dim() >= 2 && x.numel() > 0 && CanPackWeight(weight);
}

at::Tensor DenseProduct(const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& bias, bool transposed) {
  return Product::apply(
      x, weight,
      bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt,
      transposed);
}

}  // namespace tp
