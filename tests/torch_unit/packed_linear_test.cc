#include "runtime/packed_linear.h"

#include "gtest/gtest.h"
#include "tests/torch_unit/rank_programs.h"

namespace tp {
namespace {

using testing::OpenText;

// Every way a weight enters a product: as [out, in], as [in, out], seen
// through a transpose, twice in both orientations, and also read whole.
constexpr char kProducts[] = R"(
symbol rows = 3 from "x":0
func @forward(%x: f32[rows,96], %w: f32[128,96] param "w", %b: f32[128] param "b", %v: f32[96,128] param "v") -> (f32[rows,128], f32[rows,128], f32[rows,96], f32[rows,128], f32[128,96]) {
  %0 = aten.linear(%x, %w, %b) : f32[rows,128]
  %1 = aten.addmm(%b, %x, %v) : f32[rows,128]
  %2 = aten.mm(%0, %w) : f32[rows,96]
  %3 = aten.transpose.int(%w) {dim0 = 0, dim1 = 1} : f32[96,128]
  %4 = aten.matmul(%x, %3) : f32[rows,128]
  %5 = aten.mul.Scalar(%w) {other = 2.0} : f32[128,96]
  return %0, %1, %2, %4, %5
}
)";

class PackedLinearTest : public ::testing::Test {
 protected:
  void Open(bool pack) {
    SessionOptions options;
    options.executor.pack_weights = pack;
    auto session = OpenText(
        1, [](int) { return kProducts; },
        [this](int) {
          return std::vector<at::Tensor>{w_, b_, v_};
        },
        options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  void Check(int64_t rows) {
    const at::Tensor x = at::randn({rows, 96});
    auto outputs = session_->Run({{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const at::Tensor y = at::linear(x, w_, b_);
    const std::vector<at::Tensor> expected = {y, at::addmm(b_, x, v_), y.mm(w_),
                                              at::linear(x, w_), w_ * 2};
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ((*outputs)[i].sizes(), expected[i].sizes()) << i;
      EXPECT_TRUE(at::allclose((*outputs)[i], expected[i], 1e-4, 1e-4))
          << "output " << i << " of " << rows << " rows";
    }
  }

  const at::Tensor w_ = at::randn({128, 96});
  const at::Tensor b_ = at::randn({128});
  const at::Tensor v_ = at::randn({96, 128});
  std::unique_ptr<Session> session_;
};

TEST_F(PackedLinearTest, EqualsThePlainProducts) {
  for (bool pack : {false, true}) {
    Open(pack);
    for (int64_t rows : {1, 3, 200, 3}) Check(rows);
  }
}

TEST_F(PackedLinearTest, OnlyLargeMatricesOfKnownTypesArePacked) {
  EXPECT_FALSE(CanPackWeight(at::zeros({8, 8})));
  EXPECT_FALSE(CanPackWeight(at::zeros({128, 96}, at::kDouble)));
  EXPECT_FALSE(CanPackWeight(at::zeros({2, 128, 96})));
  if (!CanPackWeight(w_)) GTEST_SKIP() << "this LibTorch has no oneDNN";
  const at::Tensor packed = PackWeight(w_, /*transposed=*/false);
  const at::Tensor x = at::randn({96});
  EXPECT_TRUE(at::allclose(PackedLinear(x, packed, {}), w_.mv(x), 1e-4, 1e-4));
  const at::Tensor deep = at::randn({2, 3, 96});
  EXPECT_TRUE(at::allclose(PackedLinear(deep, packed, b_),
                           at::linear(deep, w_, b_), 1e-4, 1e-4));
}

}  // namespace
}  // namespace tp
