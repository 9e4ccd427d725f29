// Random ops draw the same numbers on every rank and for any number of ranks.
#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "runtime/session.h"

namespace tp {
namespace {

constexpr char kProgram[] = R"(
func @forward(%x: f32[64]) -> (f32[64], f32[64]) {
  %0 = aten.rand_like(%x) : f32[64]
  %1 = aten.dropout(%x) {p = 0.5, train = true} : f32[64]
  return %0, %1
}
)";

std::unique_ptr<Session> Open(int ranks) {
  std::vector<std::shared_ptr<const Module>> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    auto module = Parse(absl::StrCat("tpir 1\nmesh @m = [tp: ", ranks,
                                     "]\nrank ", rank, "\n", kProgram),
                        "random.tpir");
    EXPECT_TRUE(module.ok()) << module.status();
    programs.push_back(*std::move(module));
  }
  SessionOptions options;
  options.group.threads = 1;
  options.check_replicas = true;
  auto session =
      Session::Create(std::move(programs),
                      std::vector<std::vector<at::Tensor>>(ranks), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

std::vector<at::Tensor> RunOnce(Session& session, const at::Tensor& x) {
  auto outputs = session.Run({{"x", x}});
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return *outputs;
}

TEST(RandomTest, DoesNotDependOnTheRanks) {
  at::manual_seed(7);
  const at::Tensor x = at::full({64}, 3.0f);
  auto one = Open(1);
  const auto first = RunOnce(*one, x);
  const auto second = RunOnce(*one, x);
  EXPECT_FALSE(at::equal(first[0], second[0]));
  EXPECT_FALSE(at::equal(first[1], second[1]));
  // Another op, other numbers: those kept are not those below one half.
  EXPECT_FALSE(at::equal(first[0] < 0.5, first[1] == 0));
  EXPECT_FALSE(at::equal(first[0] < 0.5, first[1] != 0));
  for (int ranks : {2, 3}) {
    auto session = Open(ranks);
    for (const auto* expected : {&first, &second}) {
      const auto outputs = RunOnce(*session, x);
      EXPECT_TRUE(at::equal(outputs[0], (*expected)[0]));
      EXPECT_TRUE(at::equal(outputs[1], (*expected)[1]));
    }
  }
}

TEST(RandomTest, FollowsTheSeedAndLeavesTheGeneratorAlone) {
  const at::Tensor x = at::full({64}, 3.0f);
  at::manual_seed(1);
  const at::Tensor a = RunOnce(*Open(2), x)[0];
  const at::Tensor next = at::rand({8});
  at::manual_seed(2);
  const at::Tensor b = RunOnce(*Open(2), x)[0];
  at::manual_seed(1);
  const at::Tensor undisturbed = at::rand({8});
  EXPECT_FALSE(at::equal(a, b));
  EXPECT_TRUE(at::equal(next, undisturbed));
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(RunOnce(*Open(2), x)[0], a));
}

}  // namespace
}  // namespace tp
