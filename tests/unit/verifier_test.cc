#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/text.h"

namespace tp {
namespace {

ArgumentInfo Input(const char* name) {
  return {ArgumentKind::kInput, name, {}};
}

using testing::AllOf;
using testing::HasSubstr;

class VerifierTest : public testing::Test {
 protected:
  VerifierTest()
      : function_(module_.AddFunction("f")), builder_(module_, body()) {
    module_.set_mesh(Mesh({{"tp", 2}}));
    x_ = function_->AddArgument(Type({4, 6}), Input("x"));
    builder_.set_location({"mlp", "m.py", 3, 0});
  }

  static TensorType Type(std::initializer_list<SymExpr> dims) {
    return {DType::kF32, Dims(dims)};
  }
  Block& body() { return function_->body(); }
  Op* Make(std::vector<OperandArg> operands = {},
           std::vector<NamedAttribute> attributes = {}) {
    return builder_.CreateTyped("test.op", std::move(operands),
                                std::move(attributes), {Type({4, 6})});
  }
  std::string Message() const { return std::string(Verify(module_).message()); }

  Module module_;
  Function* function_;
  Builder builder_;
  Value* x_;
};

TEST_F(VerifierTest, AcceptsAValidModule) {
  Op* op = Make({x_});
  op->result()->set_spec({Placement::Shard(1, DimFactor{2, 3, 1})});
  body().results() = {op->result()};
  EXPECT_TRUE(Verify(module_).ok()) << Message();
}

TEST_F(VerifierTest, UsesFollowDefinitions) {
  Op* user = Make({x_});
  Op* later = Make({x_});
  user->set_operand(0, later->result());
  EXPECT_EQ(Message(),
            "test.op at m.py:3 in mlp: operand 0 is not defined before its "
            "use");
}

TEST_F(VerifierTest, ResultsAreDefinedInTheFunction) {
  Function* other = module_.AddFunction("g");
  other->body().results() = {x_};
  EXPECT_THAT(Message(), HasSubstr("@g returns a value that is not defined"));
}

TEST_F(VerifierTest, RegionsAreScopes) {
  Op* op = Make({x_});
  Block* region = op->AddRegion();
  Op* inner = Builder(module_, *region)
                  .CreateTyped("test.in", {x_}, {}, {Type({4, 6})});
  region->results() = {inner->result()};
  EXPECT_TRUE(Verify(module_).ok()) << Message();
  Make({inner->result()});
  EXPECT_THAT(Message(), HasSubstr("not defined before its use"));
}

TEST_F(VerifierTest, RegionErrorsNameTheInnerOp) {
  Op* op = Make({x_});
  Block* region = op->AddRegion();
  Builder inner(module_, *region);
  inner.set_location({"", "in.py", 9, 0});
  inner.CreateTyped("test.in", {op->result()}, {}, {});
  EXPECT_EQ(Message(),
            "test.in at in.py:9: operand 0 is not defined before its use");
}

TEST_F(VerifierTest, FunctionNamesAreUnique) {
  module_.AddFunction("f");
  EXPECT_EQ(Message(), "two functions are named @f");
}

TEST_F(VerifierTest, WeightNamesAreUnique) {
  function_->AddArgument(Type({2}), {ArgumentKind::kParameter, "w", {}});
  function_->AddArgument(Type({2}), {ArgumentKind::kBuffer, "v", {"w"}});
  EXPECT_EQ(Message(), "two arguments of @f are the weight \"w\"");
}

TEST_F(VerifierTest, AnInputAndAWeightMayShareAName) {
  function_->AddArgument(Type({2}), {ArgumentKind::kParameter, "x", {}});
  EXPECT_TRUE(Verify(module_).ok()) << Message();
}

TEST_F(VerifierTest, SymbolsAreDeclared) {
  Make({x_}, {{"size", Attribute::List{SymExpr::Symbol("batch"), 1}}});
  EXPECT_EQ(Message(),
            "test.op at m.py:3 in mlp: attribute 'size': symbol 'batch' is "
            "not declared");
  module_.assumptions().AddSymbol({"batch", 2, "x", 0});
  EXPECT_TRUE(Verify(module_).ok()) << Message();
}

TEST_F(VerifierTest, SymbolsOfTypesAndGuardsAreDeclared) {
  x_->set_type(Type({SymExpr::Symbol("n")}));
  EXPECT_EQ(Message(), "@f: argument 0: symbol 'n' is not declared");
  x_->set_type(Type({4}));
  module_.assumptions().AddGuard(
      {SymExpr::Symbol("n"), Relation::kLt, 3, "", {}});
  EXPECT_EQ(Message(), "guard n < 3: symbol 'n' is not declared");
}

TEST_F(VerifierTest, SymbolsAreReadFromInputsThatExist) {
  module_.assumptions().AddSymbol({"n", 2, "y", 0});
  EXPECT_THAT(Message(), HasSubstr("the input \"y\", which no function has"));
}

TEST_F(VerifierTest, SymbolsAreReadFromDimsThatExist) {
  module_.assumptions().AddSymbol({"n", 2, "x", 2});
  EXPECT_THAT(Message(), HasSubstr("read from dim 2 of the input \"x\""));
}

TEST_F(VerifierTest, SymbolsAreNoOtherWords) {
  module_.assumptions().AddSymbol({"f32", 2, "", 0});
  EXPECT_THAT(Message(), HasSubstr("cannot be named 'f32'"));
}

TEST_F(VerifierTest, OnePlacementPerAxis) {
  x_->set_spec({Placement(), Placement()});
  EXPECT_EQ(Message(), "@f: argument 0: 2 placements on a mesh of 1 axes");
}

TEST_F(VerifierTest, ShardsAreOfDimsThatExist) {
  x_->set_spec({Placement::Shard(2, 6)});
  EXPECT_THAT(Message(), HasSubstr("S(2) splits a dim that a tensor of 2 "));
}

TEST_F(VerifierTest, BoxesHoldTheDim) {
  Make({x_})->result()->set_spec({Placement::Shard(1, DimFactor{2, 4, 1})});
  EXPECT_EQ(Message(),
            "test.op at m.py:3 in mlp: result 0: the box of S(1:2x[4]) holds "
            "8 indices, but dim 1 of f32[4,6] has 6");
}

TEST_F(VerifierTest, BoxesAreGlobalInRankPrograms) {
  module_.set_rank(1);
  Make({x_})->result()->set_spec({Placement::Shard(1, DimFactor{2, 6, 1})});
  EXPECT_TRUE(Verify(module_).ok()) << Message();
}

TEST_F(VerifierTest, BoxesMayHoldTheDimByAGuard) {
  module_.assumptions().AddSymbol({"n", 4, "x", 0});
  module_.assumptions().AddSymbol({"k", 4, "", 0});
  Op* op = Make({x_});
  op->result()->set_type(Type({SymExpr::Symbol("n")}));
  op->result()->set_spec({Placement::Shard(0, SymExpr::Symbol("k"))});
  EXPECT_FALSE(Verify(module_).ok());
  module_.assumptions().AddGuard(
      {SymExpr::Symbol("n"), Relation::kEq, SymExpr::Symbol("k"), "", {}});
  EXPECT_TRUE(Verify(module_).ok()) << Message();
}

TEST_F(VerifierTest, TheRankIsOnTheMesh) {
  module_.set_rank(2);
  EXPECT_EQ(Message(), "rank 2 is not on the mesh [tp: 2]");
}

TEST_F(VerifierTest, NamesOfOpsHaveANamespace) {
  builder_.CreateTyped("add", {}, {}, {});
  EXPECT_THAT(Message(), HasSubstr("<namespace>.<op>"));
}

TEST_F(VerifierTest, OperandCountsFitRules) {
  builder_.CreateTyped("aten.mm", {x_, x_, x_}, {}, {Type({4, 6})});
  EXPECT_THAT(Message(),
              AllOf(HasSubstr("aten.mm"), HasSubstr("m.py:3 in mlp")));
}

TEST_F(VerifierTest, TooFewOperandsDoNotFitRulesEither) {
  builder_.CreateTyped("aten.mm", {x_}, {}, {Type({4, 6})});
  EXPECT_EQ(Verify(module_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(), AllOf(HasSubstr("aten.mm"), HasSubstr("m.py:3 in mlp"),
                               HasSubstr("1 operands where the op takes 2")));
}

TEST_F(VerifierTest, SizesAreNotNegative) {
  Make({x_})->result()->set_type(Type({4, -6}));
  EXPECT_THAT(Message(), HasSubstr("dim 1 has the negative size -6"));
}

}  // namespace
}  // namespace tp
