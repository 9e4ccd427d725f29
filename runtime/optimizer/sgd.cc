// Stochastic gradient descent with momentum, as torch.optim.SGD.
#include <utility>

#include "runtime/optimizer/families.h"

namespace tp {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, ParameterStore store,
      std::vector<double> decay)
      : momentum_(options.momentum),
        nesterov_(options.nesterov),
        store_(std::move(store)),
        decay_(std::move(decay)) {
    // A velocity of zero gives the first step torch takes, too.
    if (momentum_ == 0) return;
    for (int i = 0; i < store_.size(); ++i) {
      velocity_.push_back(store_.Zeros(i));
    }
  }

  absl::Status Step(int64_t step, double lr,
                    llvm::ArrayRef<at::Tensor> gradients) override {
    for (int i = 0; i < store_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const at::Tensor value = store_.Load(i);
      at::Tensor update = store_.Gradient(i, gradients[i]);
      if (decay_[i] != 0) update = update.add(value, decay_[i]);
      if (momentum_ != 0) {
        at::Tensor& velocity = velocity_[i];
        velocity.mul_(momentum_).add_(update);
        update = nesterov_ ? update.add(velocity, momentum_) : velocity;
      }
      store_.Store(i, value.add_(update, -lr), step);
    }
    return absl::OkStatus();
  }

  std::vector<OptimizerState> State() const override {
    std::vector<OptimizerState> states;
    for (size_t i = 0; i < velocity_.size(); ++i) {
      states.push_back(
          store_.StateOf(static_cast<int>(i), "momentum", velocity_[i]));
    }
    store_.AddMasters(states);
    return states;
  }

 private:
  const double momentum_;
  const bool nesterov_;
  ParameterStore store_;
  const std::vector<double> decay_;
  std::vector<at::Tensor> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const OptimizerOptions& options,
                                   ParameterStore store,
                                   std::vector<double> decay,
                                   std::vector<Communicator*>) {
  return std::make_unique<Sgd>(options, std::move(store), std::move(decay));
}

}  // namespace tp
