// Adam with decoupled weight decay, as torch.optim.AdamW (Loshchilov and
// Hutter, "Decoupled Weight Decay Regularization").
#include <cmath>
#include <utility>

#include "runtime/optimizer/families.h"

namespace tp {
namespace {

class AdamW : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, ParameterStore store,
        std::vector<double> decay)
      : beta1_(options.beta1),
        beta2_(options.beta2),
        eps_(options.eps),
        store_(std::move(store)),
        decay_(std::move(decay)) {
    for (int i = 0; i < store_.size(); ++i) {
      mean_.push_back(store_.Zeros(i));
      square_.push_back(store_.Zeros(i));
    }
  }

  absl::Status Step(int64_t step, double lr,
                    llvm::ArrayRef<at::Tensor> gradients) override {
    const auto count = static_cast<double>(step);
    const double correction1 = 1 - std::pow(beta1_, count);
    const double correction2 = std::sqrt(1 - std::pow(beta2_, count));
    for (int i = 0; i < store_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      at::Tensor value = store_.Load(i);
      const at::Tensor gradient = store_.Gradient(i, gradients[i]);
      value.mul_(1 - lr * decay_[i]);
      mean_[i].lerp_(gradient, 1 - beta1_);
      square_[i].mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
      const at::Tensor scale = square_[i].sqrt().div_(correction2).add_(eps_);
      value.addcdiv_(mean_[i], scale, -lr / correction1);
      store_.Store(i, value, step);
    }
    return absl::OkStatus();
  }

  std::vector<OptimizerState> State() const override {
    std::vector<OptimizerState> states;
    for (int i = 0; i < store_.size(); ++i) {
      states.push_back(store_.StateOf(i, "exp_avg", mean_[i]));
      states.push_back(store_.StateOf(i, "exp_avg_sq", square_[i]));
    }
    store_.AddMasters(states);
    return states;
  }

 private:
  const double beta1_;
  const double beta2_;
  const double eps_;
  ParameterStore store_;
  const std::vector<double> decay_;
  std::vector<at::Tensor> mean_;
  std::vector<at::Tensor> square_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdamW(const OptimizerOptions& options,
                                     ParameterStore store,
                                     std::vector<double> decay, Communicator*) {
  return std::make_unique<AdamW>(options, std::move(store), std::move(decay));
}

}  // namespace tp
