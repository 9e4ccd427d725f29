// The unsharded model, run by LibTorch: what --verify compares with.
#ifndef TP_FRONTEND_REFERENCE_MODEL_H_
#define TP_FRONTEND_REFERENCE_MODEL_H_

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tp {

struct ReferenceOptions {
  // Computes in f64: weights, constants and inputs of floating point are
  // converted, and conversions in the code to f16, bf16 and f32 give f64.
  bool f64 = false;
  // Scalar arguments, "sr" -> "16000".
  std::vector<std::pair<std::string, std::string>> arguments;
  std::string method = "forward";
  std::vector<std::string> allow_ops;
};

struct ReferenceGradients {
  std::vector<at::Tensor> outputs;
  // Of output_0, by the first name of each trainable parameter; a tied one
  // once, with the sum over all its names. Left out: those it does not
  // depend on.
  std::vector<std::pair<std::string, at::Tensor>> gradients;
};

// Not thread-safe.
class ReferenceModel {
 public:
  // The errors of CheckArchive, and InvalidArgument where LibTorch cannot
  // load the file.
  static absl::StatusOr<std::unique_ptr<ReferenceModel>> Load(
      const std::string& path, const ReferenceOptions& options = {});

  // Inputs by argument name or as input_<position>; entries output_* are
  // ignored. Outputs are the tensors and numbers in the result, depth first,
  // on the CPU. InvalidArgument: an input is missing, or the model fails.
  absl::StatusOr<std::vector<at::Tensor>> Run(
      const std::vector<std::pair<std::string, at::Tensor>>& inputs);
  // The inputs as the last call left them, under each of their names.
  const std::vector<std::pair<std::string, at::Tensor>>& inputs() const {
    return inputs_;
  }
  // A tensor that the model holds, by its dotted name, undefined if there is
  // none. Writing to it changes the model.
  at::Tensor Attribute(const std::string& name) const;
  // Also differentiates output_0, which must be one number.
  absl::StatusOr<ReferenceGradients> RunWithGradients(
      const std::vector<std::pair<std::string, at::Tensor>>& inputs);

 private:
  ReferenceModel(torch::jit::Module module, ReferenceOptions options)
      : module_(std::move(module)), options_(std::move(options)) {}
  void FindParameters();
  absl::StatusOr<std::vector<at::Tensor>> Call(
      const std::vector<std::pair<std::string, at::Tensor>>& inputs);

  torch::jit::Module module_;
  // Names of trainable parameters, tied ones together.
  std::vector<std::vector<std::string>> parameters_;
  ReferenceOptions options_;
  std::vector<std::pair<std::string, at::Tensor>> inputs_;
};

}  // namespace tp

#endif  // TP_FRONTEND_REFERENCE_MODEL_H_
