#include "frontend/torchscript_importer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/torch_unit/import_test_util.h"

namespace tp {
namespace {

using ::testing::AllOf;
using testing::CountOps;
using ::testing::ElementsAre;
using testing::ExpectSameAsTorch;
using ::testing::HasSubstr;
using testing::Import;
using ::testing::IsEmpty;
using testing::OpenImported;
using testing::RunImported;
using testing::Script;

const Function& Forward(const ImportedModel& model) {
  return *model.module->functions()[0];
}

std::string TypeOfInput(const ImportedModel& model, int index) {
  return ToString(Forward(model).body().arguments()[index]->type());
}

std::vector<std::string> Guards(const ImportedModel& model) {
  std::vector<std::string> guards;
  for (const Guard& guard : model.module->assumptions().guards())
    guards.push_back(guard.ToString());
  return guards;
}

TEST(ImportSizesTest, DimsThatDifferBecomeSymbols) {
  auto model = Import(Script(R"(
def forward(self, ids: Tensor, mask: Tensor, x: Tensor):
    return (ids * mask).unsqueeze(-1) * x
)"),
                      {{{"ids", at::ones({5, 13}, at::kLong)},
                        {"mask", at::ones({5, 13}, at::kLong)},
                        {"x", at::ones({5, 13, 4})}},
                       {{"ids", at::ones({2, 24}, at::kLong)},
                        {"mask", at::ones({2, 24}, at::kLong)},
                        {"x", at::ones({2, 24, 4})}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(TypeOfInput(*model, 0), "i64[batch,seq]");
  EXPECT_EQ(TypeOfInput(*model, 1), "i64[batch,seq]");
  EXPECT_EQ(TypeOfInput(*model, 2), "f32[batch,seq,4]");
  EXPECT_THAT(Guards(*model), IsEmpty());
  const auto& symbols = model->module->assumptions().symbols();
  ASSERT_EQ(symbols.size(), 2u);
  EXPECT_EQ(symbols[1].name, "seq");
  EXPECT_EQ(symbols[1].hint, 13);
  EXPECT_EQ(symbols[1].input, "ids");
  EXPECT_EQ(symbols[1].dim, 1);
}

// Equal in the first example only: two symbols, and a guard where they meet.
TEST(ImportSizesTest, DimsThatAgreeOnceAreNotTied) {
  auto model = Import(Script(R"(
def forward(self, x: Tensor, y: Tensor):
    return x.mm(y)
)"),
                      {{{"x", at::ones({3, 4})}, {"y", at::ones({4, 4})}},
                       {{"x", at::ones({2, 5})}, {"y", at::ones({5, 7})}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(TypeOfInput(*model, 0), "f32[batch,s0]");
  EXPECT_EQ(TypeOfInput(*model, 1), "f32[s0,s1]");
}

TEST(ImportSizesTest, OneExampleIsStaticUnlessDimsAreNamed) {
  const auto module = Script("def forward(self, x: Tensor): return x + 1");
  const NamedTensors inputs = {{"x", at::ones({3, 4})}};
  auto fixed = Import(module, {inputs});
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_EQ(TypeOfInput(*fixed, 0), "f32[3,4]");
  ImportOptions options;
  options.dynamic = {"x:0=rows,-1=columns"};
  auto dynamic = Import(module, {inputs}, options);
  ASSERT_TRUE(dynamic.ok()) << dynamic.status();
  EXPECT_EQ(TypeOfInput(*dynamic, 0), "f32[rows,columns]");
  options.dynamic = {"x:2=rows"};
  EXPECT_THAT(Import(module, {inputs}, options).status().ToString(),
              HasSubstr("DIM=NAME"));
}

TEST(ImportSizesTest, ArithmeticOnSizesStaysSymbolic) {
  auto model =
      Import(Script(R"(
def forward(self, x: Tensor):
    b, s = x.size(0), x.size(1)
    n = (s * 4 + 4) // 4 - 1
    return x.view(b, n, 2, -1).transpose(1, 2).reshape(2 * b, n, 3)
)"),
             {{{"x", at::ones({3, 4, 6})}}, {{"x", at::ones({2, 5, 6})}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Guards(*model), IsEmpty());
  EXPECT_EQ(ToString(Forward(*model).body().results()[0]->type()),
            "f32[2*batch,s0,3]");
}

TEST(ImportInputsTest, ErrorsSayWhatToPass) {
  const auto module = Script(R"(
def forward(self, x: Tensor, sr: int):
    return x * sr
)");
  const at::Tensor x = at::ones({2});
  EXPECT_THAT(Import(module, {{}}).status().ToString(),
              AllOf(HasSubstr("no tensor 'x'"), HasSubstr("(or input_0)"),
                    HasSubstr("--arg sr=VALUE")));
  EXPECT_THAT(Import(module, {{{"x", x}}}).status().ToString(),
              HasSubstr("--arg sr=VALUE"));
  EXPECT_THAT(Import(module, {{{"x", x}, {"z", x}}}).status().ToString(),
              HasSubstr("a tensor 'z'"));
  EXPECT_THAT(Import(module, {{{"x", x}, {"input_0", x}}}).status().ToString(),
              HasSubstr("twice"));
  EXPECT_THAT(Import(module, {{{"x", x}}, {{"x", x.to(at::kLong)}}})
                  .status()
                  .ToString(),
              HasSubstr("dims of i64 in inputs file 2"));
  ImportOptions options;
  options.arguments = {{"sr", "many"}};
  EXPECT_THAT(Import(module, {{{"x", x}}}, options).status().ToString(),
              HasSubstr("not a int"));
  options.arguments = {{"sr", "7"}};
  auto model = Import(module, {{{"x", x}, {"output_0", x}}}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->notes, ElementsAre(HasSubstr("sr = 7")));
  auto outputs = RunImported(*model, {{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(at::equal((*outputs)[0], x * 7));
}

TEST(ImportInputsTest, NestedInputsAreCountedDepthFirst) {
  const auto module = Script(R"(
def forward(self, x: Tensor, past: Tuple[Tuple[Tensor, Tensor], Tensor]):
    (a, b), c = past
    return x + 2 * a + 3 * b + 5 * c, {"twice": 2 * c}
)");
  const at::Tensor one = at::ones({2});
  auto model = Import(module, {{{"x", one},
                                {"input_1", 10 * one},
                                {"input_2", 100 * one},
                                {"input_3", 1000 * one}}});
  ASSERT_TRUE(model.ok()) << model.status();
  auto outputs = RunImported(*model, {{"x", one},
                                      {"input_1", 10 * one},
                                      {"input_2", 100 * one},
                                      {"input_3", 1000 * one}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 2u);
  EXPECT_TRUE(at::equal((*outputs)[0], 5321 * one));
  EXPECT_TRUE(at::equal((*outputs)[1], 2000 * one));
}

TEST(ImportControlFlowTest, BranchesOnSizesFoldAndAreGuarded) {
  auto model = Import(Script(R"(
def forward(self, x: Tensor):
    assert x.dim() == 2, "two dims please"
    if x.size(0) > 2:
        return x + 1
    return x - 1
)"),
                      {{{"x", at::ones({3, 4})}}, {{"x", at::ones({5, 4})}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Guards(*model), ElementsAre("batch > 2"));
  EXPECT_EQ(CountOps(*model, "aten.add"), 1);
  EXPECT_EQ(CountOps(*model, "aten.sub"), 0);
  EXPECT_FALSE(RunImported(*model, {{"x", at::ones({2, 4})}}).ok());
}

TEST(ImportControlFlowTest, AnExampleThatBreaksAGuardIsRefused) {
  const auto module = Script(R"(
def forward(self, x: Tensor):
    y = x * 2
    return y + 1 if x.size(0) > 2 else y - 1
)");
  ImportOptions options;
  options.example_files = {"long.safetensors", "middle.safetensors",
                           "short.safetensors"};
  // By name or by position: the sizes are those of the argument.
  for (const char* name : {"x", "input_0"}) {
    const absl::Status status = Import(module,
                                       {{{"x", at::ones({3})}},
                                        {{"x", at::ones({4})}},
                                        {{name, at::ones({1})}}},
                                       options)
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.ToString(),
                AllOf(HasSubstr("inputs file 3 (short.safetensors)"),
                      HasSubstr("inputs file 1 (long.safetensors)"),
                      HasSubstr("batch > 2"), HasSubstr("1 > 2"),
                      HasSubstr(":4"), HasSubstr("a package for each")));
  }
}

TEST(ImportSizesTest, StaticSizesHaveToAgree) {
  const auto module = Script("def forward(self, x: Tensor): return x + 1");
  ImportOptions options;
  options.static_sizes = true;
  EXPECT_TRUE(
      Import(module, {{{"x", at::ones({3})}}, {{"x", at::ones({3})}}}, options)
          .ok());
  const absl::Status status =
      Import(module, {{{"x", at::ones({3})}}, {{"x", at::ones({4})}}}, options)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("--static"), HasSubstr("[3, 4]")));
}

TEST(ImportControlFlowTest, LoopsAndListsUnroll) {
  ExpectSameAsTorch(Script(R"(
def forward(self, x: Tensor):
    parts: List[Tensor] = []
    total = torch.zeros_like(x[:, 0])
    for i in range(x.size(1)):
        total = total * 0.5 + x[:, i]
        if i % 2 == 0:
            parts.append(total)
    while len(parts) > 2:
        last = parts.pop()
        parts[0] = parts[0] + last
    table = {"a": parts[0], "b": parts[-1]}
    return torch.stack([table["a"], table["b"]], 1), total
)"),
                    {{{"x", at::rand({3, 7})}}});
}

TEST(ImportControlFlowTest, RaisedExceptionsAreReported) {
  EXPECT_THAT(Import(Script(R"(
def forward(self, x: Tensor):
    assert x.size(0) == 7, "seven, not {}".format(x.size(0))
    return x
)"),
                     {{{"x", at::ones({3})}}})
                  .status()
                  .ToString(),
              HasSubstr("seven, not 3"));
}

TEST(ImportControlFlowTest, EndlessRecursionIsRefused) {
  EXPECT_THAT(Import(Script(R"(
def forward(self, x: Tensor):
    i = 0
    while i >= 0:
        i = i + 1
    return x
)"),
                     {{{"x", at::ones({3})}}})
                  .status()
                  .ToString(),
              HasSubstr("iterations"));
}

TEST(ImportInPlaceTest, WritesThroughViewsReachTheirBase) {
  ExpectSameAsTorch(
      Script(R"(
def forward(self, x: Tensor):
    y = x * 2
    q, k, v = y.chunk(3, -1)
    q.mul_(3)
    t = k[:, 1:]
    t.add_(v[:, :-1])
    v[:, 0].fill_(-1.5)
    heads = y.view(y.size(0), y.size(1), 6, 2).transpose(1, 2)
    heads[:, 2].masked_fill_(heads[:, 2] > 1.0, 0.25)
    z = y.permute(2, 0, 1)
    z[3].zero_()
    w = y.unsqueeze(0)
    w.squeeze_(0)
    w.clamp_(-3.0, 2.5)
    flat = w.view(-1)
    flat[::2].neg_()
    return y, k, heads, flat, t
)"),
      {{{"x", at::randn({2, 5, 12})}}, {{"x", at::randn({3, 4, 12})}}});
}

TEST(ImportInPlaceTest, CopiesConvertAndBroadcast) {
  ExpectSameAsTorch(Script(R"(
def forward(self, x: Tensor, i: Tensor):
    y = torch.zeros_like(x)
    y[:, 1:] = i[1:]
    y[0] = 2
    z = y.clone()
    z += 1
    return y, z
)"),
                    {{{"x", at::randn({2, 5})}, {"i", at::arange(5)}}});
}

TEST(ImportInPlaceTest, TheCallerSeesWritesToInputs) {
  const NamedTensors inputs = {{"x", at::randn({4, 3})}};
  ExpectSameAsTorch(Script(R"(
def forward(self, x: Tensor):
    y = x[1:]
    y.add_(1)
    x.t()[0].mul_(2)
    return x, y
)"),
                    {inputs});
  // Through what may be a copy: nobody knows.
  auto model = Import(Script(R"(
def forward(self, x: Tensor):
    y = x.t().reshape(-1)
    y.add_(1)
    return y
)"),
                      {inputs});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(model.status().ToString(),
              AllOf(HasSubstr("input 'x'"), HasSubstr("strides")));
}

TEST(ImportStateTest, BuffersKeepWhatIsWritten) {
  const NamedTensors inputs = {{"x", at::randn({2, 3})}};
  ExpectSameAsTorch(Script(R"(
def forward(self, x: Tensor):
    before = self.count + 0
    self.count.add_(1)
    self.total[0].copy_(x.sum(0))
    return before, x * self.count
)",
                           {},
                           {{"count", at::zeros({}, at::kLong)},
                            {"total", at::zeros({2, 3})}}),
                    {inputs});
}

TEST(ImportStateTest, AttributesKeepTensorsOfTheirShape) {
  const NamedTensors inputs = {{"x", at::randn({2, 3})}};
  ExpectSameAsTorch(Script(R"(
def forward(self, x: Tensor):
    old = self.mean
    self.mean = old * 0.5 + x.mean(0)
    return x - old, self.mean * 2
)",
                           {}, {{"mean", at::zeros({3})}}),
                    {inputs});
}

TEST(ImportStateTest, WhatCannotBeKeptIsNoted) {
  const NamedTensors inputs = {{"x", at::randn({2, 3})}};
  auto model = Import(Script(R"(
def forward(self, x: Tensor):
    self.last = x
    return x + 1
)",
                             {}, {{"last", at::zeros({0})}}),
                      {inputs});
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->notes.size(), 1);
  EXPECT_THAT(model->notes[0],
              AllOf(HasSubstr("'last'"), HasSubstr("not kept")));
  EXPECT_EQ(model->module->functions()[0]->body().results().size(), 1);
}

TEST(ImportStateTest, RunningStatistics) {
  const NamedTensors buffers = {{"mean", at::randn({3})},
                                {"var", at::rand({3}) + 0.5}};
  const NamedTensors inputs = {{"x", at::randn({4, 3, 5})}};
  for (const char* call :
       {"torch.batch_norm(x, None, None, self.mean, self.var, True, 0.3, "
        "1e-05, False)",
        "torch.instance_norm(x, None, None, self.mean, self.var, True, 0.3, "
        "1e-05, False)"}) {
    torch::jit::Module module =
        Script(absl::StrCat("def forward(self, x: Tensor):\n    return ", call),
               {}, buffers);
    auto model = Import(module, {inputs});
    ASSERT_TRUE(model.ok()) << model.status();
    auto session = OpenImported(*model);
    ASSERT_TRUE(session.ok()) << session.status();
    for (int i = 0; i < 2; ++i) {
      const at::Tensor expected = module.forward({inputs[0].second}).toTensor();
      auto outputs = (*session)->Run(inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_TRUE(at::allclose((*outputs)[0], expected, 1e-5, 1e-6)) << call;
      auto state = (*session)->State();
      ASSERT_TRUE(state.ok()) << state.status();
      ASSERT_EQ(state->size(), 2);
      for (const auto& [name, tensor] : *state)
        EXPECT_TRUE(
            at::allclose(tensor, module.attr(name).toTensor(), 1e-5, 1e-6))
            << call << ": " << name;
    }
  }
}

// Whether reshape copies depends on strides: reading what a write may have
// changed must not be guessed.
TEST(ImportInPlaceTest, WritesThatMayOrMayNotShowAreRefused) {
  const NamedTensors inputs = {{"x", at::randn({2, 3})}};
  auto model = Import(Script(R"(
def forward(self, x: Tensor):
    y = x + 1
    z = y.t().reshape(-1)
    z.add_(1)
    return y, z
)"),
                      {inputs});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(model.status().ToString(), HasSubstr("may or may not"));
  // Nobody looks at y again: fine either way.
  ExpectSameAsTorch(Script(R"(
def forward(self, x: Tensor):
    y = x + 1
    z = y.t().reshape(-1)
    z.add_(1)
    return z
)"),
                    {inputs});
}

TEST(ImportWeightsTest, TiedOnesAreOneAndUnusedOnesGo) {
  const at::Tensor storage = at::randn({8, 4});
  const auto module = Script(
      R"(
def forward(self, x: Tensor):
    h = torch.linear(x, self.first)
    return torch.linear(h.t(), self.tied.t()[:, :2]), h + self.shift, x * self.half
)",
      {{"first", storage},
       {"tied", storage},
       {"half", storage.narrow(0, 4, 4)},
       {"unused", at::ones({2})}},
      {{"shift", at::randn({8})}});
  const NamedTensors inputs = {{"x", at::randn({4, 4})}};
  auto model = Import(module, {inputs});
  ASSERT_FALSE(model.ok());  // dims do not fit: the message names the op
  EXPECT_THAT(model.status().ToString(), HasSubstr("aten.linear"));

  const auto good = Script(
      R"(
def forward(self, x: Tensor):
    h = torch.linear(x, self.first)
    return h.mm(self.tied), h + self.shift, x * self.half
)",
      {{"first", storage},
       {"tied", storage},
       {"half", storage.narrow(0, 4, 4)},
       {"unused", at::ones({2})}},
      {{"shift", at::randn({8})}});
  model = Import(good, {inputs});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto& arguments = Forward(*model).arguments();
  ASSERT_EQ(arguments.size(), 4u);
  EXPECT_EQ(arguments[1].name, "first");
  EXPECT_THAT(arguments[1].aliases, ElementsAre("tied"));
  EXPECT_EQ(arguments[1].kind, ArgumentKind::kParameter);
  EXPECT_EQ(arguments[2].name, "half");
  EXPECT_EQ(arguments[3].name, "shift");
  EXPECT_EQ(arguments[3].kind, ArgumentKind::kBuffer);
  ExpectSameAsTorch(good, {inputs});
}

TEST(ImportOpsTest, StrictNamesAllUnknownOperatorsAtOnce) {
  ImportOptions strict;
  strict.strict = true;
  const absl::Status status = Import(Script(R"(
def forward(self, x: Tensor):
    y = torch.pdist(x)
    y = y + x
    z = torch.matrix_exp(y) + 1
    return torch.trapz(z)
)"),
                                     {{{"x", at::ones({3, 3})}}}, strict)
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("aten.pdist"), HasSubstr("matrix_exp"),
                    HasSubstr("aten.trapz")));
}

TEST(ImportOpsTest, UnknownOperatorsRunWhole) {
  const std::vector<NamedTensors> examples = {{{"x", at::randn({2, 5, 5})}},
                                              {{"x", at::randn({3, 7, 7})}}};
  ExpectSameAsTorch(Script(R"(
def forward(self, x: Tensor):
    y = torch.matrix_exp(x * 0.1)
    return y, torch.trapz(y), torch.cov(x[0]), torch.cartesian_prod(x[0, 0])
)"),
                    examples);
  auto model = Import(Script(R"(
def forward(self, x: Tensor):
    return torch.combinations(x, 2)
)"),
                      {{{"x", at::randn({5})}}, {{"x", at::randn({7})}}});
  // No simple expression gives n * (n - 1) / 2: the size is fixed, and the
  // second example does not have it.
  EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition)
      << model.status();
  EXPECT_THAT(model.status().ToString(), HasSubstr("aten::combinations"));
}

TEST(ImportOpsTest, UnknownOperatorsThatCannotRunWholeAreRefused) {
  for (const char* op :
       {"torch.poisson(x)", "torch.unique_consecutive(x)[0]"}) {
    auto model = Import(
        Script(absl::StrCat("def forward(self, x: Tensor):\n    return ", op)),
        {{{"x", at::rand({4})}}});
    EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented) << op;
    EXPECT_THAT(model.status().ToString(), HasSubstr("no row")) << op;
  }
}

TEST(ImportOpsTest, TrainingModeIsRefusedAndEvaluationLeavesNoTrace) {
  const NamedTensors inputs = {{"x", at::ones({3})}};
  auto training = Import(
      Script(
          "def forward(self, x: Tensor): return torch.dropout(x, 0.1, True)"),
      {inputs});
  EXPECT_EQ(training.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(training.status().ToString(), HasSubstr("training"));
  auto evaluation = Import(Script(R"(
def forward(self, x: Tensor):
    return torch.dropout(x, 0.1, False).to(6) * 2
)"),
                           {inputs});
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(Forward(*evaluation).body().ops().size(), 1u);
}

TEST(ImportOpsTest, TrainingKeepsDropoutAndBarriers) {
  ImportOptions train;
  train.train = true;
  const NamedTensors inputs = {{"x", at::ones({3})}};
  auto model = Import(Script(R"(
def forward(self, x: Tensor):
    return (torch.dropout(x, 0.1, True) * x.detach()).sum()
)"),
                      {inputs}, train);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CountOps(*model, "aten.dropout"), 1);
  EXPECT_EQ(CountOps(*model, "aten.detach"), 1);
  auto in_place = Import(Script(R"(
def forward(self, x: Tensor):
    y = x * 2
    y.detach_()
    return y.sum()
)"),
                         {inputs}, train);
  EXPECT_EQ(in_place.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(in_place.status().ToString(), HasSubstr("x.detach()"));
}

TEST(ImportOpsTest, SizesAsTensorsFold) {
  auto model = Import(Script(R"(
def forward(self, x: Tensor):
    n = torch.tensor(x.size(0)) * torch.tensor(3)
    half = torch.floor_divide(n + 1, torch.tensor(2))
    third = torch.div(n, 3, rounding_mode="trunc")
    assert all([int(third) == x.size(0), True])
    return x.new_zeros([int(half)]), n
)"),
                      {{{"x", at::ones({3})}}, {{"x", at::ones({5})}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(ToString(Forward(*model).body().results()[0]->type()),
            "f32[batch + floordiv(batch + 1, 2)]");
  EXPECT_EQ(CountOps(*model, "tp.sym"), 1);
  auto outputs = RunImported(*model, {{"x", at::ones({4})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0].size(0), 6);
  EXPECT_EQ((*outputs)[1].item<int64_t>(), 12);
}

TEST(ImportOpsTest, PositionsStayInsideTheirTable) {
  const auto module = Script(R"(
def forward(self, x: Tensor):
    positions = torch.arange(x.size(1)).add(2, alpha=1).unsqueeze(0)
    return torch.embedding(self.table, positions) + x.unsqueeze(-1)
)",
                             {{"table", at::randn({10, 4})}});
  auto model =
      Import(module, {{{"x", at::ones({1, 3})}}, {{"x", at::ones({1, 5})}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Guards(*model), ElementsAre("s0 + 2 <= 10"));
  EXPECT_TRUE(RunImported(*model, {{"x", at::ones({1, 8})}}).ok());
  EXPECT_THAT(
      RunImported(*model, {{"x", at::ones({1, 9})}}).status().ToString(),
      HasSubstr("s0 + 2 <= 10"));
}

TEST(ImportOpsTest, EmptyCachesVanishFromCat) {
  ExpectSameAsTorch(Script(R"(
def forward(self, x: Tensor):
    return torch.cat([torch.zeros([0]), x, x], -1)
)"),
                    {{{"x", at::randn({2, 3})}}});
}

TEST(ImportOpsTest, OpsKnowTheirModuleAndLine) {
  torch::jit::Module inner("Inner");
  inner.define("def forward(self, x: Tensor):\n    return x.relu()\n");
  torch::jit::Module outer("Outer");
  outer.register_module("block", inner);
  outer.define(
      "def forward(self, x: Tensor):\n    return self.block.forward(x) + 1\n");
  auto model = Import(outer, {{{"x", at::ones({3})}}});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto& ops = Forward(*model).body().ops();
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops.front()->location().module_path, "block");
  EXPECT_EQ(ops.front()->location().line, 2);
  EXPECT_EQ(ops.back()->location().module_path, "");
}

TEST(ImportTest, WhatIsPrintedParses) {
  auto model = Import(Script(R"(
def forward(self, x: Tensor):
    return x.view(-1, 2).softmax(-1) * float('inf'), x.sum(dim=[0], keepdim=True)
)"),
                      {{{"x", at::ones({4, 2})}}, {{"x", at::ones({6, 2})}}});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string text = Print(*model->module);
  auto parsed = Parse(text, "printed");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(Print(**parsed), text);
}

}  // namespace
}  // namespace tp
