#include "tools/tp_run_grads.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "frontend/reference_model.h"
#include "ir/package_manifest.h"
#include "ir/status.h"
#include "runtime/model_inputs.h"
#include "tools/compare_outputs.h"

namespace tp {
namespace {

// Of a gradient over its largest element.
double GradientTolerance(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : DefaultTolerance(dtype);
}

double Largest(const at::Tensor& tensor) {
  return tensor.numel() == 0
             ? 0
             : tensor.to(at::kDouble).abs().max().item<double>();
}

// A gradient that is zero but for rounding (that of a key's bias) is not
// measured by its own size, but by this share of the model's largest.
constexpr double kNegligible = 1e-6;

// A gradient that is further from PyTorch's than the tolerance is right still
// if it is no further from the exact one than this times what PyTorch's are.
constexpr double kRoundingRatio = 2;

class Comparison {
 public:
  using Exact = std::function<absl::StatusOr<NamedTensors>()>;

  // `exact` computes the gradients in f64; called where rounding is in doubt.
  // `reference`: the unsharded model's gradients.
  Comparison(const GradientsRequest& request, const NamedTensors& reference,
             Exact exact)
      : request_(request), exact_(std::move(exact)), reference_(reference) {}

  // What is smaller is measured as if it were this large.
  void set_floor(double floor) { floor_ = floor; }

  void Add(const std::string& name, const at::Tensor& got,
           const at::Tensor& expected, double tolerance) {
    if (request_.tolerance > 0) tolerance = request_.tolerance;
    Difference difference = Compare(got, expected);
    if (difference.comparable && Largest(expected) < floor_)
      difference.relative = difference.absolute / floor_;
    const bool good = difference.comparable && difference.relative <= tolerance;
    ++count_;
    worst_ = std::max(worst_, difference.relative);
    if (!good && difference.comparable && IsRounding(name, got)) return;
    passed_ = passed_ && good;
    if (good) return;
    if (!difference.comparable)
      std::cout << name << "  " << difference.why_not << "  FAILED\n";
    else
      std::cout << absl::StrFormat(
          "%s  max abs error %.1e, rel %.1e, tolerance %.0e  FAILED\n", name,
          difference.absolute, difference.relative, tolerance);
  }
  void Missing(const std::string& name, const std::string& what) {
    passed_ = false;
    std::cout << name << "  " << what << "  FAILED\n";
  }
  bool Finish() const {
    if (!passed_)
      std::cout << "failed: gradients differ from the unsharded model's\n";
    else if (!request_.quiet)
      std::cout << absl::StrFormat(
          "verified: the loss and %d gradients equal the unsharded model's "
          "(max rel error %.1e)\n",
          count_ - 1, worst_);
    return passed_;
  }

 private:
  // Whether the gradient is as near to the exact one as those of the unsharded
  // model are to theirs.
  bool IsRounding(const std::string& name, const at::Tensor& got) {
    if (request_.session.f64 || got.scalar_type() != at::kFloat) return false;
    if (truth_.empty()) {
      absl::StatusOr<NamedTensors> exact = exact_();
      if (!exact.ok()) return false;
      truth_ = {exact->begin(), exact->end()};
      for (const auto& [key, tensor] : reference_)
        rounding_ = std::max(rounding_, ErrorOf(key, tensor));
    }
    const double error = ErrorOf(name, got);
    if (!(error <= kRoundingRatio * rounding_)) return false;
    std::cout << absl::StrFormat(
        "%s  rounding: %.1e from the gradient in f64 (those of the unsharded "
        "model: up to %.1e)\n",
        name, error, rounding_);
    return true;
  }

  double ErrorOf(const std::string& name, const at::Tensor& tensor) const {
    auto found = truth_.find(name);
    if (found == truth_.end()) return 0;
    return Compare(tensor.to(at::kDouble), found->second).absolute /
           std::max(Largest(found->second), floor_);
  }

  const GradientsRequest& request_;
  const Exact exact_;
  const NamedTensors& reference_;
  std::map<std::string, at::Tensor> truth_;
  double rounding_ = 0;  // of the unsharded model, at most
  int count_ = 0;
  double floor_ = 0;
  double worst_ = 0;
  bool passed_ = true;
};

absl::StatusOr<bool> CompareGradients(const GradientsRequest& request,
                                      const NamedTensors& inputs,
                                      llvm::ArrayRef<ModelArgument> arguments,
                                      const at::Tensor& loss,
                                      const NamedTensors& gradients) {
  ReferenceOptions options;
  options.f64 = request.session.f64;
  options.arguments = CompiledIn(arguments);
  options.allow_ops = request.allow_ops;
  TP_ASSIGN_OR_RETURN(std::unique_ptr<ReferenceModel> model,
                      ReferenceModel::Load(request.model, options));
  TP_ASSIGN_OR_RETURN(ReferenceGradients reference,
                      model->RunWithGradients(inputs));
  Comparison comparison(
      request, reference.gradients, [&]() -> absl::StatusOr<NamedTensors> {
        ReferenceOptions exact = options;
        exact.f64 = true;
        TP_ASSIGN_OR_RETURN(std::unique_ptr<ReferenceModel> in_f64,
                            ReferenceModel::Load(request.model, exact));
        TP_ASSIGN_OR_RETURN(ReferenceGradients truth,
                            in_f64->RunWithGradients(inputs));
        return truth.gradients;
      });
  comparison.Add("output_0", loss, reference.outputs[0],
                 DefaultTolerance(loss.scalar_type()));
  double largest = 0;
  for (const auto& [name, expected] : reference.gradients)
    largest = std::max(largest, Largest(expected));
  comparison.set_floor(kNegligible * largest);
  std::map<std::string, at::Tensor> got(gradients.begin(), gradients.end());
  for (const auto& [name, expected] : reference.gradients) {
    auto found = got.find(name);
    if (found == got.end()) {
      comparison.Missing(name, "has no gradient");
      continue;
    }
    comparison.Add(name, found->second, expected,
                   GradientTolerance(expected.scalar_type()));
    got.erase(found);
  }
  // Parameters that the loss does not depend on have zeros or nothing.
  for (const auto& [name, tensor] : got)
    if (tensor.ne(0).any().item<bool>())
      comparison.Missing(name,
                         "has a gradient, the unsharded model gives none");
  return comparison.Finish();
}

}  // namespace

absl::StatusOr<bool> RunGradients(const GradientsRequest& request,
                                  const NamedTensors& given) {
  TP_ASSIGN_OR_RETURN(PackageManifest manifest,
                      PackageManifest::Read(request.package));
  const std::vector<ModelArgument> arguments = manifest.Arguments();
  TP_ASSIGN_OR_RETURN(NamedTensors inputs, ProgramInputs(arguments, given));
  TP_ASSIGN_OR_RETURN(std::unique_ptr<TrainSession> session,
                      TrainSession::Open(request.package, request.session));
  TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs,
                      session->ForwardBackward(inputs));
  TP_RETURN_IF_ERROR(session->FinishGradients());
  TP_ASSIGN_OR_RETURN(NamedTensors gradients, session->WholeGradients());
  if (!request.output.empty())
    TP_RETURN_IF_ERROR(WriteTensors(request.output, gradients));
  if (!request.model.empty())
    return CompareGradients(request, given, arguments, outputs[0], gradients);
  if (!request.quiet)
    std::cout << absl::StrFormat(
        "loss %.6f, %d gradients%s\n",
        outputs[0].to(at::kDouble).item<double>(), gradients.size(),
        request.output.empty() ? ""
                               : absl::StrCat(" written to ", request.output));
  return true;
}

}  // namespace tp
