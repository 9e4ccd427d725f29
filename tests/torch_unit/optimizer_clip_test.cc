// Gradient norms, clipping and loss scaling over ranks.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "ir/status.h"
#include "runtime/optimizer/gradient_clip.h"
#include "runtime/optimizer/loss_scale.h"
#include "runtime/optimizer/square_sum.h"
#include "tests/torch_unit/optimizer_ranks.h"

namespace tp {
namespace {

using testing::LocalPart;
using testing::OnRanks;
using testing::ParameterCase;
using testing::ParameterOf;
using testing::PlacementOf;

const ParameterCase kCases[] = {{"norm", {9}, "R"},
                                {"up", {7, 5}, "S(0)"},
                                {"qkv", {5, 36}, "S(1:3x[3]x4)"},
                                {"one", {1, 5}, "S(0)"},
                                {"frozen", {4}, "R"}};
constexpr size_t kFrozen = 4;

std::vector<at::Tensor> WholeGradients(at::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(5);
  std::vector<at::Tensor> gradients;
  for (const ParameterCase& one : kCases) {
    gradients.push_back(
        at::randn(one.sizes, generator, at::dtype(at::kDouble)).to(dtype));
  }
  gradients[kFrozen].reset();
  return gradients;
}

struct Local {
  std::vector<TrainableParameter> parameters;
  std::vector<at::Tensor> gradients;
};
Local LocalOf(const std::vector<at::Tensor>& whole, int ranks, int rank) {
  Local local;
  for (size_t i = 0; i < whole.size(); ++i) {
    local.parameters.push_back(
        ParameterOf(kCases[i], at::zeros(kCases[i].sizes), ranks, rank));
    local.gradients.push_back(
        whole[i].defined()
            ? LocalPart(whole[i], PlacementOf(kCases[i]), ranks, rank)
            : at::Tensor());
  }
  return local;
}

double NormOf(const std::vector<at::Tensor>& whole) {
  double sum = 0;
  for (const at::Tensor& one : whole) {
    if (one.defined()) sum += one.to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(sum);
}

TEST(OptimizerClipTest, CountsEachElementOnce) {
  for (at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const std::vector<at::Tensor> whole = WholeGradients(dtype);
    const double want = NormOf(whole);
    for (int ranks : {1, 2, 3, 4}) {
      std::vector<double> norms(ranks);
      OnRanks(ranks, [&](int rank, Communicator* axis) -> absl::Status {
        const Local local = LocalOf(whole, ranks, rank);
        TP_ASSIGN_OR_RETURN(norms[rank], GlobalGradNorm(local.parameters,
                                                        local.gradients, axis));
        return absl::OkStatus();
      });
      for (double norm : norms) {
        EXPECT_EQ(norm, norms[0]);
        EXPECT_NEAR(norm, want, 1e-13 * want) << ranks << " ranks";
      }
    }
  }
}

TEST(OptimizerClipTest, ScalesDownOnly) {
  std::vector<at::Tensor> gradients = WholeGradients(at::kDouble);
  const double norm = NormOf(gradients);
  ClipGradients(gradients, norm, 2 * norm);
  EXPECT_EQ(NormOf(gradients), norm);
  ClipGradients(gradients, norm, 0.5);
  EXPECT_NEAR(NormOf(gradients), 0.5 * norm / (norm + 1e-6), 1e-14);
}

TEST(OptimizerClipTest, SquareSumOfViewsAndOfNothing) {
  const at::Tensor x = at::arange(35, at::kFloat).reshape({5, 7});
  EXPECT_EQ(SquareSum(x), 34. * 35 * 69 / 6);
  EXPECT_EQ(SquareSum(x.t()), SquareSum(x));
  EXPECT_EQ(SquareSum(x.narrow(1, 2, 1)), 4 + 81 + 256 + 529 + 900);
  EXPECT_EQ(SquareSum(at::empty({0, 3})), 0);
  // Beyond what f32 holds.
  EXPECT_NEAR(SquareSum(at::full({2}, 1e30, at::kFloat)), 2e60, 1e54);
}

// One rank overflows in its part; nobody steps, and all go on alike.
TEST(OptimizerClipTest, OverflowOnOneRankIsSeenByAll) {
  for (double bad : {std::numeric_limits<double>::infinity(),
                     std::numeric_limits<double>::quiet_NaN()}) {
    for (int ranks : {1, 2, 3}) {
      std::vector<at::Tensor> whole = WholeGradients(at::kHalf);
      whole[1][6][4] = bad;
      OnRanks(ranks, [&](int rank, Communicator* axis) -> absl::Status {
        Local local = LocalOf(whole, ranks, rank);
        LossScale scale({.initial = 1024, .growth_interval = 2}, true);
        TP_ASSIGN_OR_RETURN(double norm, GlobalGradNorm(local.parameters,
                                                        local.gradients, axis));
        EXPECT_FALSE(scale.Update(std::isfinite(norm)));
        EXPECT_EQ(scale.scale(), 512);
        return absl::OkStatus();
      });
    }
  }
}

TEST(OptimizerClipTest, LossScaleGrowsAndShrinks) {
  LossScale scale({.initial = 65536, .growth_interval = 2}, true);
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.scale(), 65536);
  EXPECT_EQ(scale.good_steps(), 1);
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.scale(), 131072);
  EXPECT_EQ(scale.good_steps(), 0);
  // An overflow starts the count again.
  EXPECT_TRUE(scale.Update(true));
  EXPECT_FALSE(scale.Update(false));
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.scale(), 65536);
  scale.Restore(8, 1);
  EXPECT_TRUE(scale.Update(true));
  EXPECT_EQ(scale.scale(), 16);
  // Off where no parameter is f16, unless asked for.
  LossScale off({}, false);
  EXPECT_EQ(off.scale(), 1);
  EXPECT_TRUE(off.Update(false));
  LossScale fixed({.kind = LossScaleOptions::Kind::kFixed, .initial = 8},
                  false);
  EXPECT_FALSE(fixed.Update(false));
  EXPECT_EQ(fixed.scale(), 8);
}

}  // namespace
}  // namespace tp
