#include "frontend/reference_model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/torch_unit/import_test_util.h"

namespace tp {
namespace {

using ::testing::HasSubstr;
using testing::Script;
using testing::TempPath;

absl::StatusOr<std::vector<at::Tensor>> RunOnce(
    const torch::jit::Module& module, const NamedTensors& inputs,
    const ReferenceOptions& options) {
  const std::string path = TempPath("reference.pt");
  module.save(path);
  auto model = ReferenceModel::Load(path, options);
  unlink(path.c_str());
  if (!model.ok()) return model.status();
  return (*model)->Run(inputs);
}

TEST(ReferenceModelTest, RunsByNameOrPositionAndFlattens) {
  const auto module = Script(R"(
def forward(self, x: Tensor, past: Tuple[Tensor, Tensor], scale: float = 2.0):
    a, b = past
    return {"first": x * scale, "second": a}, [b, a], 3
)");
  ReferenceOptions options;
  options.arguments = {{"scale", "4"}};
  auto outputs = RunOnce(module,
                         {{"x", at::ones({2})},
                          {"input_1", at::zeros({1})},
                          {"input_2", at::full({1}, 7)},
                          {"output_0", at::zeros({1})}},
                         options);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 5u);
  EXPECT_TRUE(at::equal((*outputs)[0], at::full({2}, 4.0)));
  EXPECT_TRUE(at::equal((*outputs)[2], at::full({1}, 7)));
  EXPECT_EQ((*outputs)[4].item<int64_t>(), 3);
}

TEST(ReferenceModelTest, MissingInputsAreNamed) {
  const auto module = Script("def forward(self, x: Tensor): return x + 1");
  auto outputs = RunOnce(module, {}, {});
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(outputs.status().ToString(), HasSubstr("'x'"));
}

// Any step left in f32 or bf16 shows in the last digits. 6 is torch.float32.
TEST(ReferenceModelTest, EveryStepIsInDouble) {
  const auto module = Script(
      R"(
def forward(self, x: Tensor):
    y = torch.linear(x, self.w).to(6) + self.shift
    z = torch.softmax(y, -1, dtype=6) / 3
    return z * torch.tensor(0.1) + torch.ones([4], dtype=6) / 3
)",
      {{"w", at::randn({4, 4}).to(at::kBFloat16)}},
      {{"shift", at::randn({4}).to(at::kBFloat16)}});
  const at::Tensor x = at::randn({2, 4}).to(at::kBFloat16);
  ReferenceOptions options;
  options.f64 = true;
  auto outputs = RunOnce(module, {{"x", x}}, options);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const at::Tensor w = module.attr("w").toTensor().to(at::kDouble);
  const at::Tensor shift = module.attr("shift").toTensor().to(at::kDouble);
  const at::Tensor expected =
      at::softmax(at::linear(x.to(at::kDouble), w) + shift, -1) / 3 * 0.1 +
      1.0 / 3;
  EXPECT_EQ((*outputs)[0].scalar_type(), at::kDouble);
  EXPECT_TRUE(at::allclose((*outputs)[0], expected, 1e-13, 1e-15));
}

}  // namespace
}  // namespace tp
