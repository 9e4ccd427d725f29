// The archive checks against what LibTorch itself writes and loads.
#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <sstream>

#include "frontend/archive_check.h"
#include "frontend/archive_weight_source.h"
#include "frontend/skeleton_archive.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

class SkeletonLoad : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "tp_skeleton_" +
            std::to_string(static_cast<long>(::getpid())) + ".pt";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // A module with a plain, a transposed, a sliced, an expanded, a tied and an
  // empty weight.
  torch::jit::Module MakeModule() {
    torch::jit::Module module("m");
    at::Tensor base = at::arange(600, at::kFloat).reshape({20, 30});
    module.register_parameter("plain", base, false);
    module.register_parameter("tied", base, false);
    module.register_parameter("turned", base.t(), false);
    module.register_parameter("part", base.slice(0, 5, 15, 2).slice(1, 3, 9),
                              false);
    module.register_parameter(
        "expanded", at::full({1, 1}, 7, at::kBFloat16).expand({6, 9}), false);
    module.register_buffer("empty", at::zeros({0, 4}, at::kLong));
    torch::jit::Module inner("inner");
    inner.register_buffer("flags", at::ones({3}, at::kBool));
    module.register_module("inner", inner);
    return module;
  }

  std::string path_;
};

TEST_F(SkeletonLoad, HasTheShapesAndTiesOfTheRealOne) {
  torch::jit::Module module = MakeModule();
  module.define(
      "def forward(self, x, n: int = 3):\n"
      "    return x * self.plain.sum() + torch.tensor([1, 2])[0]\n");
  module.save(path_);
  auto archive = CheckArchive(path_);
  ASSERT_TRUE(archive.ok()) << archive.status();
  auto skeleton = BuildSkeleton(**archive);
  ASSERT_TRUE(skeleton.ok()) << skeleton.status();
  std::istringstream stream(*skeleton);
  torch::jit::Module loaded = torch::jit::load(stream, at::kCPU);

  EXPECT_EQ(
      loaded.get_method("forward").graph()->toString(false),
      torch::jit::load(path_).get_method("forward").graph()->toString(false));
  size_t seen = 0;
  for (const auto& parameter : loaded.named_parameters()) {
    const at::Tensor want = module.attr(parameter.name).toTensor();
    EXPECT_EQ(parameter.value.sizes(), want.sizes()) << parameter.name;
    EXPECT_EQ(parameter.value.scalar_type(), want.scalar_type());
    // Reading by mistake stays in bounds and gives zeros.
    EXPECT_EQ(parameter.value.storage().nbytes(), want.element_size());
    EXPECT_EQ(parameter.value.to(at::kFloat).abs().sum().item<float>(), 0);
    ++seen;
  }
  EXPECT_EQ(seen, 5u);
  EXPECT_EQ(loaded.attr("plain").toTensor().storage().data(),
            loaded.attr("tied").toTensor().storage().data());
  EXPECT_NE(loaded.attr("plain").toTensor().storage().data(),
            loaded.attr("expanded").toTensor().storage().data());
}

TEST_F(SkeletonLoad, WeightSourceGivesTheRealBytes) {
  torch::jit::Module module = MakeModule();
  module.define("def forward(self, x):\n    return x\n");
  module.save(path_);
  auto archive = CheckArchive(path_);
  ASSERT_TRUE(archive.ok()) << archive.status();
  auto source = MakeArchiveWeightSource(**archive);
  EXPECT_EQ(source->weights().size(), 7u);
  for (const WeightInfo& weight : source->weights()) {
    const at::Tensor want =
        weight.name == "inner.flags"
            ? module.attr("inner").toModule().attr("flags").toTensor()
            : module.attr(weight.name).toTensor();
    ASSERT_EQ(at::IntArrayRef(weight.sizes.data(), weight.sizes.size()),
              want.sizes());
    auto view = source->View(weight);
    ASSERT_TRUE(view.ok()) << view.status();
    at::Tensor got = at::empty(want.sizes(), want.options());
    const absl::Status status = CopyBlock(
        weight, *view, WholeBlock(weight.sizes), got.data_ptr(), got.nbytes());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(at::equal(got, want)) << weight.name;
  }
  EXPECT_EQ(source->Find("plain")->storage, source->Find("turned")->storage);
  EXPECT_EQ(source->Find("expanded")->storage_bytes, 2);
}

TEST_F(SkeletonLoad, ModelsThatReachFilesAreRefused) {
  for (const char* body :
       {"    torch.save(x, \"/nonexistent/file\")\n    return x\n",
        "    return torch.from_file(\"/etc/hostname\", False, 4)\n"}) {
    torch::jit::Module module("m");
    module.define(std::string("def forward(self, x):\n") + body);
    module.save(path_);
    EXPECT_TRUE(absl::IsPermissionDenied(CheckArchive(path_).status()))
        << CheckArchive(path_).status();
  }
}

}  // namespace
}  // namespace tp
