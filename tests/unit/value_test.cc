#include "ir/value.h"

#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/text.h"

namespace tp {
namespace {

ArgumentInfo Input(const char* name) {
  return {ArgumentKind::kInput, name, {}};
}

const TensorType kType{DType::kF32, {2, 3}};

class ValueTest : public testing::Test {
 protected:
  ValueTest() : function_(module_.AddFunction("f")), builder_(module_, body()) {
    x_ = function_->AddArgument(kType, Input("x"));
    y_ = function_->AddArgument(kType, Input("y"));
  }

  Block& body() { return function_->body(); }
  Op* Make(std::vector<OperandArg> operands) {
    return builder_.CreateTyped("test.op", std::move(operands), {}, {kType});
  }

  Module module_;
  Function* function_;
  Builder builder_;
  Value* x_;
  Value* y_;
};

TEST_F(ValueTest, NamesOfOps) {
  Op add("aten.add.Tensor", {});
  EXPECT_EQ(add.base_name(), "aten.add");
  EXPECT_TRUE(add.Is("aten.add"));
  EXPECT_TRUE(add.Is("aten.add.Tensor"));
  EXPECT_FALSE(add.Is("aten.add.Scalar"));
  Op linear("aten.linear", {});
  EXPECT_EQ(linear.base_name(), "aten.linear");
  EXPECT_TRUE(linear.Is("aten.linear"));
  EXPECT_EQ(Op("plain", {}).base_name(), "plain");
}

TEST_F(ValueTest, OperandsAreFlattenedOverSlots) {
  Op* op = Make({x_, std::vector<Value*>{y_, nullptr, x_},
                 static_cast<Value*>(nullptr), std::vector<Value*>{}});
  ASSERT_EQ(op->num_operands(), 5);
  EXPECT_EQ(op->operand(1), y_);
  EXPECT_EQ(op->operand(2), nullptr);
  EXPECT_EQ(op->operand_or_null(5), nullptr);
  ASSERT_EQ(op->slots().size(), 4u);
  EXPECT_FALSE(op->slots()[0].is_list);
  EXPECT_TRUE(op->slots()[1].is_list);
  EXPECT_EQ(op->slots()[1].begin, 1);
  EXPECT_EQ(op->slots()[1].size, 3);
  EXPECT_EQ(op->slots()[2].begin, 4);
  EXPECT_EQ(op->slots()[3].size, 0);
}

TEST_F(ValueTest, AttributesKeepTheirOrder) {
  Op op("test.op", {});
  op.SetAttribute("dim", 1);
  op.SetAttribute("keepdim", true);
  op.SetAttribute("eps", 0.5);
  op.SetAttribute("dim", 2);
  ASSERT_EQ(op.attributes().size(), 3u);
  EXPECT_EQ(op.attributes()[0].name, "dim");
  EXPECT_EQ(op.IntOr("dim", 7), 2);
  EXPECT_EQ(op.IntOr("other", 7), 7);
  EXPECT_TRUE(op.BoolOr("keepdim", false));
  EXPECT_EQ(op.FloatOr("eps", 1), 0.5);
  EXPECT_EQ(op.FloatOr("dim", 1), 2.0);
  op.RemoveAttribute("keepdim");
  EXPECT_EQ(op.attribute("keepdim"), nullptr);
  EXPECT_EQ(op.attributes().size(), 2u);
}

TEST_F(ValueTest, RemovedArgumentRenumbersTheRest) {
  Block block;
  block.AddArgument(kType);
  Value* second = block.AddArgument(kType);
  block.RemoveArgument(0);
  ASSERT_EQ(block.arguments().size(), 1u);
  EXPECT_EQ(second->index(), 0);
}

TEST_F(ValueTest, ReplacesUsesInRegionsAndResults) {
  Op* op = Make({x_, std::vector<Value*>{x_, y_}});
  Block* region = op->AddRegion();
  Op* inner =
      Builder(module_, *region).CreateTyped("test.inner", {x_}, {}, {kType});
  region->results().push_back(x_);
  body().results() = {x_, op->result()};
  ReplaceAllUses(body(), x_, y_);
  EXPECT_EQ(op->operand(0), y_);
  EXPECT_EQ(op->operand(1), y_);
  EXPECT_EQ(inner->operand(0), y_);
  EXPECT_EQ(region->results()[0], y_);
  EXPECT_EQ(body().results()[0], y_);
}

TEST_F(ValueTest, ReplacesManyAtOnceWithoutChaining) {
  Op* op = Make({x_, y_});
  ReplaceAllUses(body(), {{x_, y_}, {y_, x_}});
  EXPECT_EQ(op->operand(0), y_);
  EXPECT_EQ(op->operand(1), x_);
}

TEST_F(ValueTest, ErasesChainsOfDeadOps) {
  Op* kept = Make({x_});
  Op* dead = Make({kept->result()});
  Make({dead->result(), x_});
  body().results() = {kept->result()};
  EXPECT_EQ(EraseDeadOps(body()), 2);
  ASSERT_EQ(body().ops().size(), 1u);
  EXPECT_EQ(body().ops().front().get(), kept);
  EXPECT_EQ(EraseDeadOps(body()), 0);
}

TEST_F(ValueTest, UsesInsideRegionsKeepOpsAlive) {
  Op* used = Make({x_});
  Op* op = Make({y_});
  Block* region = op->AddRegion();
  Builder inner(module_, *region);
  Op* yielded = inner.CreateTyped("test.a", {used->result()}, {}, {kType});
  inner.CreateTyped("test.dead", {used->result()}, {}, {kType});
  region->results().push_back(yielded->result());
  body().results() = {op->result()};
  EXPECT_EQ(EraseDeadOps(body()), 1);
  EXPECT_EQ(region->ops().size(), 1u);
  EXPECT_EQ(body().ops().size(), 2u);
  body().results() = {x_};
  EXPECT_EQ(EraseDeadOps(body()), 2);
  EXPECT_TRUE(body().ops().empty());
}

TEST_F(ValueTest, OpsWithoutResultsAreNotDead) {
  builder_.CreateTyped("test.effect", {x_}, {}, {});
  EXPECT_EQ(EraseDeadOps(body()), 0);
}

TEST_F(ValueTest, ErasesALongChainInLinearTime) {
  Value* last = x_;
  for (int i = 0; i < 100000; ++i) last = Make({last})->result();
  EXPECT_EQ(EraseDeadOps(body()), 100000);
}

}  // namespace
}  // namespace tp
