#include <ATen/ATen.h>

#include "absl/strings/substitute.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/torch_unit/rank_programs.h"

namespace tp {
namespace {

using ::testing::HasSubstr;
using testing::OpenText;
using testing::Part;
using testing::PartOf;

// Runs and gives the first output; an error fails the test.
at::Tensor RunOne(Session& session, const NamedTensors& inputs) {
  auto outputs = session.Run(inputs);
  if (!outputs.ok()) {
    ADD_FAILURE() << outputs.status();
    return at::zeros({});
  }
  return (*outputs)[0];
}

TEST(ExecutorTest, ArgumentsFollowTheSchema) {
  auto session = OpenText(1, [](int) {
    return R"(
func @forward(%x: f32[2,3]) -> (f32[2,3], f64[3,2], f32[2], i64[4]) {
  %0 = aten.add.Tensor(%x, %x) {alpha = 3} : f32[2,3]
  %1 = aten.clamp(%0) {min = 1.5} : f32[2,3]
  %2 = aten.permute(%x) {dims = [1, 0]} : f32[3,2]
  %3 = aten.to.dtype(%2) {dtype = f64} : f64[3,2]
  %4 = aten.sum.dim_IntList(%x) {dim = [1]} : f32[2]
  %5 = aten.arange.start_step(){start = 1, end = 9, step = 2} : i64[4]
  return %1, %3, %4, %5
}
)";
  });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({2, 3});
  auto outputs = (*session)->Run({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(at::equal((*outputs)[0], (4 * x).clamp_min(1.5)));
  EXPECT_TRUE(at::equal((*outputs)[1], x.t().to(at::kDouble)));
  EXPECT_TRUE(at::allclose((*outputs)[2], x.sum(1)));
  EXPECT_TRUE(at::equal((*outputs)[3], at::arange(1, 9, 2)));
}

TEST(ExecutorTest, OperandListsAndSeveralResults) {
  auto session = OpenText(1, [](int) {
    return R"(
func @forward(%x: f32[2,6], %i: i64[3]) -> (f32[2,6], f32[2,3], f32[2]) {
  %0:2 = aten.split.Tensor(%x) {split_size = 3, dim = 1} : f32[2,3], f32[2,3]
  %1 = aten.cat([%0#1, %0#0]) {dim = 1} : f32[2,6]
  %2 = aten.index.Tensor(%x, [none, %i]) : f32[2,3]
  %3:2 = aten.max.dim(%x) {dim = 1} : f32[2], i64[2]
  return %1, %2, %3#0
}
)";
  });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({2, 6});
  const at::Tensor i = at::tensor({5, 0, 0}, at::kLong);
  auto outputs = (*session)->Run({{"x", x}, {"i", i}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(at::equal((*outputs)[0], x.roll(3, 1)));
  EXPECT_TRUE(at::equal((*outputs)[1], x.index_select(1, i)));
  EXPECT_TRUE(at::equal((*outputs)[2], x.amax(1)));
}

TEST(ExecutorTest, SizesAreBoundOncePerShape) {
  auto session = OpenText(1, [](int) {
    return R"(symbol batch = 2 from "x":0
symbol seq = 3 from "x":1
func @forward(%x: f32[batch,seq]) -> (f32[batch*seq], i64[seq], i64[]) {
  %0 = aten.view(%x) {size = [batch*seq]} : f32[batch*seq]
  %1 = aten.arange() {end = seq} : i64[seq]
  %2 = tp.sym() {value = batch + seq} : i64[]
  return %0, %1, %2
}
)";
  });
  ASSERT_TRUE(session.ok()) << session.status();
  for (auto [batch, seq] : {std::pair(2, 3), {5, 1}, {2, 3}, {7, 4}}) {
    const at::Tensor x = at::rand({batch, seq});
    auto outputs = (*session)->Run({{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_TRUE(at::equal((*outputs)[0], x.flatten()));
    EXPECT_TRUE(at::equal((*outputs)[1], at::arange(seq)));
    EXPECT_EQ((*outputs)[2].item<int64_t>(), batch + seq);
  }
}

TEST(ExecutorTest, InPlaceWritesTouchNothingElse) {
  // %0 is fresh and used last by gelu; %x, %w, %2 (a view of the returned
  // %1) and the hoisted %4 must survive.
  auto session = OpenText(
      1,
      [](int) {
        return R"(
func @forward(
    %x: f32[2,3],
    %w: f32[2,3] param "w") -> (f32[2,3], f32[2,3], f32[6], f32[2,3], f32[2,3]) {
  %0 = aten.mul.Tensor(%x, %w) : f32[2,3]
  %1 = aten.gelu(%0) : f32[2,3]
  %2 = aten.view(%1) {size = [6]} : f32[6]
  %3 = aten.neg(%2) : f32[6]
  %4 = aten.exp(%w) : f32[2,3]
  %5 = aten.add.Tensor(%x, %4) : f32[2,3]
  %6 = aten.detach(%5) : f32[2,3]
  %7 = aten.tanh(%5) : f32[2,3]
  %8 = aten.neg(%w) : f32[2,3]
  return %1, %7, %3, %6, %8
}
)";
      },
      [](int) {
        return std::vector<at::Tensor>{at::ones({2, 3})};
      });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({2, 3});
  const at::Tensor kept = x.clone();
  for (int round = 0; round < 2; ++round) {
    auto outputs = (*session)->Run({{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const at::Tensor sum = kept + at::ones({2, 3}).exp();
    EXPECT_TRUE(at::equal(x, kept));
    EXPECT_TRUE(at::equal((*outputs)[0], at::gelu(kept)));
    EXPECT_TRUE(at::equal((*outputs)[1], sum.tanh()));
    EXPECT_TRUE(at::equal((*outputs)[2], -at::gelu(kept).flatten()));
    EXPECT_TRUE(at::equal((*outputs)[3], sum));
    EXPECT_TRUE(at::equal((*outputs)[4], -at::ones({2, 3})));
  }
}

TEST(ExecutorTest, InPlaceReusesTheSecondOperand) {
  auto session = OpenText(1, [](int) {
    return R"(
func @forward(%x: f32[2,3], %y: f32[3]) -> (f32[2,3], f32[2,3], f32[2,3]) {
  %0 = aten.mul.Tensor(%x, %x) : f32[2,3]
  %1 = aten.add.Tensor(%x, %0) : f32[2,3]
  %2 = aten.exp(%x) : f32[2,3]
  %3 = aten.add.Tensor(%y, %2) : f32[2,3]
  %4 = aten.exp(%x) : f32[2,3]
  %5 = aten.add.Tensor(%4, %4) : f32[2,3]
  return %1, %3, %5
}
)";
  });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({2, 3});
  const at::Tensor y = at::rand({3});
  auto outputs = (*session)->Run({{"x", x}, {"y", y}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(at::equal((*outputs)[0], x + x * x));
  EXPECT_TRUE(at::equal((*outputs)[1], y + x.exp()));
  EXPECT_TRUE(at::equal((*outputs)[2], x.exp() * 2));
}

SessionOptions Replicated() {
  SessionOptions options;
  options.check_replicas = true;
  return options;
}

class RanksTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, RanksTest, ::testing::Values(1, 2, 3, 4));

TEST_P(RanksTest, ColumnThenRowWithOneAllReduce) {
  constexpr int64_t kHidden = 5;  // uneven, and 2, 1, 1, 1 over four
  const int ranks = GetParam();
  const at::Tensor up = at::rand({kHidden, 4});
  const at::Tensor down = at::rand({4, kHidden});
  auto session = OpenText(
      ranks,
      [&](int rank) {
        return absl::Substitute(
            R"(symbol batch = 2 from "x":0
func @forward(
    %x: f32[batch,4],
    %u: f32[$0,4] param "up",
    %d: f32[4,$0] param "down") -> f32[batch,4] {
  %0 = aten.linear(%x, %u) : f32[batch,$0]
  %1 = aten.relu(%0) : f32[batch,$0]
  %2 = aten.linear(%1, %d) : f32[batch,4]
  %3 = tp.all_reduce(%2) {axis = "tp", reduce = "sum"} : f32[batch,4]
  return %3
}
)",
            PartOf(kHidden, ranks, rank).extent);
      },
      [&](int rank) {
        const Part part = PartOf(kHidden, ranks, rank);
        return std::vector<at::Tensor>{
            up.narrow(0, part.offset, part.extent).contiguous(),
            down.narrow(1, part.offset, part.extent).contiguous()};
      },
      Replicated());
  ASSERT_TRUE(session.ok()) << session.status();
  for (int64_t batch : {1, 3}) {
    const at::Tensor x = at::rand({batch, 4});
    EXPECT_TRUE(at::allclose(RunOne(**session, {{"x", x}}),
                             at::linear(at::relu(at::linear(x, up)), down)));
  }
}

// The [3][5][2] box of a dim of 30: neither first nor last in its dim.
TEST_P(RanksTest, SlicesAndGathersOfAMiddleFactorAreInverse) {
  const int ranks = GetParam();
  auto session = OpenText(ranks, [&](int rank) {
    return absl::Substitute(
        R"(symbol batch = 2 from "x":0
func @forward(%x: f32[batch,30,2]) -> (f32[batch,30,2], f32[batch,30,2]) {
  %0 = tp.slice(%x) {axis = "tp", dim = 1, factor = [3, 5, 2]} : f32[batch,$0,2]
  %1 = aten.neg(%0) : f32[batch,$0,2]
  %2 = tp.all_gather(%1) {axis = "tp", dim = 1, factor = [3, 5, 2]} : f32[batch,30,2]
  %3 = tp.reduce_scatter(%x) {axis = "tp", reduce = "sum", dim = 1, factor = [3, 5, 2]} : f32[batch,$0,2]
  %4 = tp.all_gather(%3) {axis = "tp", dim = 1, factor = [3, 5, 2]} : f32[batch,30,2]
  return %2, %4
}
)",
        6 * PartOf(5, ranks, rank).extent);
  });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({2, 30, 2});
  auto outputs = (*session)->Run({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(at::equal((*outputs)[0], -x));
  EXPECT_TRUE(at::allclose((*outputs)[1], ranks * x));
}

// From dim 2 to dim 0, back, and between two factors of one dim.
TEST_P(RanksTest, AllToAllMovesTheSplit) {
  const int ranks = GetParam();
  auto session = OpenText(ranks, [&](int rank) {
    const int64_t heads = PartOf(3, ranks, rank).extent;
    const int64_t rows = PartOf(5, ranks, rank).extent;
    return absl::Substitute(
        R"(
func @forward(%x: f32[5,2,12]) -> (f32[5,2,12], f32[5,2,12], f32[5,2,12]) {
  %0 = tp.slice(%x) {axis = "tp", dim = 2, factor = [2, 3, 2]} : f32[5,2,$0]
  %1 = tp.all_to_all(%0) {axis = "tp", dim = 2, factor = [2, 3, 2], to_dim = 0, to_factor = [1, 5, 1]} : f32[$1,2,12]
  %2 = tp.all_gather(%1) {axis = "tp", dim = 0, factor = [1, 5, 1]} : f32[5,2,12]
  %3 = tp.all_to_all(%1) {axis = "tp", dim = 0, factor = [1, 5, 1], to_dim = 2, to_factor = [2, 3, 2]} : f32[5,2,$0]
  %4 = tp.all_gather(%3) {axis = "tp", dim = 2, factor = [2, 3, 2]} : f32[5,2,12]
  %5 = tp.all_to_all(%0) {axis = "tp", dim = 2, factor = [2, 3, 2], to_dim = 2, to_factor = [4, 3, 1]} : f32[5,2,$2]
  %6 = tp.all_gather(%5) {axis = "tp", dim = 2, factor = [4, 3, 1]} : f32[5,2,12]
  return %2, %4, %6
}
)",
        4 * heads, rows, 4 * heads);
  });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({5, 2, 12});
  auto outputs = (*session)->Run({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  for (const at::Tensor& output : *outputs) EXPECT_TRUE(at::equal(output, x));
}

TEST_P(RanksTest, EmptySharesGiveTheIdentity) {
  // Two columns: ranks 2 and 3 hold none. amax over nothing would throw.
  const int ranks = GetParam();
  auto session = OpenText(ranks, [&](int rank) {
    const int64_t extent = PartOf(2, ranks, rank).extent;
    return absl::Substitute(
        R"(
func @forward(%x: f32[3,2]) -> f32[3] {
  %0 = tp.slice(%x) {axis = "tp", dim = 1, factor = [1, 2, 1]} : f32[3,$0]
  %1 = aten.amax(%0) {dim = [1], empty_if = $0, identity = -inf} : f32[3]
  %2 = tp.all_reduce(%1) {axis = "tp", reduce = "max"} : f32[3]
  return %2
}
)",
        extent);
  });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = -at::rand({3, 2});
  EXPECT_TRUE(at::equal(RunOne(**session, {{"x", x}}), x.amax(1)));
}

TEST_P(RanksTest, EmbeddingShardsAddUp) {
  const int ranks = GetParam();
  const at::Tensor table = at::rand({7, 3});
  auto session = OpenText(
      ranks,
      [&](int rank) {
        const Part part = PartOf(7, ranks, rank);
        return absl::Substitute(
            R"(symbol n = 2 from "ids":0
func @forward(
    %ids: i64[n,2],
    %w: f32[$0,3] param "w") -> f32[n,2,3] {
  %0 = tp.embedding_shard(%w, %ids) {offset = $1} : f32[n,2,3]
  %1 = tp.all_reduce(%0) {axis = "tp", reduce = "sum"} : f32[n,2,3]
  return %1
}
)",
            part.extent, part.offset);
      },
      [&](int rank) {
        const Part part = PartOf(7, ranks, rank);
        return std::vector<at::Tensor>{
            table.narrow(0, part.offset, part.extent)};
      });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor ids = at::randint(0, 7, {9, 2}, at::kLong);
  EXPECT_TRUE(
      at::equal(RunOne(**session, {{"ids", ids}}), at::embedding(table, ids)));
  auto bad = (*session)->Run({{"ids", ids - 7}});
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(bad.status().message(), HasSubstr("outside of the embedding"));
}

// The input is another rank's to read and the weight is for good: neither
// may be reduced in place.
TEST_P(RanksTest, AllReduceNeverWritesInputsOrWeights) {
  const int ranks = GetParam();
  const at::Tensor w = at::rand({4});
  auto session = OpenText(
      ranks,
      [&](int) {
        return R"(
func @forward(
    %x: f32[4],
    %w: f32[4] param "w") -> (f32[4], f32[4], f32[4]) {
  %0 = tp.all_reduce(%x) {axis = "tp", reduce = "sum"} : f32[4]
  %1 = tp.all_reduce(%w) {axis = "tp", reduce = "sum"} : f32[4]
  %2 = aten.neg(%x) : f32[4]
  %3 = aten.view(%2) {size = [4]} : f32[4]
  %4 = tp.all_reduce(%2) {axis = "tp", reduce = "sum"} : f32[4]
  %5 = aten.add.Tensor(%0, %4) : f32[4]
  return %5, %1, %3
}
)";
      },
      [&](int) { return std::vector<at::Tensor>{w.clone()}; });
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({4});
  const at::Tensor kept = x.clone();
  for (int round = 0; round < 2; ++round) {
    auto outputs = (*session)->Run({{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_TRUE(at::equal(x, kept));
    EXPECT_TRUE(at::equal((*outputs)[0], at::zeros({4})));
    EXPECT_TRUE(at::allclose((*outputs)[1], ranks * w));
    EXPECT_TRUE(at::equal((*outputs)[2], -kept));
  }
}

TEST(SessionTest, AxesOfAMeshReduceApart) {
  // Rank r adds 1 along dp = 2, tp = 2: each all_reduce doubles.
  auto session = OpenText(
      4,
      [](int rank) {
        return absl::Substitute(R"(
func @forward(%x: f32[2]) -> (f32[2], f32[2]) {
  %0 = aten.add.Scalar(%x) {other = $0} : f32[2]
  %1 = tp.all_reduce(%0) {axis = "dp", reduce = "sum"} : f32[2]
  %2 = tp.all_reduce(%1) {axis = "tp", reduce = "max"} : f32[2]
  %3 = tp.all_reduce(%0) {axis = "tp", reduce = "sum"} : f32[2]
  %4 = tp.all_reduce(%3) {axis = "dp", reduce = "min"} : f32[2]
  return %2, %4
}
)",
                                rank);
      },
      nullptr, {}, "[dp: 2, tp: 2]");
  ASSERT_TRUE(session.ok()) << session.status();
  auto outputs = (*session)->Run({{"x", at::zeros({2})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  // dp sums 0+2 and 1+3, the larger is 4; tp sums 0+1 and 2+3, the smaller 1.
  EXPECT_TRUE(at::equal((*outputs)[0], at::full({2}, 4.0)));
  EXPECT_TRUE(at::equal((*outputs)[1], at::full({2}, 1.0)));
}

TEST(SessionTest, F64ModePromotesTypesAttributesAndWeights) {
  const at::Tensor w = at::rand({3}, at::kHalf);
  SessionOptions options;
  options.f64 = true;
  auto session = OpenText(
      1,
      [](int) {
        return R"(
func @forward(
    %x: f32[3],
    %w: f16[3] param "w") -> f32[3] {
  %0 = aten.to.dtype(%w) {dtype = f32} : f32[3]
  %1 = aten.mul.Tensor(%x, %0) : f32[3]
  return %1
}
)";
      },
      [&](int) { return std::vector<at::Tensor>{w}; }, options);
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({3});
  EXPECT_TRUE(at::equal(RunOne(**session, {{"x", x}}),
                        x.to(at::kDouble) * w.to(at::kDouble)));
}

TEST(SessionTest, ProfileAddsUp) {
  auto session = OpenText(2, [](int) {
    return R"(
func @forward(%x: f32[8]) -> f32[8] {
  %0 = aten.exp(%x) : f32[8]
  %1 = tp.all_reduce(%0) {axis = "tp", reduce = "sum"} : f32[8]
  return %1
}
)";
  });
  ASSERT_TRUE(session.ok()) << session.status();
  CallReport report;
  report.measure = true;
  const at::Tensor x = at::rand({8});
  auto outputs = (*session)->Run({{"x", x}}, &report);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(report.times.size(), 2);
  for (const RankTimes& rank : report.times) {
    EXPECT_EQ(rank.collectives, 1);
    EXPECT_EQ(rank.collective_bytes, 32);
    EXPECT_GT(rank.compute(), 0);
    EXPECT_GE(rank.wait, 0);
    EXPECT_GT(rank.communicate, 0);
  }
}

}  // namespace
}  // namespace tp
