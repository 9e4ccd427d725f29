// Times packages for a driver that compares several programs in turn: obeys
// commands on standard input, one JSON answer line ("@@ {...}") each.
//
//   check CASE          first run, against the expected outputs
//                       -> {"first_output": unix seconds, "error": ...}
//   forward CASE N      N timed runs after one untimed -> {"ms": [...]}
//   train CASE          the losses of three SGD steps against the expected ones
//                       -> {"error": of how far two steps moved the loss}
//   step CASE N         N timed steps after one untimed -> {"ms": [...]}
//   collectives CASE forward  -> {"counts": {...}, "bytes": n} of rank 0
//   memory              -> {"peak_mb": [...], "now_mb": [...]}
//   quit
//
// PACKAGES/CASE is the package of a case, PACKAGES/CASE.train the one made
// with --train; WORK/MODEL/CASE.inputs.safetensors
// and .outputs.safetensors its tensors. One package is open at a time.
#include <ATen/ATen.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/session.h"
#include "runtime/tensor_io.h"
#include "runtime/train/train_session.h"
#include "tools/command_line.h"
#include "tools/compare_outputs.h"

namespace tp {
namespace {

namespace json = llvm::json;

struct Options {
  std::string work;
  std::string model;
  std::string packages;
  double lr = 0.02;  // of training steps
  SessionOptions session;
};

// A number of megabytes in /proc/self/status; 0 where it is not there.
int64_t Megabytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) != 0) continue;
    return std::stoll(line.substr(key.size() + 1)) / 1024;
  }
  return 0;
}

class Worker {
 public:
  explicit Worker(Options options) : options_(std::move(options)) {}

  absl::StatusOr<json::Object> Obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::string name;
    words >> command >> name;
    if (command == "memory") {
      return json::Object{{"peak_mb", json::Array{Megabytes("VmHWM")}},
                          {"now_mb", json::Array{Megabytes("VmRSS")}}};
    }
    if (command == "train" || command == "step") {
      int count = 1;
      words >> count;
      TP_RETURN_IF_ERROR(OpenForTraining(name, command == "train"));
      return command == "train" ? Train(name) : Steps(count);
    }
    if (command == "check" || command == "forward" ||
        command == "collectives") {
      TP_RETURN_IF_ERROR(Open(name));
      if (command == "check") return Check(name);
      if (command == "collectives") return Collectives();
      int count = 1;
      words >> count;
      return Forward(count);
    }
    return absl::UnimplementedError(
        absl::StrCat("'", command, "' is not there"));
  }

 private:
  std::string File(const std::string& name, const char* kind) const {
    return absl::StrCat(options_.work, "/", options_.model, "/", name, ".",
                        kind, ".safetensors");
  }

  absl::Status Open(const std::string& name) {
    if (name == open_) return absl::OkStatus();
    Close();
    TP_ASSIGN_OR_RETURN(
        session_, Session::Open(absl::StrCat(options_.packages, "/", name),
                                options_.session));
    TP_ASSIGN_OR_RETURN(inputs_, ReadTensors(File(name, "inputs")));
    // Packages know their inputs by the arguments' names.
    const auto& declared = session_->inputs();
    if (declared.size() != inputs_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has ", inputs_.size(), " inputs, its package ",
                       declared.size()));
    }
    open_ = name;
    return absl::OkStatus();
  }

  void Close() {
    open_.clear();
    session_.reset();
    training_.reset();
    malloc_trim(0);
  }

  absl::Status OpenForTraining(const std::string& name, bool anew) {
    const std::string key = absl::StrCat(name, ".train");
    if (key == open_ && !anew) return absl::OkStatus();
    Close();
    TrainOptions options;
    options.group = options_.session.group;
    TP_ASSIGN_OR_RETURN(
        training_,
        TrainSession::Open(absl::StrCat(options_.packages, "/", key), options));
    TP_ASSIGN_OR_RETURN(inputs_, ReadTensors(File(name, "inputs")));
    open_ = key;
    return absl::OkStatus();
  }

  // One step of SGD; returns the loss before it.
  absl::StatusOr<double> Step() {
    TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs,
                        training_->ForwardBackward(inputs_));
    TP_RETURN_IF_ERROR(training_->FinishGradients());
    TP_RETURN_IF_ERROR(training_->OnRanks([this](int, RankTraining& training) {
      for (size_t i = 0; i < training.parameters.size(); ++i) {
        at::Tensor& gradient = training.gradients[i];
        if (!gradient.defined()) continue;
        training.parameters[i].value.add_(gradient, -options_.lr);
        gradient.reset();
      }
      return absl::OkStatus();
    }));
    return outputs[0].to(at::kDouble).item<double>();
  }

  absl::StatusOr<json::Object> Train(const std::string& name) {
    TP_ASSIGN_OR_RETURN(NamedTensors expected,
                        ReadTensors(File(name, "outputs")));
    for (const auto& [key, tensor] : expected) {
      if (key != "losses") continue;
      const at::Tensor losses = tensor.to(at::kDouble).contiguous();
      double error = 0;
      for (int64_t i = 0; i < losses.numel(); ++i) {
        TP_ASSIGN_OR_RETURN(double loss, Step());
        error = std::max(error, std::abs(loss - losses[i].item<double>()));
      }
      const double moved = std::abs(losses[0].item<double>() -
                                    losses[losses.numel() - 1].item<double>());
      return json::Object{{"error", error / moved}};
    }
    return absl::InvalidArgumentError(
        absl::StrCat(File(name, "outputs"), " has no losses"));
  }

  absl::StatusOr<json::Object> Steps(int count) {
    json::Array times;
    for (int i = -1; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      TP_RETURN_IF_ERROR(Step().status());
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      if (i >= 0) times.push_back(took.count());
    }
    malloc_trim(0);
    return json::Object{{"ms", std::move(times)}};
  }

  absl::StatusOr<json::Object> Check(const std::string& name) {
    TP_ASSIGN_OR_RETURN(std::vector<at::Tensor> outputs,
                        session_->Run(inputs_));
    const double now = std::chrono::duration<double>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
    TP_ASSIGN_OR_RETURN(NamedTensors expected,
                        ReadTensors(File(name, "outputs")));
    double error = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      for (const auto& [key, tensor] : expected) {
        if (key != absl::StrCat("output_", i)) continue;
        const Difference difference = Compare(outputs[i], tensor);
        if (!difference.comparable) {
          return absl::InternalError(
              absl::StrCat(key, ": ", difference.why_not));
        }
        error = std::max(error, difference.relative);
      }
    }
    return json::Object{{"first_output", now}, {"error", error}};
  }

  absl::StatusOr<json::Object> Forward(int count) {
    json::Array times;
    for (int i = -1; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      TP_RETURN_IF_ERROR(session_->Run(inputs_).status());
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      if (i >= 0) times.push_back(took.count());
    }
    // Other programs wait in memory beside this one.
    malloc_trim(0);
    return json::Object{{"ms", std::move(times)}};
  }

  absl::StatusOr<json::Object> Collectives() {
    CallReport report;
    report.measure = true;
    TP_RETURN_IF_ERROR(session_->Run(inputs_, &report).status());
    const std::vector<RankTimes>& times = report.times;
    return json::Object{
        {"counts", json::Object{{"collectives", times[0].collectives}}},
        {"bytes", times[0].collective_bytes}};
  }

  const Options options_;
  std::string open_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<TrainSession> training_;
  NamedTensors inputs_;
};

int Main(int argc, char** argv) {
  Options options;
  options.session.group.threads = 1;
  CommandLine line;
  line.String("--work", &options.work);
  line.String("--model", &options.model);
  line.String("--packages", &options.packages);
  line.Double("--lr", &options.lr);
  line.Int("--threads", &options.session.group.threads);
  std::vector<std::string> positional;
  if (absl::Status status = line.Parse(argc, argv, positional);
      !status.ok() || options.work.empty() || options.packages.empty()) {
    std::cerr << "tp-bench-worker --work WORK --model MODEL --packages DIR "
                 "[--threads N] [--lr LR]\n";
    return static_cast<int>(ExitCode::kUsage);
  }
  Worker worker(std::move(options));
  for (std::string command; std::getline(std::cin, command);) {
    if (command == "quit") break;
    absl::StatusOr<json::Object> reply = absl::InternalError("nothing ran");
    try {
      reply = worker.Obey(command);
    } catch (const std::exception& error) {
      reply = absl::InternalError(error.what());
    }
    if (!reply.ok()) {
      reply = json::Object{{"failed", std::string(reply.status().message())}};
    }
    llvm::outs() << "@@ " << json::Value(*std::move(reply)) << "\n";
    llvm::outs().flush();
  }
  return 0;
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) { return tp::Main(argc, argv); }
