// Any split of the parameters gives what one device gives. That one device is
// right is for tests/e2e/optimizer_reference_test.py.
#include "runtime/optimizer/optimizer.h"

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/status.h"
#include "tests/torch_unit/optimizer_ranks.h"

namespace tp {
namespace {

using ::testing::HasSubstr;
using testing::LocalPart;
using testing::OnRanks;
using testing::ParameterCase;
using testing::ParameterOf;
using testing::PlacementOf;
using testing::WholeOf;

constexpr int kSteps = 5;

// Even, uneven, boxed and, with more ranks than indices, empty parts.
const std::vector<ParameterCase>& Cases() {
  static const auto* const cases =
      new std::vector<ParameterCase>{{"scalar", {}, "R"},
                                     {"norm", {7}, "R"},
                                     {"norm.split", {7}, "S(0)"},
                                     {"bias.one", {1}, "S(0)"},
                                     {"weight", {6, 5}, "R"},
                                     {"up", {12, 5}, "S(0)"},
                                     {"down", {5, 11}, "S(1)"},
                                     {"narrow", {2, 6}, "S(0)"},
                                     {"one.column", {6, 1}, "S(1)"},
                                     {"qkv", {5, 288}, "S(1:3x[8]x12)"},
                                     {"qkv.rows", {30, 4}, "S(0:3x[5]x2)"},
                                     {"heads", {4, 6}, "S(0:[2]x2)"},
                                     {"experts", {3, 4, 5}, "S(0)"},
                                     {"experts.up", {2, 7, 5}, "S(1)"},
                                     {"experts.down", {2, 3, 5}, "S(2)"},
                                     {"conv", {6, 4, 3, 2}, "S(0)"},
                                     {"conv.in", {6, 5, 3, 2}, "S(1)"}};
  return *cases;
}

struct TrainedWeights {
  std::vector<at::Tensor> values;  // whole
  std::vector<std::pair<std::string, at::Tensor>> states;
};

at::Tensor Random(const std::vector<int64_t>& sizes, uint64_t seed,
                  at::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::dtype(at::kDouble)).to(dtype);
}

TrainedWeights Train(const OptimizerOptions& options, int ranks,
                     at::ScalarType dtype, double lr,
                     const std::vector<ParameterCase>& cases = Cases()) {
  const size_t count = cases.size();
  std::vector<std::vector<at::Tensor>> parts(count,
                                             std::vector<at::Tensor>(ranks));
  std::vector<std::vector<OptimizerState>> states(ranks);
  OnRanks(ranks, [&](int rank, Communicator* axis) -> absl::Status {
    std::vector<TrainableParameter> parameters;
    for (size_t i = 0; i < count; ++i) {
      parameters.push_back(
          ParameterOf(cases[i], Random(cases[i].sizes, i, dtype), ranks, rank));
      parts[i][rank] = parameters[i].value;
    }
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                        MakeOptimizer(options, parameters, {axis}));
    for (int step = 1; step <= kSteps; ++step) {
      std::vector<at::Tensor> gradients(count);
      for (size_t i = 0; i < count; ++i) {
        if (step == 3 && i % 4 == 1) continue;  // no gradient this time
        // Rows and columns of different sizes, and different from rank to
        // rank.
        at::Tensor whole = Random(cases[i].sizes, 1000 * step + i, at::kDouble);
        for (int64_t dim = 0; dim < whole.dim(); ++dim) {
          std::vector<int64_t> sizes(whole.dim(), 1);
          sizes[dim] = whole.size(dim);
          whole =
              whole *
              at::linspace(0.2, 3, whole.size(dim), at::kDouble).reshape(sizes);
        }
        gradients[i] =
            LocalPart(whole.to(dtype), PlacementOf(cases[i]), ranks, rank);
      }
      TP_RETURN_IF_ERROR(optimizer->Step(step, lr, gradients));
    }
    states[rank] = optimizer->State();
    return absl::OkStatus();
  });
  TrainedWeights run;
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(cases[i].name);
    run.values.push_back(
        WholeOf(parts[i], PlacementOf(cases[i]), cases[i].sizes));
  }
  for (size_t s = 0; s < states[0].size(); ++s) {
    const OptimizerState& state = states[0][s];
    SCOPED_TRACE(cases[state.parameter].name + " " + state.name);
    if (state.spec[0].is_partial()) continue;  // as many as ranks
    std::vector<at::Tensor> pieces;
    for (int rank = 0; rank < ranks; ++rank) {
      pieces.push_back(states[rank][s].value);
    }
    run.states.emplace_back(cases[state.parameter].name + " " + state.name,
                            WholeOf(pieces, state.spec[0], state.sizes));
  }
  return run;
}

// The largest difference, relative to the largest number of each tensor.
double Difference(const at::Tensor& got, const at::Tensor& want) {
  EXPECT_EQ(got.sizes(), want.sizes());
  const double size = want.abs().max().item<double>();
  return (got - want).abs().max().item<double>() / std::max(size, 1e-30);
}

void ExpectEqualToOneDevice(const OptimizerOptions& options,
                            at::ScalarType dtype, double tolerance) {
  const TrainedWeights one = Train(options, 1, dtype, 0.05);
  for (int ranks : {2, 3, 4}) {
    const TrainedWeights run = Train(options, ranks, dtype, 0.05);
    for (size_t i = 0; i < Cases().size(); ++i) {
      EXPECT_LE(Difference(run.values[i], one.values[i]), tolerance)
          << options.name << ", " << ranks << " ranks, " << Cases()[i].name;
    }
    ASSERT_EQ(run.states.size(), one.states.size());
    for (size_t s = 0; s < one.states.size(); ++s) {
      EXPECT_EQ(run.states[s].first, one.states[s].first);
      EXPECT_LE(Difference(run.states[s].second, one.states[s].second),
                tolerance)
          << options.name << ", " << ranks << " ranks, " << one.states[s].first;
    }
  }
}

OptimizerOptions Named(const char* name) {
  OptimizerOptions options;
  options.name = name;
  options.weight_decay = 0.1;
  options.no_decay = {"bias", "^norm"};
  options.momentum = 0.9;
  return options;
}

TEST(OptimizerTest, SplitParametersFollowOneDevice) {
  for (const char* name : {"sgd", "adamw", "adafactor"}) {
    ExpectEqualToOneDevice(Named(name), at::kFloat, 1e-6);
    ExpectEqualToOneDevice(Named(name), at::kDouble, 1e-12);
  }
}

TEST(OptimizerTest, PerShardAdafactorDoesNot) {
  OptimizerOptions options = Named("adafactor");
  const TrainedWeights one = Train(options, 1, at::kDouble, 0.05);
  options.per_shard = true;
  for (int ranks : {2, 3}) {
    const TrainedWeights run = Train(options, ranks, at::kDouble, 0.05);
    for (size_t i = 0; i < Cases().size(); ++i) {
      const Placement placement = PlacementOf(Cases()[i]);
      EXPECT_TRUE(at::isfinite(run.values[i]).all().item<bool>());
      // One index cannot be split; copies see the whole tensor.
      const bool same =
          !placement.is_shard() || placement.factor().size.constant() == 1;
      const double difference = Difference(run.values[i], one.values[i]);
      if (same) {
        EXPECT_LE(difference, 1e-12) << Cases()[i].name;
      } else {
        EXPECT_GE(difference, 1e-4) << Cases()[i].name;
      }
    }
  }
}

TEST(OptimizerTest, StateLiesAsItsParameterDoes) {
  OnRanks(2, [&](int rank, Communicator* axis) -> absl::Status {
    std::vector<TrainableParameter> parameters;
    for (const ParameterCase& one : Cases()) {
      parameters.push_back(
          ParameterOf(one, at::zeros(one.sizes), /*ranks=*/2, rank));
    }
    TP_ASSIGN_OR_RETURN(auto optimizer,
                        MakeOptimizer(Named("adafactor"), parameters, {axis}));
    const std::vector<std::pair<std::string, std::string>> wanted = {
        {"norm.split square", "S(0)"},
        {"up row", "S(0)"},
        {"up col", "R"},
        {"down row", "R"},
        {"down col", "S(0)"},
        {"qkv row", "R"},
        {"qkv col", "S(0:3x[8]x12)"},
        {"qkv.rows row", "S(0:3x[5]x2)"},
        {"experts row", "S(0)"},
        {"experts col", "S(0)"},
        {"experts.up row", "S(1)"},
        {"experts.up col", "R"},
        {"experts.down row", "R"},
        {"experts.down col", "S(1)"},
        {"conv.in row", "S(1)"},
        {"conv.in col", "S(1)"},
        {"weight row", "R"}};
    size_t found = 0;
    for (const OptimizerState& state : optimizer->State()) {
      const std::string name = Cases()[state.parameter].name + " " + state.name;
      for (const auto& [key, placement] : wanted) {
        if (key != name) continue;
        ++found;
        EXPECT_EQ(state.spec[0].ToString(), placement) << name;
      }
    }
    EXPECT_EQ(found, wanted.size());
    return absl::OkStatus();
  });
}

// The same choices whatever the number of ranks is, and right on average.
TEST(OptimizerTest, RoundingByChanceIsFairAndTheSameAtAnyNumberOfRanks) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    OptimizerOptions options;
    options.name = "sgd";
    options.stochastic_rounding = true;
    options.seed = 7;
    const TrainedWeights one = Train(options, 1, dtype, 0.01);
    for (int ranks : {2, 3, 4}) {
      const TrainedWeights run = Train(options, ranks, dtype, 0.01);
      for (size_t i = 0; i < Cases().size(); ++i) {
        EXPECT_TRUE(at::equal(run.values[i], one.values[i])) << Cases()[i].name;
      }
    }
    options.seed = 8;
    EXPECT_FALSE(
        at::equal(Train(options, 1, dtype, 0.01).values[9], one.values[9]));

    // An eighth of what would be lost by rounding to nearest; at 1 and in
    // the denormals of f16.
    for (const double start : {1.0, -1.0, std::ldexp(1.0, -20)}) {
      at::Tensor value = at::full({200000}, start, dtype);
      const double spacing = dtype == at::kHalf
                                 ? (std::abs(start) == 1 ? std::ldexp(1.0, -10)
                                                         : std::ldexp(1.0, -24))
                                 : std::abs(start) * std::ldexp(1.0, -7);
      OnRanks(1, [&](int, Communicator* axis) -> absl::Status {
        TrainableParameter parameter =
            ParameterOf({"x", {200000}, "R"}, value, 1, 0);
        const at::Tensor updated = parameter.value;
        TP_ASSIGN_OR_RETURN(auto optimizer,
                            MakeOptimizer(options, {parameter}, {axis}));
        TP_RETURN_IF_ERROR(optimizer->Step(
            1, spacing / 8, {at::full({200000}, -1.0, at::kFloat)}));
        const double moved =
            (updated.to(at::kDouble) - start).mean().item<double>() / spacing;
        EXPECT_NEAR(moved, 0.125, 0.005) << dtype << " at " << start;
        return absl::OkStatus();
      });
    }
  }
}

TEST(OptimizerTest, MasterWeightsKeepWhatRoundingLoses) {
  for (bool master : {false, true}) {
    OptimizerOptions options;
    options.name = "sgd";
    options.master_weights = master;
    OnRanks(1, [&](int, Communicator* axis) -> absl::Status {
      TrainableParameter parameter =
          ParameterOf({"x", {4}, "R"}, at::ones({4}, at::kBFloat16), 1, 0);
      const at::Tensor value = parameter.value;
      TP_ASSIGN_OR_RETURN(auto optimizer,
                          MakeOptimizer(options, {parameter}, {axis}));
      for (int step = 1; step <= 100; ++step) {
        TP_RETURN_IF_ERROR(
            optimizer->Step(step, 1e-3, {at::ones({4}, at::kBFloat16)}));
      }
      EXPECT_NEAR(value[0].item<float>(), master ? 0.9 : 1.0, 2e-3);
      EXPECT_EQ(optimizer->State().size(), master ? 1U : 0U);
      return absl::OkStatus();
    });
  }
}

TEST(OptimizerTest, BadOptionsAreErrors) {
  OnRanks(1, [&](int, Communicator* axis) -> absl::Status {
    OptimizerOptions options;
    options.name = "adam";
    auto unknown = MakeOptimizer(options, {}, {axis});
    EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(unknown.status().message()),
                HasSubstr("adafactor, adamw, sgd"));
    options.name = "sgd";
    options.no_decay = {"("};
    auto bad = MakeOptimizer(options, {}, {axis});
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace tp
