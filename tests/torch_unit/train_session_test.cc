// Training through plan, rank programs and sessions, from text.
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ir/shard_extent.h"
#include "ir/text.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/pass.h"
#include "runtime/comm/threads_communicator.h"
#include "runtime/train/tape.h"
#include "runtime/train/trainer.h"

namespace tp {
namespace {

// A norm between two split layers, a bias on the row-split one, a residual.
constexpr char kBlock[] = R"(
func @forward(%x: f32[4,8], %n: f32[8] param "norm", %w1: f32[12,8] param "w1", %b1: f32[12] param "b1", %w2: f32[8,12] param "w2", %b2: f32[8] param "b2", %w3: f32[12,8] param "w3", %w4: f32[8,12] param "w4") -> f32[] {
  %0 = aten.linear(%x, %w1, %b1) : f32[4,12]
  %1 = aten.gelu(%0) : f32[4,12]
  %2 = aten.linear(%1, %w2, %b2) : f32[4,8]
  %3 = aten.add.Tensor(%2, %x) : f32[4,8]
  %4 = aten.layer_norm(%3, %n) {normalized_shape = [8]} : f32[4,8]
  %5 = aten.linear(%4, %w3) : f32[4,12]
  %6 = aten.tanh(%5) : f32[4,12]
  %7 = aten.linear(%6, %w4) : f32[4,8]
  %8 = aten.add.Tensor(%7, %3) : f32[4,8]
  %9 = aten.pow.Tensor_Scalar(%8) {exponent = 2} : f32[4,8]
  %10 = aten.sum(%9) : f32[]
  return %10
}
)";

constexpr char kDropout[] = R"(
func @forward(%x: f32[4,8], %w1: f32[12,8] param "w1", %w2: f32[8,12] param "w2") -> f32[] {
  %0 = aten.linear(%x, %w1) : f32[4,12]
  %1 = aten.dropout(%0) {p = 0.5, train = true} : f32[4,12]
  %2 = aten.linear(%1, %w2) : f32[4,8]
  %3 = aten.dropout(%2) {p = 0.5, train = true} : f32[4,8]
  %4 = aten.sum(%3) : f32[]
  return %4
}
)";

// Large enough to be let go between forward and backward.
constexpr char kLarge[] = R"(
func @forward(%x: f32[4,256] <R>, %w: f32[256,256] <R> param "w") -> f32[] {
  %0 = aten.linear(%x, %w) : f32[4,256] <R>
  %1 = aten.tanh(%0) : f32[4,256] <R>
  %2 = aten.sum(%1) : f32[] <R>
  return %2
}
)";

// [Q|K|V] of 4 heads of width 2: a gather is no concatenation.
constexpr char kFused[] = R"(
func @forward(%x: f32[4,8] <R>, %w: f32[24,8] <S(0:3x[4]x2)> param "w", %v: f32[24] <R> param "v") -> f32[] {
  %0 = aten.linear(%x, %w) : f32[4,24] <S(1:3x[4]x2)>
  %1 = aten.tanh(%0) : f32[4,24] <S(1:3x[4]x2)>
  %2 = aten.mul.Tensor(%1, %v) : f32[4,24] <R>
  %3 = aten.sum(%2) : f32[] <R>
  return %3
}
)";

// What a fault would have made of a rank's program.
using Edit = std::function<std::string(std::string)>;

std::string Replaced(std::string text, const std::string& from,
                     const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

struct Plan {
  bool zero3 = false;
  bool replicate = false;  // no weight is split
  bool planned = false;    // placements are there
  bool recompute = false;
};

std::unique_ptr<Module> PlanFor(const std::string& program, int ranks,
                                const Plan& plan) {
  auto module =
      Parse(absl::StrCat("tpir 1\nmesh @m = [tp: ", ranks, "]\n", program),
            "train.tpir");
  EXPECT_TRUE(module.ok()) << module.status();
  PassContext context;
  context.train = true;
  context.zero3 = plan.zero3;
  if (plan.replicate) {
    UserRule rule;
    rule.pattern = ".";
    if (plan.zero3) rule.action = UserRule::Action::kZero3;
    context.rules.push_back(rule);
  }
  std::vector<std::string> passes = PlanPipeline(/*train=*/true);
  if (plan.planned) passes.erase(passes.begin(), llvm::find(passes, "zero3"));
  const absl::Status status = RunPasses(**module, passes, context);
  EXPECT_TRUE(status.ok()) << status;
  return *std::move(module);
}

at::Tensor PartOf(const at::Tensor& whole, const Placement& placement,
                  int ranks, int rank) {
  if (!placement.is_shard()) return whole.clone();
  const ShardExtent part = ShardExtentOf(placement.factor().size, ranks, rank);
  const int64_t left = placement.factor().left.constant();
  const int64_t right = placement.factor().right.constant();
  std::vector<int64_t> sizes = whole.sizes().vec();
  sizes[placement.dim()] = left * part.extent.constant() * right;
  return whole
      .unflatten(placement.dim(),
                 {left, placement.factor().size.constant(), right})
      .narrow(placement.dim() + 1, part.offset.constant(),
              part.extent.constant())
      .reshape(sizes)
      .contiguous();
}

std::map<std::string, at::Tensor> RandomWeights(const Function& function) {
  at::manual_seed(3);
  std::map<std::string, at::Tensor> weights;
  for (size_t i = 0; i < function.arguments().size(); ++i) {
    if (!function.arguments()[i].is_weight()) continue;
    std::vector<int64_t> sizes;
    for (const SymExpr& dim : function.body().arguments()[i]->type().dims)
      sizes.push_back(dim.constant());
    weights[function.arguments()[i].name] =
        (at::randn(sizes) * 0.5)
            .to(ScalarTypeOf(function.body().arguments()[i]->type().dtype));
  }
  return weights;
}

std::unique_ptr<TrainSession> Open(const std::string& program, int ranks,
                                   const Plan& plan = {},
                                   const Edit& edit = nullptr) {
  const std::unique_ptr<Module> planned = PlanFor(program, ranks, plan);
  const Function& forward = *planned->function("forward");
  const auto whole = RandomWeights(forward);
  auto programs = MakeRankPrograms(*planned);
  EXPECT_TRUE(programs.ok()) << programs.status();
  std::vector<std::shared_ptr<const Module>> modules;
  std::vector<std::vector<at::Tensor>> weights(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < forward.arguments().size(); ++i) {
      const ArgumentInfo& info = forward.arguments()[i];
      if (!info.is_weight()) continue;
      weights[rank].push_back(PartOf(whole.at(info.name),
                                     forward.body().arguments()[i]->spec()[0],
                                     ranks, rank));
    }
    modules.push_back(std::move((*programs)[rank]));
    if (!edit) continue;
    auto edited = Parse(edit(Print(*modules.back())), "edited.tpir");
    EXPECT_TRUE(edited.ok()) << edited.status();
    modules.back() = *std::move(edited);
  }
  TrainOptions options;
  options.group.threads = 1;
  options.group.timeout = absl::Seconds(5);
  options.recompute = plan.recompute;
  auto session =
      TrainSession::Create(std::move(modules), std::move(weights), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

at::Tensor Input(int64_t width = 8) {
  at::manual_seed(11);
  return at::randn({4, width});
}

std::map<std::string, at::Tensor> Gradients(TrainSession& session,
                                            const at::Tensor& x) {
  EXPECT_TRUE(session.ForwardBackward({{"x", x}}).ok());
  EXPECT_TRUE(session.FinishGradients().ok());
  auto gradients = session.WholeGradients();
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  return {gradients->begin(), gradients->end()};
}

void ExpectNear(const std::map<std::string, at::Tensor>& got,
                const std::map<std::string, at::Tensor>& want,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (const auto& [name, tensor] : want) {
    const double scale = tensor.abs().max().item<double>();
    const double error = (got.at(name) - tensor).abs().max().item<double>();
    EXPECT_LE(error, 1e-5 * scale) << what << ": " << name;
  }
}

TEST(TrainSessionTest, GradientsDoNotDependOnRanksOrPlan) {
  auto one = Open(kBlock, 1);
  const auto want = Gradients(*one, Input());
  EXPECT_EQ(want.size(), 7U);
  for (int ranks : {2, 3, 4})
    for (bool zero3 : {false, true})
      for (bool replicate : {false, true}) {
        auto session = Open(kBlock, ranks, {zero3, replicate});
        ExpectNear(Gradients(*session, Input()), want,
                   absl::StrCat(ranks, " ranks, zero3 ", zero3, ", replicate ",
                                replicate));
      }
}

// The same kernels on the same values, dropout included: the same bits.
TEST(TrainSessionTest, RecomputingChangesNothing) {
  for (const char* program : {kBlock, kDropout})
    for (int ranks : {1, 2, 3})
      for (bool zero3 : {false, true}) {
        Plan plan;
        plan.zero3 = zero3;
        at::manual_seed(5);
        auto kept = Open(program, ranks, plan);
        plan.recompute = true;
        auto again = Open(program, ranks, plan);
        at::manual_seed(5);
        const at::Tensor x = at::ones({4, 8});
        const auto want = Gradients(*kept, x);
        const auto got = Gradients(*again, x);
        ASSERT_EQ(got.size(), want.size());
        for (const auto& [name, tensor] : want)
          EXPECT_TRUE(at::equal(got.at(name), tensor))
              << name << ", " << ranks << " ranks, zero3 " << zero3;
      }
}

// A gradient that overflows in f16 makes the scale less and no step.
TEST(TrainSessionTest, F16StepsAreScaled) {
  std::string program = R"(
func @forward(%x: f16[4,8], %w: f16[8,8] param "w") -> f16[] {
  %0 = aten.linear(%x, %w) : f16[4,8]
  %1 = aten.mean(%0) : f16[]
  return %1
}
)";
  for (int ranks : {1, 2}) {
    auto session = Open(program, ranks);
    TrainerOptions options;
    options.optimizer.name = "sgd";
    options.lr = 1;
    options.max_grad_norm = 0;
    options.loss_scale.initial = 1 << 22;
    auto trainer = Trainer::Create(*session, options);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const auto next = []() -> absl::StatusOr<std::optional<NamedTensors>> {
      return NamedTensors{{"x", at::ones({4, 8}, at::kHalf)}};
    };
    const at::Tensor before =
        session->training(0).parameters[0].value.to(at::kFloat);
    int skipped = 0;
    for (bool done = false; !done && skipped < 20;) {
      auto report = (*trainer)->Step(next);
      ASSERT_TRUE(report.ok()) << report.status();
      done = !(*report)->skipped;
      skipped += done ? 0 : 1;
      const at::Tensor after =
          session->training(0).parameters[0].value.to(at::kFloat);
      EXPECT_EQ(at::equal(before, after), !done);
      // Each weight moves by the share of its row in the mean: 1 / 8.
      if (done) {
        EXPECT_LT((before - after - 0.125).abs().max().item<double>(), 2e-3);
      }
    }
    EXPECT_GT(skipped, 0);
    EXPECT_LT(skipped, 20);
  }
}

TEST(TrainSessionTest, MicroBatchesAddUp) {
  auto session = Open(kBlock, 2);
  const auto once = Gradients(*session, Input());
  ASSERT_TRUE(session->ClearGradients().ok());
  for (double seed : {0.25, 0.75})
    ASSERT_TRUE(session->ForwardBackward({{"x", Input()}}, seed).ok());
  ASSERT_TRUE(session->FinishGradients().ok());
  auto sums = session->WholeGradients();
  ASSERT_TRUE(sums.ok());
  ExpectNear({sums->begin(), sums->end()}, once, "a quarter and the rest");
  // Evaluation leaves none behind.
  ASSERT_TRUE(session->ClearGradients().ok());
  ASSERT_TRUE(session->Forward({{"x", Input()}}).ok());
  EXPECT_FALSE(session->FinishGradients().ok());
}

// Through biases on row-split layers and a norm between split layers.
TEST(TrainSessionTest, CopiesStayBitwiseEqualAndFollowOneDevice) {
  for (const char* name : {"sgd", "adamw", "adafactor"}) {
    std::map<std::string, at::Tensor> want;
    for (int ranks : {1, 2, 3, 4}) {
      auto session = Open(kBlock, ranks);
      TrainerOptions options;
      options.optimizer.name = name;
      options.lr = 1e-2;
      auto trainer = Trainer::Create(*session, options);
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      for (int step = 0; step < 5; ++step) {
        auto report = (*trainer)->Step(
            []() -> absl::StatusOr<std::optional<NamedTensors>> {
              return NamedTensors{{"x", Input()}};
            });
        ASSERT_TRUE(report.ok()) << report.status();
      }
      for (size_t i = 0; i < session->training(0).parameters.size(); ++i) {
        const TrainableParameter& first = session->training(0).parameters[i];
        for (int rank = 1; rank < ranks && first.spec[0].is_replicate(); ++rank)
          EXPECT_TRUE(at::equal(session->training(rank).parameters[i].value,
                                first.value))
              << name << ": " << first.name << " of rank " << rank;
      }
      auto whole = session->WholeParameters();
      ASSERT_TRUE(whole.ok());
      const std::map<std::string, at::Tensor> got(whole->begin(), whole->end());
      if (ranks == 1) want = got;
      ExpectNear(got, want, absl::StrCat(name, ", ", ranks, " ranks"));
    }
  }
}

TEST(TrainSessionTest, DropoutDoesNotDependOnRanks) {
  const auto losses = [](int ranks, uint64_t key) {
    at::manual_seed(5);
    auto session = Open(kDropout, ranks);
    at::manual_seed(5);
    session->set_random_key(key);
    std::vector<double> result;
    for (int i = 0; i < 3; ++i) {
      auto outputs = session->ForwardBackward({{"x", Input()}});
      EXPECT_TRUE(outputs.ok()) << outputs.status();
      result.push_back((*outputs)[0].item<double>());
      at::manual_seed(5);
    }
    auto whole = session->Forward({{"x", Input()}});
    EXPECT_TRUE(whole.ok());
    result.push_back((*whole)[0].item<double>());
    return result;
  };
  at::manual_seed(5);
  const std::vector<double> one = losses(1, 0);
  EXPECT_NE(one[0], one[1]);
  EXPECT_NE(one[1], one[2]);
  EXPECT_NE(one[0], one[3]);
  for (int ranks : {1, 2, 3}) {
    const std::vector<double> again = losses(ranks, 0);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(again[i], one[i], 1e-4) << ranks << " ranks, run " << i;
  }
  EXPECT_NEAR(losses(2, 1)[0], one[1], 1e-4);
}

TEST(TrainSessionTest, LargeGatheredParametersAreLetGo) {
  const std::unique_ptr<Module> split =
      PlanFor(kLarge, 2, {true, false, /*planned=*/true});
  const std::string text = Print(*split);
  ASSERT_NE(text.find("tp.refill"), std::string::npos) << text;
  auto programs = MakeRankPrograms(*split);
  ASSERT_TRUE(programs.ok()) << programs.status();
  auto communicators = MakeThreadsCommunicators(2, {});
  ASSERT_TRUE(communicators.ok());
  const at::Tensor weight = RandomWeights(*split->function("forward")).at("w");
  std::vector<Tape> tapes(2);
  std::vector<size_t> kept(2, 1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      std::shared_ptr<const Module> module = std::move((*programs)[rank]);
      ExecutorOptions options;
      options.pack_weights = false;
      const at::Tensor part = weight.narrow(0, rank * 128, 128).clone();
      auto program = Program::Compile(module, "forward", at::kCPU);
      auto executor = Executor::Create(*std::move(program), {part},
                                       {(*communicators)[rank].get()}, options);
      RunOptions run;
      run.tape = &tapes[rank];
      auto outputs = (*executor)->Run({Input(256)}, Sizes(), run);
      EXPECT_TRUE(outputs.ok()) << outputs.status();
      for (const Tape::Segment& segment : tapes[rank].segments)
        for (const at::Tensor& entered : segment.entered)
          if (entered.dim() == 2 && entered.size(0) == 256)
            kept[rank] = entered.storage().nbytes();
      (*communicators)[rank]->Barrier({}).IgnoreError();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kept, (std::vector<size_t>{0, 0}));
}

// Gradients tell a gather that only concatenates.
TEST(TrainSessionTest, APlantedConcatenationOfFusedPartsIsSeen) {
  Plan plan;
  plan.planned = true;
  auto right = Open(kFused, 2, plan);
  const auto want = Gradients(*right, Input());
  std::string unsplit = Replaced(kFused, "<S(0:3x[4]x2)>", "<R>");
  for (int i = 0; i < 2; ++i)
    unsplit = Replaced(unsplit, "<S(1:3x[4]x2)>", "<R>");
  auto whole = Open(unsplit, 1, plan);
  ExpectNear(Gradients(*whole, Input()), want, "the plan without the fault");
  auto wrong = Open(kFused, 2, plan, [](std::string text) {
    return Replaced(std::move(text), "factor = [3, 4, 2]} : f32[4,24]",
                    "factor = [1, 24, 1]} : f32[4,24]");
  });
  const auto got = Gradients(*wrong, Input());
  EXPECT_GT((got.at("v") - want.at("v")).abs().max().item<double>(), 0.1);
}

// Autograd tells a write over what it saved.
TEST(TrainSessionTest, APlantedWriteOverASavedValueIsSeen) {
  auto session = Open(kBlock, 2, {}, [](std::string text) {
    const size_t tanh = text.find(" = aten.tanh(");
    const size_t begin = text.rfind('%', tanh);
    const std::string value = text.substr(begin, tanh - begin);
    const size_t line = text.find('\n', tanh) + 1;
    const size_t type = text.find(" : ", tanh);
    return text.insert(line, "  %planted = aten.mul_.Tensor(" + value + ", " +
                                 value + ")" + text.substr(type, line - type));
  });
  const absl::Status status =
      session->ForwardBackward({{"x", Input()}}).status();
  EXPECT_NE(status.message().find("modified by an inplace operation"),
            absl::string_view::npos)
      << status;
}

TEST(TrainSessionTest, ARankThatFailsEndsTheStepForAll) {
  auto session = Open(kBlock, 3);
  ASSERT_TRUE(session->ForwardBackward({{"x", Input()}}).ok());
  const absl::Status status =
      session->OnRanks([](int rank, RankTraining& training) -> absl::Status {
        if (rank == 1) return absl::InternalError("rank 1: planted");
        return training.axes[0]->Barrier({});
      });
  EXPECT_EQ(status.message(), "rank 1: planted");
  EXPECT_EQ(session->ForwardBackward({{"x", Input()}}).status(), status);
}

TEST(TrainSessionTest, InferencePackagesAreRefused) {
  auto module = Parse(
      "tpir 1\nmesh @m = [tp: 1]\nrank 0\nfunc @forward(%x: "
      "f32[2]) -> f32[2] {\n  return %x\n}\n",
      "plain.tpir");
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<std::shared_ptr<const Module>> programs;
  programs.push_back(*std::move(module));
  EXPECT_EQ(TrainSession::Create(programs, {{}}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tp
