// Parameters split on two axes of a mesh follow one device.
#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "ir/shard_block.h"
#include "ir/status.h"
#include "runtime/optimizer/gradient_clip.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/rank_group.h"

namespace tp {
namespace {

struct MeshCase {
  std::vector<int64_t> sizes;
  std::string first;  // on the first axis
  std::string second;
};

const MeshCase kCases[] = {{{7}, "R", "R"},
                           {{9}, "S(0)", "R"},
                           {{9}, "R", "S(0)"},
                           {{8, 6}, "S(0)", "S(1)"},
                           {{5, 7}, "S(1)", "S(0)"},
                           {{24, 5}, "S(0:2x[4]x3)", "R"},
                           {{6, 5}, "R", "S(1)"},
                           {{3, 6, 8}, "S(2:[4]x2)", "S(1)"},
                           {{4, 5, 6}, "S(0)", "S(2)"}};
constexpr size_t kNumCases = std::size(kCases);
constexpr int kSteps = 4;

at::Tensor Random(const std::vector<int64_t>& sizes, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::dtype(at::kDouble));
}

at::Tensor PartOf(at::Tensor whole, const std::vector<DimIntervals>& block) {
  for (size_t dim = 0; dim < block.size(); ++dim) {
    std::vector<at::Tensor> parts;
    for (const Interval& part : block[dim])
      parts.push_back(
          whole.narrow(static_cast<int64_t>(dim), part.start, part.extent));
    whole = at::cat(parts, static_cast<int64_t>(dim));
  }
  return whole.clone();
}

TrainableParameter ParameterOf(size_t i, const Mesh& mesh, int rank,
                               at::ScalarType dtype) {
  TrainableParameter parameter;
  parameter.name = absl::StrCat("p", i);
  for (int64_t size : kCases[i].sizes)
    parameter.type.dims.push_back(SymExpr(size));
  for (const std::string& text : {kCases[i].first, kCases[i].second}) {
    auto placement = ParsePlacement(text, parameter.type.dims);
    EXPECT_TRUE(placement.ok()) << placement.status();
    parameter.spec.push_back(*placement);
  }
  auto block = BlockOf(kCases[i].sizes, parameter.spec, mesh, rank);
  EXPECT_TRUE(block.ok()) << block.status();
  parameter.block = *block;
  parameter.value = PartOf(Random(kCases[i].sizes, i).to(dtype), *block);
  return parameter;
}

struct Trained {
  std::vector<std::vector<TrainableParameter>> parameters;  // by rank
  std::vector<double> norms;                                // by rank
};

Trained Train(const OptimizerOptions& options, const Mesh& mesh,
              at::ScalarType dtype) {
  Trained run;
  run.parameters.resize(mesh.num_ranks());
  run.norms.resize(mesh.num_ranks());
  auto group = RankGroup::Create(mesh, {.threads = 1});
  EXPECT_TRUE(group.ok()) << group.status();
  const absl::Status status = (*group)->Run([&](int rank) -> absl::Status {
    at::NoGradGuard no_grad;
    std::vector<TrainableParameter>& parameters = run.parameters[rank];
    for (size_t i = 0; i < kNumCases; ++i)
      parameters.push_back(ParameterOf(i, mesh, rank, dtype));
    TP_ASSIGN_OR_RETURN(auto optimizer, MakeOptimizer(options, parameters,
                                                      (*group)->axes(rank)));
    for (int step = 1; step <= kSteps; ++step) {
      std::vector<at::Tensor> gradients;
      for (size_t i = 0; i < kNumCases; ++i) {
        const at::Tensor whole = Random(kCases[i].sizes, 100 * step + i);
        gradients.push_back(
            PartOf(whole * whole.abs(), parameters[i].block).to(dtype));
      }
      if (step == 2) gradients[3].reset();
      TP_ASSIGN_OR_RETURN(
          run.norms[rank],
          GlobalGradNorm(parameters, gradients, (*group)->axes(rank)));
      TP_RETURN_IF_ERROR(optimizer->Step(step, 0.05, gradients));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return run;
}

const Mesh& OneRank() {
  static const auto* const mesh = new Mesh({{"a", 1}, {"b", 1}});
  return *mesh;
}

TEST(OptimizerMeshTest, TwoAxesFollowOneDevice) {
  for (const char* name : {"sgd", "adamw", "adafactor"}) {
    OptimizerOptions options;
    options.name = name;
    options.momentum = 0.9;
    const Trained one = Train(options, OneRank(), at::kDouble);
    for (const Mesh& mesh :
         {Mesh({{"a", 2}, {"b", 2}}), Mesh({{"a", 2}, {"b", 3}}),
          Mesh({{"a", 3}, {"b", 1}})}) {
      const Trained run = Train(options, mesh, at::kDouble);
      for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
        EXPECT_EQ(run.norms[rank], run.norms[0]);
        EXPECT_NEAR(run.norms[rank], one.norms[0], 1e-12 * one.norms[0]);
        for (size_t i = 0; i < kNumCases; ++i) {
          const TrainableParameter& got = run.parameters[rank][i];
          const at::Tensor want = PartOf(one.parameters[0][i].value, got.block);
          EXPECT_TRUE(at::allclose(got.value, want, 1e-12, 1e-12))
              << name << ", " << mesh.ToString() << ", rank " << rank << ", "
              << got.name;
        }
      }
    }
  }
}

// The same choices on every mesh: elements are numbered in the whole tensor.
TEST(OptimizerMeshTest, RoundingByChanceDoesNotDependOnTheMesh) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    OptimizerOptions options;
    options.name = "sgd";
    options.stochastic_rounding = true;
    options.seed = 3;
    const Trained one = Train(options, OneRank(), dtype);
    const Mesh mesh({{"a", 2}, {"b", 3}});
    const Trained run = Train(options, mesh, dtype);
    for (int rank = 0; rank < mesh.num_ranks(); ++rank)
      for (size_t i = 0; i < kNumCases; ++i) {
        const TrainableParameter& got = run.parameters[rank][i];
        EXPECT_TRUE(
            at::equal(got.value, PartOf(one.parameters[0][i].value, got.block)))
            << mesh.ToString() << ", rank " << rank << ", " << got.name;
      }
  }
}

}  // namespace
}  // namespace tp
