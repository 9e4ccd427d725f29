#include "runtime/optimizer/optimizer.h"

#include <regex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "runtime/optimizer/families.h"

namespace tp {
namespace {

struct OptimizerRow {
  const char* name;
  OptimizerMaker make;
  double weight_decay;  // where the user says nothing
};

constexpr OptimizerRow kRows[] = {
    {"adafactor", &MakeAdafactor, 0},
    {"adamw", &MakeAdamW, 0.01},
    {"sgd", &MakeSgd, 0},
};

absl::StatusOr<std::vector<double>> DecayOf(
    const OptimizerOptions& options, double otherwise,
    const std::vector<TrainableParameter>& parameters) {
  std::vector<std::regex> without;
  for (const std::string& pattern : options.no_decay) {
    try {
      without.emplace_back(pattern);
    } catch (const std::regex_error& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", pattern, "' is no regular expression: ", error.what()));
    }
  }
  std::vector<double> decay;
  for (const TrainableParameter& parameter : parameters) {
    double own = options.weight_decay < 0 ? otherwise : options.weight_decay;
    for (const std::regex& pattern : without) {
      if (std::regex_search(parameter.name, pattern)) own = 0;
    }
    decay.push_back(own);
  }
  return decay;
}

}  // namespace

std::string OptimizerNames() {
  return absl::StrJoin(kRows, ", ",
                       [](std::string* out, const OptimizerRow& row) {
                         absl::StrAppend(out, row.name);
                       });
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const OptimizerOptions& options, std::vector<TrainableParameter> parameters,
    std::vector<Communicator*> axes) {
  for (const OptimizerRow& row : kRows) {
    if (options.name != row.name) continue;
    TP_ASSIGN_OR_RETURN(std::vector<double> decay,
                        DecayOf(options, row.weight_decay, parameters));
    return row.make(options, ParameterStore(options, std::move(parameters)),
                    std::move(decay), std::move(axes));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no optimizer '", options.name,
                   "'; the optimizers are ", OptimizerNames()));
}

}  // namespace tp
