// Lets a script run optimizers and schedules: what
// optimizer_reference_test.py compares with PyTorch.
//
//   optimizer_steps train IN OUT LR NAME [KEY=NUMBER]...
//     IN holds parameters "p.NAME" and gradients "g.STEP.NAME", STEP from 1;
//     OUT gets the parameters after the last step.
//   optimizer_steps schedule NAME WARMUP TOTAL STEPS    a factor per line
//   optimizer_steps clip IN OUT MAX    clips "g.1.NAME", prints the norm
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ir/status.h"
#include "runtime/comm/threads_communicator.h"
#include "runtime/optimizer/gradient_clip.h"
#include "runtime/optimizer/lr_schedule.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/tensor_io.h"

namespace tp {
namespace {

struct Data {
  std::vector<TrainableParameter> parameters;
  std::vector<std::vector<at::Tensor>> gradients;  // by step
};

absl::StatusOr<Data> Read(const std::string& path) {
  TP_ASSIGN_OR_RETURN(NamedTensors tensors, ReadTensors(path));
  Data data;
  for (const auto& [name, tensor] : tensors) {
    if (!absl::StartsWith(name, "p.")) continue;
    TrainableParameter parameter;
    parameter.name = name.substr(2);
    parameter.value = tensor.clone();
    for (int64_t size : tensor.sizes()) {
      parameter.type.dims.push_back(SymExpr(size));
    }
    parameter.spec = {Placement::Replicate()};
    parameter.block = WholeBlock(tensor.sizes().vec());
    data.parameters.push_back(std::move(parameter));
  }
  for (int step = 1;; ++step) {
    std::vector<at::Tensor> gradients(data.parameters.size());
    bool any = false;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const std::string wanted =
          absl::StrCat("g.", step, ".", data.parameters[i].name);
      for (const auto& [name, tensor] : tensors) {
        if (name != wanted) continue;
        gradients[i] = tensor.clone();
        any = true;
      }
    }
    if (!any) return data;
    data.gradients.push_back(std::move(gradients));
  }
}

absl::StatusOr<OptimizerOptions> OptionsOf(int argc, char** argv) {
  OptimizerOptions options;
  options.name = argv[0];
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> pair = absl::StrSplit(argv[i], '=');
    double number = 0;
    if (pair.size() != 2) return absl::InvalidArgumentError(argv[i]);
    if (pair[0] == "no_decay") {
      options.no_decay.push_back(pair[1]);
      continue;
    }
    if (!absl::SimpleAtod(pair[1], &number)) {
      return absl::InvalidArgumentError(argv[i]);
    }
    if (pair[0] == "weight_decay") {
      options.weight_decay = number;
    } else if (pair[0] == "momentum") {
      options.momentum = number;
    } else if (pair[0] == "nesterov") {
      options.nesterov = number != 0;
    } else if (pair[0] == "beta1") {
      options.beta1 = number;
    } else if (pair[0] == "beta2") {
      options.beta2 = number;
    } else if (pair[0] == "eps") {
      options.eps = number;
    } else if (pair[0] == "clip_threshold") {
      options.clip_threshold = number;
    } else if (pair[0] == "decay_rate") {
      options.decay_rate = number;
    } else {
      return absl::InvalidArgumentError(argv[i]);
    }
  }
  return options;
}

absl::Status Main(int argc, char** argv) {
  at::NoGradGuard no_grad;
  const std::string what = argc > 1 ? argv[1] : "";
  TP_ASSIGN_OR_RETURN(auto ranks, MakeThreadsCommunicators(1, {}));
  if (what == "train" && argc >= 6) {
    TP_ASSIGN_OR_RETURN(Data data, Read(argv[2]));
    TP_ASSIGN_OR_RETURN(OptimizerOptions options,
                        OptionsOf(argc - 5, argv + 5));
    TP_ASSIGN_OR_RETURN(auto optimizer, MakeOptimizer(options, data.parameters,
                                                      {ranks[0].get()}));
    int64_t step = 0;
    for (const auto& gradients : data.gradients) {
      TP_RETURN_IF_ERROR(
          optimizer->Step(++step, std::atof(argv[4]), gradients));
    }
    NamedTensors out;
    for (const TrainableParameter& one : data.parameters) {
      out.emplace_back(one.name, one.value);
    }
    return WriteTensors(argv[3], out);
  }
  if (what == "clip" && argc == 5) {
    TP_ASSIGN_OR_RETURN(Data data, Read(argv[2]));
    TP_ASSIGN_OR_RETURN(
        double norm,
        GlobalGradNorm(data.parameters, data.gradients.at(0), ranks[0].get()));
    ClipGradients(data.gradients[0], norm, std::atof(argv[4]));
    std::printf("%.17g\n", norm);
    NamedTensors out;
    for (size_t i = 0; i < data.parameters.size(); ++i) {
      out.emplace_back(data.parameters[i].name, data.gradients[0][i]);
    }
    return WriteTensors(argv[3], out);
  }
  if (what == "schedule" && argc == 6) {
    LrScheduleOptions options;
    options.name = argv[2];
    options.warmup = std::atoll(argv[3]);
    options.total = std::atoll(argv[4]);
    TP_RETURN_IF_ERROR(CheckLrSchedule(options));
    for (int64_t step = 1; step <= std::atoll(argv[5]); ++step) {
      std::printf("%.17g\n", LrFactor(options, step));
    }
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("see the head of optimizer_steps.cc");
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  const absl::Status status = tp::Main(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
