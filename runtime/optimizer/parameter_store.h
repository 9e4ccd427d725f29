// Parameters as optimizers compute with them: in f32 (f64 ones in f64), kept
// or rounded back after each step.
#ifndef TP_RUNTIME_OPTIMIZER_PARAMETER_STORE_H_
#define TP_RUNTIME_OPTIMIZER_PARAMETER_STORE_H_

#include <vector>

#include "runtime/optimizer/optimizer.h"

namespace tp {

class ParameterStore {
 public:
  ParameterStore(const OptimizerOptions& options,
                 std::vector<TrainableParameter> parameters);

  int size() const { return static_cast<int>(parameters_.size()); }
  const TrainableParameter& parameter(int i) const { return parameters_[i]; }
  // How the parameter lies on the mesh.
  const ShardingSpec& spec(int i) const { return parameters_[i].spec; }
  std::vector<int64_t> whole_sizes(int i) const;
  int64_t whole_numel(int i) const;

  at::ScalarType math_dtype(int i) const;
  // The value to update in place; Store writes it back.
  at::Tensor Load(int i) const;
  void Store(int i, const at::Tensor& updated, int64_t step);
  // The gradient in the dtype of the math.
  at::Tensor Gradient(int i, const at::Tensor& gradient) const {
    return gradient.to(math_dtype(i));
  }
  // A state of the parameter's own sizes, zero.
  at::Tensor Zeros(int i) const;
  OptimizerState StateOf(int i, const char* name, at::Tensor value) const;
  // The f32 copies, where there are any.
  void AddMasters(std::vector<OptimizerState>& states) const;

 private:
  void RoundByChance(int i, const at::Tensor& updated, int64_t step);

  bool stochastic_rounding_ = false;
  uint64_t seed_ = 0;
  std::vector<TrainableParameter> parameters_;
  std::vector<at::Tensor> masters_;  // undefined where there is none
};

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_PARAMETER_STORE_H_
