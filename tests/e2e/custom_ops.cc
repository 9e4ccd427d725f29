// The library of operators that fallback_test.py gives to --load-library.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

namespace {

using at::Tensor;

// With a meta kernel and a gradient of its own.
Tensor Squash(const Tensor& x, double scale) { return (x * scale).tanh(); }

Tensor SquashMeta(const Tensor& x, double) { return at::empty_like(x); }

class SquashFunction : public torch::autograd::Function<SquashFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& x, double scale) {
    at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("tptest::squash", "")
                               .typed<Tensor(const Tensor&, double)>();
    Tensor y = op.call(x, scale);
    context->save_for_backward({y});
    context->saved_data["scale"] = scale;
    return y;
  }
  static std::vector<Tensor> backward(torch::autograd::AutogradContext* context,
                                      std::vector<Tensor> gradients) {
    const Tensor y = context->get_saved_variables()[0];
    const double scale = context->saved_data["scale"].toDouble();
    return {gradients[0] * (-(y * y) + 1) * scale, Tensor()};
  }
};

Tensor SquashAutograd(const Tensor& x, double scale) {
  return SquashFunction::apply(x, scale);
}

// No meta kernel: asked by a trial run. The sizes depend on an argument.
std::vector<Tensor> Halves(const Tensor& x, int64_t count) {
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < count; ++i)
    parts.push_back(x.narrow(1, 0, (x.size(1) + i) / 2).clone() * (i + 1));
  return parts;
}

// A tensor, a list and a number.
std::tuple<Tensor, std::vector<Tensor>, int64_t> Stats(
    const std::vector<Tensor>& tensors) {
  std::vector<Tensor> sums;
  for (const Tensor& tensor : tensors) sums.push_back(tensor.sum(-1));
  return {at::stack(sums), sums, static_cast<int64_t>(sums.size())};
}

Tensor& AddOneInPlace(Tensor& x) { return x.add_(1); }
Tensor AddOne(const Tensor& x) { return at::add(x, at::Scalar(1)); }
Tensor& OnlyInPlace(Tensor& x) { return x.mul_(2); }

Tensor Noise(const Tensor& x) { return at::rand_like(x); }
Tensor Positive(const Tensor& x) {
  return x.masked_select(at::gt(x, at::Scalar(0)));
}

}  // namespace

TORCH_LIBRARY(tptest, m) {
  m.def("squash(Tensor x, float scale=1.0) -> Tensor");
  m.def("halves(Tensor x, int count) -> Tensor[]");
  m.def("stats(Tensor[] tensors) -> (Tensor, Tensor[], int)");
  m.def("add_one_(Tensor(a!) x) -> Tensor(a!)");
  m.def("add_one(Tensor x) -> Tensor");
  m.def("only_in_place_(Tensor(a!) x) -> Tensor(a!)");
  m.def("noise(Tensor x) -> Tensor", {at::Tag::nondeterministic_seeded});
  m.def("positive(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(tptest, CPU, m) {
  m.impl("squash", Squash);
  m.impl("halves", Halves);
  m.impl("stats", Stats);
  m.impl("add_one_", AddOneInPlace);
  m.impl("add_one", AddOne);
  m.impl("only_in_place_", OnlyInPlace);
  m.impl("noise", Noise);
  m.impl("positive", Positive);
}

TORCH_LIBRARY_IMPL(tptest, Meta, m) { m.impl("squash", SquashMeta); }
TORCH_LIBRARY_IMPL(tptest, Autograd, m) { m.impl("squash", SquashAutograd); }
