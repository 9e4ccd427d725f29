#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/op_test_util.h"

namespace tp {
namespace {

using testing::HasSubstr;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

const SymExpr b = SymExpr::Symbol("b");
const SymExpr s = SymExpr::Symbol("s");

TEST(OpTableTest, RowsAreFoundByFullThenByBaseName) {
  EXPECT_EQ(FindOpDef("aten.add.Tensor")->name, "aten.add.Tensor");
  EXPECT_EQ(FindOpDef("aten.transpose.int")->name, "aten.transpose");
  EXPECT_EQ(FindOpDef("aten.max.dim")->name, "aten.max.dim");
  EXPECT_EQ(FindOpDef("aten.no_such_op"), nullptr);
  EXPECT_EQ(FindOpDef("aten.no_such_op.Tensor"), nullptr);
  EXPECT_EQ(FindOpDef("nodots"), nullptr);
  std::vector<const OpDef*> all = AllOpDefs();
  ASSERT_GT(all.size(), 200u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_NE(all[i]->shape, nullptr) << all[i]->name;
    EXPECT_TRUE(!all[i]->rule.empty() || all[i]->rule_fn != nullptr)
        << all[i]->name;
    if (i > 0) {
      EXPECT_LT(all[i - 1]->name, all[i]->name);
    }
  }
}

TEST(OpTableTest, ErrorsNameTheOpItsPlaceAndOperands) {
  OpBench bench;
  std::string error = bench.Types("aten.mm", {"f32[2,3]", "f32[4,5]"});
  EXPECT_THAT(error, HasSubstr("model.py:7"));
  EXPECT_THAT(error, HasSubstr("aten.mm(f32[2,3], f32[4,5])"));
  EXPECT_THAT(error, HasSubstr("the multiplied dims: 3 and 4 differ"));
  EXPECT_THAT(bench.Types("aten.no_such_op", {"f32[2]"}),
              HasSubstr("no row for this op"));
  // Operands and attributes that are missing or of another kind.
  EXPECT_THAT(bench.Types("aten.mm", {"f32[2,3]"}),
              HasSubstr("operand 1 is missing"));
  EXPECT_THAT(bench.Types("aten.mm", {"", "f32[2,3]"}),
              HasSubstr("operand 0 is missing"));
  EXPECT_THAT(bench.Types("aten.view", {"f32[2,3]"}),
              HasSubstr("attribute size is missing"));
  EXPECT_THAT(bench.Types("aten.view", {"f32[2,3]"}, {{"size", "x"}}),
              HasSubstr("must be a list of integers"));
}

// Every row survives an op without operands and attributes, or with ones
// that make no sense.
TEST(OpTableTest, NonsenseIsAnErrorAndNeverACrash) {
  for (const OpDef* def : AllOpDefs()) {
    for (std::vector<std::string> types :
         {std::vector<std::string>{},
          {"f32[]"},
          {"f32[2]", "f32[3]"},
          {"i64[b]", "f32[0,4]", "bool[]"},
          {"f32[b,4]", "f32[b,4]", "f32[b,4]", "f32[b,4]"},
          {"f32[2,3,4,5]", "i64[2,3]", "f32[s]"}}) {
      OpBench bench;
      std::vector<OpBench::OperandText> operands(types.begin(), types.end());
      for (std::vector<NamedAttribute> attributes :
           {std::vector<NamedAttribute>{},
            {{"dim", 0}, {"size", Ints({2})}, {"shape", Ints({-1})}},
            {{"dim", -9}, {"size", true}, {"dtype", "f32"}, {"end", "x"}},
            {{"dim", 1.5}, {"dtype", DType::kF64}, {"chunks", 0}}}) {
        auto op = bench.Make(def->name, operands, attributes);
        if (op.ok()) {
          auto rule = RuleOf(**op);
          if (!rule.ok()) continue;
          EXPECT_EQ(rule->operands.size(), types.size()) << def->name;
          EXPECT_EQ(static_cast<int>(rule->results.size()),
                    (*op)->num_results())
              << def->name;
        }
        // A rule is asked for types that nobody inferred, too.
        Op raw(def->name, Location());
        for (const OpBench::OperandText& text : operands) {
          (void)text;
          raw.AddOperand(nullptr);
        }
        for (const NamedAttribute& a : attributes) {
          raw.SetAttribute(a.name, a.value);
        }
        (void)RuleOf(raw);
        raw.AddResult(TensorType{DType::kF32, {SymExpr(2), b}});
        (void)RuleOf(raw);
        (void)InferTypes(raw, bench.module().assumptions());
      }
    }
  }
}

TEST(PointwiseShapeTest, BroadcastsAndPromotes) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.add.Tensor", {"f32[b,1,s]", "f32[4,1]"}),
            "f32[b,4,s]");
  EXPECT_EQ(bench.Types("aten.mul.Tensor", {"f32[b,s]", "f64[]"}), "f32[b,s]");
  EXPECT_EQ(bench.Types("aten.mul.Tensor", {"f16[b]", "f32[b]"}), "f32[b]");
  EXPECT_EQ(bench.Types("aten.mul.Tensor", {"i64[b]", "f64[]"}), "f64[b]");
  EXPECT_EQ(bench.Types("aten.mul.Scalar", {"i64[b]"}, {{"other", 2.0}}),
            "f32[b]");
  EXPECT_EQ(bench.Types("aten.mul.Scalar", {"bf16[b]"}, {{"other", 2.0}}),
            "bf16[b]");
  EXPECT_EQ(bench.Types("aten.add.Scalar", {"bool[b]"}, {{"other", 1}}),
            "i64[b]");
  EXPECT_EQ(bench.Types("aten.div.Tensor", {"i64[b]", "i64[]"}), "f32[b]");
  EXPECT_EQ(bench.Types("aten.div.Tensor_mode", {"i64[b]", "i64[]"},
                        {{"rounding_mode", "floor"}}),
            "i64[b]");
  EXPECT_EQ(bench.Types("aten.rsqrt", {"i64[2]"}), "f32[2]");
  EXPECT_EQ(bench.Types("aten.gelu", {"bf16[b,2]"}), "bf16[b,2]");
  EXPECT_EQ(bench.Types("aten.gt.Scalar", {"f32[b]"}, {{"other", 0}}),
            "bool[b]");
  EXPECT_EQ(bench.Types("aten.le.Tensor", {"i64[b,1]", "i64[1,s]"}),
            "bool[b,s]");
  EXPECT_EQ(
      bench.Types("aten.pow.Tensor_Scalar", {"f32[b]"}, {{"exponent", 2}}),
      "f32[b]");
  EXPECT_EQ(bench.Types("aten.pow.Scalar", {"i64[8]"}, {{"self", 0.5}}),
            "f32[8]");
  EXPECT_EQ(bench.Guards(), "");
}

TEST(PointwiseShapeTest, SizesThatAreUnknownAreDecidedByTheExamples) {
  OpBench bench;
  EXPECT_THAT(bench.Types("aten.add.Tensor", {"f32[b]", "f32[s]"}),
              HasSubstr("b and s differ"));
  EXPECT_EQ(bench.Types("aten.add.Tensor", {"f32[b,2]", "f32[5,2]"}),
            "f32[5,2]");
  EXPECT_THAT(bench.Guards(), HasSubstr("b == 5"));
  EXPECT_THAT(bench.Types("aten.add.Tensor", {"f32[2]", "f32[3]"}),
              HasSubstr("2 and 3 differ"));
}

TEST(PointwiseShapeTest, WhereAndMaskedFill) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.where.self", {"bool[b,1]", "f32[s]", "f32[]"}),
            "f32[b,s]");
  EXPECT_EQ(bench.Types("aten.where.ScalarOther", {"bool[b]", "f32[]"},
                        {{"other", -3.4e38}}),
            "f32[b]");
  EXPECT_EQ(bench.Types("aten.masked_fill.Scalar", {"i64[b,s]", "bool[s]"},
                        {{"value", 0.5}}),
            "i64[b,s]");
}

TEST(CastShapeTest, DTypes) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.to.dtype", {"i64[b]"}, {{"dtype", DType::kF32}}),
            "f32[b]");
  EXPECT_EQ(bench.Types("aten.to.dtype_layout", {"i64[b]"}), "i64[b]");
  EXPECT_EQ(bench.Types("aten.type_as", {"i64[b]", "f16[2]"}), "f16[b]");
}

TEST(LinearShapeTest, Products) {
  OpBench bench;
  EXPECT_EQ(
      bench.Types("aten.linear", {"f32[b,s,96]", "f32[64,96]", "f32[64]"}),
      "f32[b,s,64]");
  EXPECT_EQ(
      bench.Types("aten.addmm", {"f32[288]", "f32[b*s,96]", "f32[96,288]"}),
      "f32[b*s,288]");
  EXPECT_EQ(bench.Types("aten.bmm", {"f32[8*b,s,12]", "f32[8*b,12,t]"}),
            "f32[8*b,s,t]");
  EXPECT_EQ(bench.Types("aten.matmul", {"f32[b,8,s,12]", "f32[12,t]"}),
            "f32[b,8,s,t]");
  EXPECT_EQ(bench.Types("aten.matmul", {"f32[12]", "f32[b,12,t]"}), "f32[b,t]");
  EXPECT_EQ(bench.Types("aten.matmul", {"f32[b,s,12]", "f32[12]"}), "f32[b,s]");
  EXPECT_EQ(bench.Types("aten.matmul", {"f32[3]", "f32[3]"}), "f32[]");
  EXPECT_EQ(bench.Types("aten.matmul", {"f32[b,1,s,4]", "f32[8,4,t]"}),
            "f32[b,8,s,t]");
  EXPECT_EQ(bench.Types("aten.baddbmm",
                        {"f32[8*b,1,t]", "f32[8*b,s,12]", "f32[8*b,12,t]"}),
            "f32[8*b,s,t]");
  EXPECT_EQ(bench.Types("aten.einsum", {ListOf{{"f32[b,s,4]", "f32[6,4]"}}},
                        {{"equation", "bsk,nk->bsn"}}),
            "f32[b,s,6]");
}

TEST(AttentionShapeTest, HeadsMasksAndGroups) {
  OpBench bench;
  const std::string sdpa = "aten.scaled_dot_product_attention";
  EXPECT_EQ(bench.Types(sdpa, {"f32[b,8,s,12]", "f32[b,8,t,12]",
                               "f32[b,8,t,16]", "f32[b,1,s,t]"}),
            "f32[b,8,s,16]");
  EXPECT_EQ(
      bench.Types(sdpa, {"f32[b,8,s,12]", "f32[b,1,s,12]", "f32[b,1,s,12]"}),
      "f32[b,8,s,12]");
  EXPECT_EQ(
      bench.Types(sdpa, {"f32[b,8,s,12]", "f32[b,2,s,12]", "f32[b,2,s,12]"},
                  {{"enable_gqa", true}}),
      "f32[b,8,s,12]");
  EXPECT_THAT(
      bench.Types(sdpa, {"f32[b,8,s,12]", "f32[b,2,s,12]", "f32[b,2,s,12]"}),
      HasSubstr("8 and 2 differ"));
}

TEST(ViewShapeTest, SizesResolve) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.view", {"f32[b,s,96]"},
                        {{"size", Ints({b, s, -1, 12})}}),
            "f32[b,s,8,12]");
  EXPECT_EQ(bench.Types("aten.reshape", {"f32[b,8,s,12]"},
                        {{"shape", Ints({-1, 12})}}),
            "f32[8*b*s,12]");
  EXPECT_EQ(
      bench.Types("aten.view", {"f32[b,s,257]"}, {{"size", Ints({-1, 257})}}),
      "f32[b*s,257]");
  EXPECT_EQ(bench.Guards(), "");
  EXPECT_THAT(
      bench.Types("aten.view", {"f32[b,96]"}, {{"size", Ints({b, 90})}}),
      HasSubstr("96*b and 90*b differ"));
  EXPECT_THAT(bench.Types("aten.view", {"f32[10]"}, {{"size", Ints({-1, 3})}}),
              HasSubstr("10 elements do not divide by 3"));
  EXPECT_THAT(bench.Types("aten.view", {"f32[4]"}, {{"size", Ints({-1, -1})}}),
              HasSubstr("two sizes are -1"));
  EXPECT_EQ(bench.Types("aten.flatten.using_ints", {"f32[b,s,2,3]"},
                        {{"start_dim", 1}, {"end_dim", -2}}),
            "f32[b,2*s,3]");
  EXPECT_EQ(bench.Types("aten.unflatten.int", {"f32[b,96]"},
                        {{"dim", -1}, {"sizes", Ints({8, -1})}}),
            "f32[b,8,12]");
}

TEST(ViewShapeTest, SqueezePermuteExpand) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.unsqueeze", {"f32[b,s]"}, {{"dim", -1}}),
            "f32[b,s,1]");
  EXPECT_EQ(bench.Types("aten.squeeze.dim", {"f32[b,1,s]"}, {{"dim", 1}}),
            "f32[b,s]");
  EXPECT_EQ(bench.Types("aten.squeeze.dim", {"f32[2,1,3]"}, {{"dim", 0}}),
            "f32[2,1,3]");
  EXPECT_EQ(bench.Types("aten.transpose.int", {"f32[b,s,3]"},
                        {{"dim0", 1}, {"dim1", -1}}),
            "f32[b,3,s]");
  EXPECT_EQ(
      bench.Types("aten.permute", {"f32[b,s,3]"}, {{"dims", Ints({2, 0, 1})}}),
      "f32[3,b,s]");
  EXPECT_EQ(bench.Types("aten.movedim.intlist", {"f32[b,s,3]"},
                        {{"source", Ints({2})}, {"destination", Ints({0})}}),
            "f32[3,b,s]");
  EXPECT_EQ(bench.Types("aten.t", {"f32[2,3]"}), "f32[3,2]");
  EXPECT_EQ(bench.Types("aten.expand", {"f32[b,1,s]"},
                        {{"size", Ints({2, -1, 4, s})}}),
            "f32[2,b,4,s]");
  EXPECT_THAT(bench.Types("aten.expand", {"f32[3]"}, {{"size", Ints({4})}}),
              HasSubstr("3 and 4 differ"));
  EXPECT_EQ(
      bench.Types("aten.repeat", {"f32[b,3]"}, {{"repeats", Ints({2, 1, 4})}}),
      "f32[2,b,12]");
}

TEST(SliceShapeTest, PythonBounds) {
  OpBench bench;
  auto slice = [&bench](const char* type, std::vector<NamedAttribute> a) {
    return bench.Types("aten.slice.Tensor", {type}, std::move(a));
  };
  EXPECT_EQ(slice("f32[b,s]", {{"dim", 1}, {"start", 0}, {"end", kMax}}),
            "f32[b,s]");
  EXPECT_EQ(slice("f32[b,s]", {{"dim", 1}, {"start", 1}, {"end", kMax}}),
            "f32[b,s - 1]");
  EXPECT_EQ(slice("f32[b,s]", {{"dim", 1}, {"start", 0}, {"end", -1}}),
            "f32[b,s - 1]");
  EXPECT_EQ(slice("f32[b,s]", {{"dim", 1}, {"start", -1}}), "f32[b,1]");
  EXPECT_EQ(slice("f32[10]", {{"start", 2}, {"end", 100}}), "f32[8]");
  EXPECT_EQ(slice("f32[10]", {{"start", 5}, {"end", 2}}), "f32[0]");
  EXPECT_EQ(slice("f32[10]", {{"start", 0}, {"end", 9}, {"step", 2}}),
            "f32[5]");
  EXPECT_EQ(bench.Guards(), "");
  EXPECT_EQ(slice("f32[1,64]", {{"dim", 1}, {"start", 0}, {"end", s}}),
            "f32[1,s]");
  EXPECT_EQ(bench.Guards(), "s <= 64");
  EXPECT_EQ(slice("f32[4]", {{"start", 0}, {"end", s}}), "f32[4]");
  EXPECT_THAT(bench.Guards(), HasSubstr("s > 4"));
  EXPECT_EQ(bench.Types("aten.select.int", {"f32[b,3,s]"},
                        {{"dim", 1}, {"index", -1}}),
            "f32[b,s]");
  EXPECT_THAT(
      bench.Types("aten.select.int", {"f32[b,3]"}, {{"dim", 1}, {"index", 3}}),
      HasSubstr("aten.select"));
}

TEST(SplitShapeTest, Parts) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.split.Tensor", {"f32[b,10]"},
                        {{"split_size", 4}, {"dim", 1}}),
            "f32[b,4] f32[b,4] f32[b,2]");
  EXPECT_EQ(
      bench.Types("aten.chunk", {"f32[b,7]"}, {{"chunks", 3}, {"dim", -1}}),
      "f32[b,3] f32[b,3] f32[b,1]");
  EXPECT_EQ(bench.Types("aten.split_with_sizes", {"f32[b,7]"},
                        {{"split_sizes", Ints({3, 4})}, {"dim", 1}}),
            "f32[b,3] f32[b,4]");
  EXPECT_EQ(bench.Types("aten.unbind.int", {"f32[2,b]"}), "f32[b] f32[b]");
}

TEST(JoinShapeTest, CatStackPad) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.cat", {ListOf{{"f32[b,s,4]", "f32[b,1,4]"}}},
                        {{"dim", 1}}),
            "f32[b,s + 1,4]");
  EXPECT_EQ(
      bench.Types("aten.stack", {ListOf{{"f32[b]", "f32[b]"}}}, {{"dim", -1}}),
      "f32[b,2]");
  EXPECT_EQ(bench.Types("aten.pad", {"i64[b,s]"}, {{"pad", Ints({0, 1})}}),
            "i64[b,s + 1]");
  EXPECT_EQ(bench.Types("aten.constant_pad_nd", {"f32[2,3]"},
                        {{"pad", Ints({1, 1, 0, 2})}}),
            "f32[4,5]");
}

TEST(IndexingShapeTest, IndexGatherScatter) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.index.Tensor",
                        {"f32[b,10,s]", ListOf{{"", "i64[3,1]", "i64[4]"}}}),
            "f32[b,3,4]");
  EXPECT_EQ(bench.Types("aten.index.Tensor",
                        {"f32[b,10,s]", ListOf{{"i64[2]", "", "i64[2]"}}}),
            "f32[2,10]");
  EXPECT_THAT(
      bench.Types("aten.index.Tensor", {"f32[b,10]", ListOf{{"bool[b]"}}}),
      HasSubstr("depends on data"));
  EXPECT_EQ(bench.Types("aten.gather", {"f32[b,10]", "i64[b,3]"}, {{"dim", 1}}),
            "f32[b,3]");
  EXPECT_EQ(bench.Types("aten.slice_scatter", {"i64[b,s]", "i64[b,s - 1]"},
                        {{"dim", 1}, {"start", 1}}),
            "i64[b,s]");
  EXPECT_EQ(bench.Types("aten.select_scatter", {"i64[b,s]", "i64[b]"},
                        {{"dim", 1}, {"index", 0}}),
            "i64[b,s]");
  EXPECT_EQ(bench.Types("aten.embedding", {"f32[257,96]", "i64[b,s]"}),
            "f32[b,s,96]");
  EXPECT_EQ(bench.Types("aten.one_hot", {"i64[b]"}, {{"num_classes", 4}}),
            "i64[b,4]");
}

TEST(ReductionShapeTest, DimsKeepdimAndDTypes) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.sum.dim_IntList", {"i32[b,s,3]"},
                        {{"dim", Ints({-1})}, {"keepdim", true}}),
            "i64[b,s,1]");
  EXPECT_EQ(bench.Types("aten.sum", {"f16[b]"}), "f16[]");
  EXPECT_EQ(
      bench.Types("aten.mean.dim", {"f32[b,s,3]"}, {{"dim", Ints({0, 2})}}),
      "f32[s]");
  EXPECT_THAT(bench.Types("aten.mean", {"i64[b]"}),
              HasSubstr("floating-point"));
  EXPECT_EQ(bench.Types("aten.max.dim", {"f32[b,s]"}, {{"dim", 1}}),
            "f32[b] i64[b]");
  EXPECT_EQ(bench.Types("aten.max.other", {"f32[b,1]", "f32[s]"}), "f32[b,s]");
  EXPECT_EQ(bench.Types("aten.argmax", {"f32[b,s]"}), "i64[]");
  EXPECT_EQ(bench.Types("aten.any.dim", {"f32[b,s]"}, {{"dim", 0}}), "bool[s]");
  EXPECT_EQ(bench.Types("aten.cumsum", {"bool[b,s]"}, {{"dim", 1}}),
            "i64[b,s]");
  EXPECT_EQ(bench.Types("aten.softmax.int", {"f16[b,s]"},
                        {{"dim", -1}, {"dtype", DType::kF32}}),
            "f32[b,s]");
}

TEST(NormShapeTest, Norms) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.layer_norm", {"f32[b,s,96]", "f32[96]", ""},
                        {{"normalized_shape", Ints({96})}}),
            "f32[b,s,96]");
  EXPECT_EQ(bench.Types("aten.native_layer_norm",
                        {"f32[b,s,96]", "f32[96]", "f32[96]"},
                        {{"normalized_shape", Ints({96})}}),
            "f32[b,s,96] f32[b,s,1] f32[b,s,1]");
  EXPECT_THAT(bench.Types("aten.layer_norm", {"f32[b,96]"},
                          {{"normalized_shape", Ints({95})}}),
              HasSubstr("96 and 95 differ"));
  EXPECT_THAT(
      bench.Types("aten.batch_norm", {"f32[b,3,4]", "", "", "f32[3]", "f32[3]"},
                  {{"training", true}}),
      HasSubstr("running statistics"));
}

TEST(LossShapeTest, CrossEntropy) {
  OpBench bench;
  EXPECT_EQ(
      bench.Types("aten.cross_entropy_loss", {"f32[b*s,257]", "i64[b*s]"}),
      "f32[]");
  EXPECT_EQ(bench.Types("aten.cross_entropy_loss", {"f32[b,257,s]", "i64[b,s]"},
                        {{"reduction", 0}}),
            "f32[b,s]");
}

TEST(ConvShapeTest, SizesGroupsAndTransposed) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten._convolution",
                        {"f32[b,3,32,32]", "f32[96,3,8,8]", "f32[96]"},
                        {{"stride", Ints({8, 8})},
                         {"padding", Ints({0, 0})},
                         {"dilation", Ints({1, 1})},
                         {"transposed", false},
                         {"output_padding", Ints({0, 0})},
                         {"groups", 1}}),
            "f32[b,96,4,4]");
  EXPECT_EQ(bench.Types("aten.conv1d", {"f32[b,8,s]", "f32[8,1,3]"},
                        {{"padding", Ints({1})}, {"groups", 8}}),
            "f32[b,8,s]");
  EXPECT_EQ(bench.Types("aten.conv_transpose2d.input",
                        {"f32[b,4,5,5]", "f32[4,6,3,3]"},
                        {{"stride", Ints({2, 2})},
                         {"padding", Ints({1, 1})},
                         {"output_padding", Ints({1, 1})}}),
            "f32[b,6,10,10]");
  EXPECT_THAT(bench.Types("aten.conv2d", {"f32[b,4,5,5]", "f32[4,3,3,3]"}),
              HasSubstr("channels"));
  EXPECT_EQ(bench.Types("aten.max_pool2d", {"f32[b,4,7,7]"},
                        {{"kernel_size", Ints({3, 3})},
                         {"stride", Ints({2, 2})},
                         {"padding", Ints({1, 1})}}),
            "f32[b,4,4,4]");
  EXPECT_EQ(bench.Types("aten.adaptive_avg_pool2d", {"f32[b,4,7,7]"},
                        {{"output_size", Ints({1, 1})}}),
            "f32[b,4,1,1]");
}

TEST(CreationShapeTest, DTypesAndSizes) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.arange", {}, {{"end", s}}), "i64[s]");
  EXPECT_EQ(
      bench.Types("aten.arange.start", {}, {{"start", 1}, {"end", s + 1}}),
      "i64[s]");
  EXPECT_EQ(bench.Types("aten.arange.start_step", {},
                        {{"start", 0}, {"end", 12}, {"step", 5}}),
            "i64[3]");
  EXPECT_EQ(bench.Types("aten.arange.start_step", {},
                        {{"start", 5}, {"end", 0}, {"step", -2}}),
            "i64[3]");
  EXPECT_EQ(bench.Types("aten.arange", {}, {{"end", 2.5}}), "f32[3]");
  EXPECT_EQ(bench.Types("aten.full", {},
                        {{"size", Ints({b, 2})}, {"fill_value", 1.5}}),
            "f32[b,2]");
  EXPECT_EQ(
      bench.Types("aten.full", {}, {{"size", Ints({})}, {"fill_value", true}}),
      "bool[]");
  EXPECT_EQ(bench.Types("aten.zeros", {},
                        {{"size", Ints({b})}, {"dtype", DType::kI64}}),
            "i64[b]");
  EXPECT_EQ(bench.Types("aten.new_ones", {"i64[b]"}, {{"size", Ints({s})}}),
            "i64[s]");
  EXPECT_EQ(bench.Types("aten.full_like", {"i64[b]"}, {{"fill_value", 15}}),
            "i64[b]");
  EXPECT_EQ(bench.Types("tp.sym", {}, {{"value", b * s}}), "i64[]");
}

TEST(SortShapeTest, ValuesAndIndices) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.topk", {"f32[b,9]"}, {{"k", 2}}),
            "f32[b,2] i64[b,2]");
  EXPECT_THAT(bench.Types("aten.topk", {"f32[b,9]"}, {{"k", 10}}),
              HasSubstr("aten.topk"));
}

TEST(MiscShapeTest, RecurrentGroupedAndDataDependent) {
  OpBench bench;
  EXPECT_EQ(bench.Types("aten.lstm.input",
                        {"f32[s,b,8]", ListOf{{"f32[2,b,6]", "f32[2,b,6]"}},
                         ListOf{{"f32[24,8]", "f32[24,6]"}}},
                        {{"bidirectional", true}, {"num_layers", 1}}),
            "f32[s,b,12] f32[2,b,6] f32[2,b,6]");
  EXPECT_EQ(
      bench.Types("aten._grouped_mm", {"f32[s,10]", "f32[4,10,6]", "i32[4]"}),
      "f32[s,6]");
  // Rows of 16 bytes stay together, for LibTorch's kernel.
  EXPECT_EQ(
      bench.Rule("aten._grouped_mm", {"f32[s,12]", "f32[4,12,8]", "i32[4]"}),
      "a^ (b+ c^), f^ (b+ c^) (d e^), g^ -> a^ (d e^) partial 0|1");
  EXPECT_EQ(bench.Types("aten.histc", {"f32[s]"}, {{"bins", 8}}), "f32[8]");
  auto nonzero = bench.Make("aten.nonzero", {"f32[s]"});
  EXPECT_EQ(nonzero.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(nonzero.status().message()),
              HasSubstr("depends on data"));
  EXPECT_EQ(bench.Make("aten.where", {"bool[s]"}).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tp
