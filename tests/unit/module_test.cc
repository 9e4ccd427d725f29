#include "ir/module.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/text.h"

namespace tp {
namespace {

ArgumentInfo Input(const char* name) {
  return {ArgumentKind::kInput, name, {}};
}

constexpr char kText[] = R"(tpir 1
mesh @m = [dp: 2, tp: 2]
symbol n = 4 from "x":0
guard n <= 64 because "test" loc "a.py":3
func @f(
    %x: f32[n,8] <dp: R, tp: R>,
    %w: f32[8] <dp: R, tp: S(0)> param "w" alias "v") -> (f32[n,8], f32[n,8]) {
  %0:2 = test.two(%x, [%w, none], none) {a = [1, "b"]} : f32[n,8], f32[n,8]  loc "a.py":4 in "m"
  %y = test.if(%0#1) { ^(%1: f32[n,8])
    %2 = test.inner(%1, %w) : f32[n,8]
    yield %2
  } : f32[n,8] <dp: R, tp: S(1:2x[4])>
  return %y, %0#0
}

func @g() -> () {
  return
}
)";

TEST(ModuleTest, ClonePrintsTheSame) {
  auto module = Parse(kText, "test");
  ASSERT_TRUE(module.ok()) << module.status();
  std::unique_ptr<Module> clone = CloneModule(**module);
  EXPECT_EQ(Print(*clone), kText);
  EXPECT_TRUE(Verify(*clone).ok());
}

TEST(ModuleTest, CloneSharesNothing) {
  auto module = Parse(kText, "test");
  ASSERT_TRUE(module.ok()) << module.status();
  std::unique_ptr<Module> clone = CloneModule(**module);
  module->reset();  // a use of the original would be seen by sanitizers
  EXPECT_EQ(Print(*clone), kText);
}

TEST(ModuleTest, CloneKeepsTheRank) {
  Module module;
  module.set_mesh(Mesh({{"tp", 2}}));
  module.set_rank(1);
  EXPECT_EQ(CloneModule(module)->rank(), 1);
}

TEST(ModuleTest, FindsFunctions) {
  auto module = Parse(kText, "test");
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_NE((*module)->function("g"), nullptr);
  EXPECT_EQ((*module)->function("g")->name(), "g");
  EXPECT_EQ((*module)->function("h"), nullptr);
}

TEST(BuilderTest, InsertsBeforeAPosition) {
  Module module;
  Function* function = module.AddFunction("f");
  TensorType type{DType::kF32, {2}};
  Value* x = function->AddArgument(type, Input("x"));
  Builder end(module, function->body());
  Op* last = end.CreateTyped("test.last", {x}, {}, {type});
  Builder before(module, function->body(), function->body().ops().begin());
  before.set_location({"", "a.py", 3, 0});
  Op* first = before.CreateTyped("test.first", {x}, {}, {type});
  Op* second = before.CreateTyped("test.second", {x}, {}, {type});
  std::vector<Op*> order;
  for (const auto& op : function->body().ops()) order.push_back(op.get());
  EXPECT_THAT(order, testing::ElementsAre(first, second, last));
  EXPECT_EQ(first->location().line, 3);
}

TEST(BuilderTest, CreateInfersTypes) {
  Module module;
  Function* function = module.AddFunction("f");
  Value* a = function->AddArgument({DType::kF32, {4, 3}}, Input("a"));
  Value* b = function->AddArgument({DType::kF32, {3, 5}}, Input("b"));
  Builder builder(module, function->body());
  absl::StatusOr<Op*> product = builder.Create("aten.mm", {a, b});
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(ToString((*product)->result()->type()), "f32[4,5]");
}

TEST(BuilderTest, CreateFailsWithTheLocationAndChangesNothing) {
  Module module;
  Function* function = module.AddFunction("f");
  Value* a = function->AddArgument({DType::kF32, {4, 3}}, Input("a"));
  Builder builder(module, function->body());
  builder.set_location({"block.0", "m.py", 7, 0});
  absl::StatusOr<Op*> product = builder.Create("aten.mm", {a, a});
  ASSERT_FALSE(product.ok());
  EXPECT_THAT(std::string(product.status().message()),
              testing::AllOf(testing::HasSubstr("aten.mm"),
                             testing::HasSubstr("m.py:7 in block.0")));
  EXPECT_TRUE(function->body().ops().empty());
}

}  // namespace
}  // namespace tp
