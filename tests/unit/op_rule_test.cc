#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/status.h"
#include "tests/unit/op_test_util.h"

namespace tp {
namespace {

using testing::HasSubstr;
using testing::Not;

const SymExpr b = SymExpr::Symbol("b");
const SymExpr s = SymExpr::Symbol("s");

TEST(PointwiseRuleTest, PartialPassesWhereTheOpIsLinear) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.add.Tensor", {"f32[b,s]", "f32[s]"}),
            "d0 d1, d1 -> d0 d1 partial 0&1");
  EXPECT_EQ(bench.Rule("aten.mul.Tensor", {"f32[b,1]", "f32[b,s]"}),
            "d0 1, d0 d1 -> d0 d1 partial 0|1");
  EXPECT_EQ(bench.Rule("aten.gelu", {"f32[b,4]"}), "d0 d1 -> d0 d1");
  EXPECT_THAT(bench.Rule("aten.add.Scalar", {"f32[b]"}, {{"other", 1.0}}),
              Not(HasSubstr("partial")));
  EXPECT_THAT(bench.Rule("aten.add.Scalar", {"f32[b]"}, {{"other", 0.0}}),
              HasSubstr("partial 0"));
  EXPECT_THAT(bench.Rule("aten.rsub.Scalar", {"f32[b]"}, {{"other", 1}}),
              Not(HasSubstr("partial")));
  EXPECT_THAT(bench.Rule("aten.div.Tensor", {"f32[b]", "f32[]"}),
              HasSubstr("partial 0"));
  EXPECT_THAT(bench.Rule("aten.div.Tensor_mode", {"f32[b]", "f32[]"},
                         {{"rounding_mode", "trunc"}}),
              Not(HasSubstr("partial")));
  EXPECT_THAT(bench.Rule("aten.masked_fill.Scalar", {"f32[b]", "bool[b]"},
                         {{"value", 0}}),
              HasSubstr("partial 0"));
  EXPECT_THAT(bench.Rule("aten.masked_fill.Scalar", {"f32[b]", "bool[b]"},
                         {{"value", -1.0}}),
              Not(HasSubstr("partial")));
  EXPECT_THAT(bench.Rule("aten.where.self", {"bool[b]", "f32[b]", "f32[b]"}),
              HasSubstr("partial 1&2"));
  EXPECT_THAT(bench.Rule("aten.where.ScalarOther", {"bool[b]", "f32[b]"},
                         {{"other", 0.0}}),
              HasSubstr("partial 1"));
  EXPECT_THAT(bench.Rule("aten.where.ScalarOther", {"bool[b]", "f32[b]"},
                         {{"other", -1.0}}),
              Not(HasSubstr("partial")));
}

TEST(EmbeddingRuleTest, ARankHoldsOneRangeOfRows) {
  OpBench bench;
  auto op = bench.Make("aten.embedding", {"f32[12,6]", "i64[b]"});
  ASSERT_TRUE(op.ok()) << op.status();
  auto rule = RuleOf(**op);
  ASSERT_TRUE(rule.ok()) << rule.status();
  auto offered = [&](DimFactor box) {
    return ToFactorSharding(*rule, rule->operands[0],
                            Placement::Shard(0, std::move(box)), 2)
        .has_value();
  };
  EXPECT_TRUE(offered({1, 12, 1}));
  EXPECT_TRUE(offered({1, 6, 2}));
  EXPECT_TRUE(offered({1, 3, 4}));
  // Rows 0, 1, 2 and 6, 7, 8 on the first rank: no offset says which.
  EXPECT_FALSE(offered({2, 6, 1}));
  EXPECT_FALSE(offered({2, 3, 2}));
  // The columns are not so.
  EXPECT_TRUE(ToFactorSharding(*rule, rule->operands[0],
                               Placement::Shard(1, DimFactor{3, 2, 1}), 2)
                  .has_value());
}

TEST(CastRuleTest, PartialSumsAreNotRounded) {
  OpBench bench;
  auto cast = [&bench](const char* type, DType to) {
    return bench.Rule("aten.to.dtype", {type}, {{"dtype", to}});
  };
  EXPECT_EQ(cast("f32[b]", DType::kF64), "a -> a partial 0");
  EXPECT_EQ(cast("bf16[b]", DType::kF32), "a -> a partial 0");
  EXPECT_EQ(cast("f32[b]", DType::kF32), "a -> a partial 0");
  EXPECT_EQ(cast("f32[b]", DType::kBF16), "a -> a");
  EXPECT_EQ(cast("f32[b]", DType::kI64), "a -> a");
  EXPECT_EQ(cast("i64[b]", DType::kF32), "a -> a");
}

TEST(DropoutRuleTest, TrainingIsWhole) {
  OpBench bench;
  EXPECT_EQ(
      bench.Rule("aten.dropout", {"f32[b,4]"}, {{"p", 0.1}, {"train", false}}),
      "d0 d1 -> d0 d1 partial 0");
  EXPECT_EQ(
      bench.Rule("aten.dropout", {"f32[b,4]"}, {{"p", 0.1}, {"train", true}}),
      "1 1 -> 1 1");
}

TEST(LinearRuleTest, ABiasKeepsTheSummedDimWhole) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.linear", {"f32[b,s,96]", "f32[64,96]"}),
            "a b c+, d c+ -> a b d partial 0|1");
  EXPECT_EQ(bench.Rule("aten.linear", {"f32[b,s,96]", "f32[64,96]", "f32[64]"}),
            "a b c^, d c^, d -> a b d");
  EXPECT_EQ(bench.Rule("aten.mm", {"f32[b,96]", "f32[96,64]"}),
            "m k+, k+ n -> m n partial 0|1");
  EXPECT_EQ(bench.Rule("aten.addmm", {"f32[64]", "f32[b,96]", "f32[96,64]"}),
            "c, a b^, b^ c -> a c");
  EXPECT_EQ(bench.Rule("aten.baddbmm",
                       {"f32[8*b,1,s]", "f32[8*b,s,4]", "f32[8*b,4,s]"}),
            "a 1 d, a b c^, a c^ d -> a b d");
}

TEST(LinearRuleTest, MatmulOfAnyDims) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.matmul", {"f32[b,8,s,12]", "f32[b,8,12,t]"}),
            "b a c d+, b a d+ e -> b a c e partial 0|1");
  EXPECT_EQ(bench.Rule("aten.matmul", {"f32[b,1,s,12]", "f32[8,12,t]"}),
            "b 1 c d+, a d+ e -> b a c e partial 0|1");
  EXPECT_EQ(bench.Rule("aten.matmul", {"f32[s]", "f32[s]"}),
            "a+, a+ -> partial 0|1");
  EXPECT_EQ(bench.Rule("aten.matmul", {"f32[b,s]", "f32[s]"}),
            "a b+, b+ -> a partial 0|1");
  EXPECT_EQ(bench.Rule("aten.matmul", {"f32[s]", "f32[b,s,4]"}),
            "b+, a b+ c -> a c partial 0|1");
  EXPECT_EQ(bench.Rule("aten.einsum", {ListOf{{"f32[b,s,4]", "f32[6,4]"}}},
                       {{"equation", "bsk,nk->bsn"}}),
            "a d b+, c b+ -> a d c partial 0|1");
  // A diagonal.
  EXPECT_EQ(bench.Rule("aten.einsum", {ListOf{{"f32[4,4]"}}},
                       {{"equation", "ii->i"}}),
            "1 1 -> 1");
}

TEST(AttentionRuleTest, HeadsAndQueriesPass) {
  OpBench bench;
  const std::string sdpa = "aten.scaled_dot_product_attention";
  EXPECT_EQ(bench.Rule(sdpa, {"f32[b,8,s,12]", "f32[b,8,t,12]", "f32[b,8,t,16]",
                              "f32[b,1,s,t]"}),
            "a b c e^, a b d^ e^, a b d^ f, a 1 c d^ -> a b c f partial 2");
  // Under a causal mask the position of a query matters.
  EXPECT_EQ(
      bench.Rule(sdpa, {"f32[b,8,s,12]", "f32[b,8,s,12]", "f32[b,8,s,12]"},
                 {{"is_causal", true}}),
      "a b c^ e^, a b d^ e^, a b d^ f -> a b c^ f partial 2");
  // One key head for all queries.
  EXPECT_EQ(
      bench.Rule(sdpa, {"f32[b,8,s,12]", "f32[b,1,s,12]", "f32[b,1,s,12]"}),
      "a b c e^, a 1 d^ e^, a 1 d^ f -> a b c f partial 2");
  // Each key head serves four query heads.
  EXPECT_EQ(
      bench.Rule(sdpa, {"f32[b,8,s,12]", "f32[b,2,s,12]", "f32[b,2,s,12]"},
                 {{"enable_gqa", true}}),
      "a (b c) d f^, a b e^ f^, a b e^ g -> a (b c) d g partial 2");
  EXPECT_EQ(
      bench.Rule(sdpa, {"f32[b,8,s,12]", "f32[b,8,s,12]", "f32[b,8,s,12]"},
                 {{"dropout_p", 0.1}}),
      "1 1 1 1, 1 1 1 1, 1 1 1 1 -> 1 1 1 1");
}

TEST(ViewRuleTest, HeadsSplitAndMerge) {
  OpBench bench;
  EXPECT_EQ(
      bench.Rule("aten.view", {"f32[b,s,96]"}, {{"size", Ints({b, s, 8, 12})}}),
      "d0 d1 (d2 d3) -> d0 d1 d2 d3 partial 0");
  EXPECT_EQ(bench.Rule("aten.flatten.using_ints", {"f32[b,2,3]"}),
            "d0 d1 d2 -> (d0 d1 d2) partial 0");
  EXPECT_EQ(bench.Rule("aten.unsqueeze", {"f32[b,s]"}, {{"dim", 1}}),
            "d0 d1 -> d0 1 d1 partial 0");
  EXPECT_EQ(bench.Rule("aten.transpose.int", {"f32[b,s,3]"},
                       {{"dim0", 1}, {"dim1", 2}}),
            "a c b -> a b c partial 0");
  EXPECT_EQ(
      bench.Rule("aten.permute", {"f32[b,s,3]"}, {{"dims", Ints({2, 0, 1})}}),
      "b c a -> a b c partial 0");
}

TEST(ExpandRuleTest, NewDimsPassInTheResultOnly) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.expand", {"f32[b,2,1,s,12]"},
                       {{"size", Ints({b, 2, 4, s, 12})}}),
            "a b 1 d e -> a b c d e partial 0");
  EXPECT_EQ(
      bench.Rule("aten.repeat", {"f32[b,3]"}, {{"repeats", Ints({2, 1, 4})}}),
      "b d -> a^ b (c^ d) partial 0");
  EXPECT_EQ(bench.Rule("aten.repeat_interleave.self_int", {"f32[b,3]"},
                       {{"repeats", 2}, {"dim", 1}}),
            "a b -> a (b c^) partial 0");
}

TEST(SliceRuleTest, TheSlicedDimIsWholeUnlessAllIsKept) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.slice.Tensor", {"f32[b,12]"},
                       {{"dim", 1}, {"start", 0}, {"end", 6}}),
            "a b^ -> a c^ partial 0");
  EXPECT_EQ(bench.Rule("aten.slice.Tensor", {"f32[b,12]"},
                       {{"dim", 1}, {"start", 0}, {"end", 100}}),
            "a b -> a b partial 0");
  EXPECT_EQ(
      bench.Rule("aten.select.int", {"f32[b,3,s]"}, {{"dim", 1}, {"index", 0}}),
      "a b^ c -> a c partial 0");
  EXPECT_EQ(bench.Rule("aten.tril", {"f32[b,s,s]"}),
            "a b^ c^ -> a b^ c^ partial 0");
}

TEST(SplitRuleTest, EqualPartsPassWithin) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.split.Tensor", {"f32[b,s,288]"},
                       {{"split_size", 96}, {"dim", 2}}),
            "a b (c^ d) -> a b d, a b d, a b d partial 0");
  EXPECT_EQ(bench.Rule("aten.split.Tensor", {"f32[b,10]"},
                       {{"split_size", 4}, {"dim", 1}}),
            "a b^ -> a c^, a d^, a e^ partial 0");
  EXPECT_EQ(bench.Rule("aten.chunk", {"f32[b,s]"}, {{"chunks", 2}, {"dim", 0}}),
            "a^ d -> b^ d, c^ d partial 0");
  EXPECT_EQ(bench.Rule("aten.unbind.int", {"f32[2,b]"}),
            "a^ b -> b, b partial 0");
}

TEST(JoinRuleTest, EqualPiecesPassWithin) {
  OpBench bench;
  EXPECT_EQ(
      bench.Rule("aten.cat", {ListOf{{"f32[b,6]", "f32[b,6]"}}}, {{"dim", -1}}),
      "a c, a c -> a (b^ c) partial 0&1");
  EXPECT_EQ(
      bench.Rule("aten.cat", {ListOf{{"f32[b,6]", "f32[b,5]"}}}, {{"dim", -1}}),
      "a b^, a c^ -> a d^ partial 0&1");
  EXPECT_EQ(bench.Rule("aten.stack", {ListOf{{"f32[b]", "f32[b]"}}}),
            "b, b -> a^ b partial 0&1");
  EXPECT_EQ(bench.Rule("aten.pad", {"f32[b,s]"}, {{"pad", Ints({0, 1})}}),
            "a b^ -> a c^ partial 0");
  EXPECT_EQ(bench.Rule("aten.pad", {"f32[b,s]"},
                       {{"pad", Ints({0, 1})}, {"value", -100.0}}),
            "a b^ -> a c^");
}

TEST(IndexingRuleTest, LookedUpDimsAreWhole) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.index.Tensor",
                       {"f32[b,10,s]", ListOf{{"", "i64[3,1]", "i64[4]"}}}),
            "c d^ e^, _, a 1, b -> c a b partial 0");
  EXPECT_EQ(bench.Rule("aten.index.Tensor",
                       {"f32[b,10,s]", ListOf{{"i64[2]", "", "i64[2]"}}}),
            "b^ c d^, a, _, a -> a c partial 0");
  EXPECT_EQ(bench.Rule("aten.gather", {"f32[b,10]", "i64[b,3]"}, {{"dim", 1}}),
            "a b+, a c -> a c partial 0");
  // index is shorter in dim 0: the first rows of self only.
  EXPECT_EQ(bench.Rule("aten.gather", {"f32[8,10]", "i64[4,3]"}, {{"dim", 1}}),
            "b^ c+, a^ d -> a^ d partial 0");
  EXPECT_EQ(
      bench.Rule("aten.index_select", {"f32[b,10]", "i64[3]"}, {{"dim", 1}}),
      "a c^, b -> a b partial 0");
  EXPECT_EQ(bench.Rule("aten.slice_scatter", {"f32[b,s]", "f32[b,s - 1]"},
                       {{"dim", 1}, {"start", 1}}),
            "a b^, a c^ -> a b^ partial 0&1");
  EXPECT_EQ(bench.Rule("aten.scatter_add", {"f32[b,8]", "i64[b,3]", "f32[b,3]"},
                       {{"dim", 1}}),
            "a b^, a c^, a d^ -> a b^");
  EXPECT_EQ(bench.Rule("aten.embedding", {"f32[257,96]", "i64[b,s]"}),
            "v+ h, d0 d1 -> d0 d1 h partial 0");
  EXPECT_EQ(bench.Rule("aten.one_hot", {"i64[b]"}, {{"num_classes", 4}}),
            "d0 -> d0 c^");
}

TEST(ReductionRuleTest, SumsReduceAndMeansDoNot) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.sum.dim_IntList", {"f32[b,s,3]"},
                       {{"dim", Ints({1})}, {"keepdim", true}}),
            "a b+ c -> a 1 c partial 0");
  EXPECT_EQ(bench.Rule("aten.sum", {"f32[b,s]"}), "a+ b+ -> partial 0");
  EXPECT_EQ(bench.Rule("aten.mean.dim", {"f32[b,s,3]"}, {{"dim", Ints({-1})}}),
            "a b c^ -> a b partial 0");
  EXPECT_EQ(bench.Rule("aten.amax", {"f32[b,s]"}, {{"dim", Ints({1})}}),
            "a b+max -> a");
  EXPECT_EQ(bench.Rule("aten.min", {"f32[b]"}), "a+min ->");
  EXPECT_EQ(bench.Rule("aten.max.dim", {"f32[b,s]"}, {{"dim", 1}}),
            "a b^ -> a, a");
  EXPECT_EQ(bench.Rule("aten.cumsum", {"f32[b,s]"}, {{"dim", 1}}),
            "a b^ -> a b^ partial 0");
  EXPECT_EQ(bench.Rule("aten.softmax.int", {"f32[b,s]"}, {{"dim", -1}}),
            "a b^ -> a b^");
}

TEST(NormRuleTest, NormalizedDimsAreWhole) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.layer_norm", {"f32[b,s,96]", "f32[96]", "f32[96]"},
                       {{"normalized_shape", Ints({96})}}),
            "a b c^, c^, c^ -> a b c^");
  EXPECT_EQ(bench.Rule("aten.batch_norm",
                       {"f32[b,4,s]", "f32[4]", "f32[4]", "f32[4]", "f32[4]"},
                       {{"training", false}}),
            "a b c, b, b, b, b -> a b c");
  EXPECT_EQ(bench.Rule("aten.group_norm", {"f32[b,4,s]"}, {{"num_groups", 2}}),
            "a (groups c^) d^ -> a (groups c^) d^");
  EXPECT_EQ(bench.Rule("aten.group_norm", {"f32[b,4,s]", "f32[4]", "f32[4]"},
                       {{"num_groups", 1}}),
            "a b^ c^, b^, b^ -> a b^ c^");
  EXPECT_EQ(bench.Rule("aten.instance_norm",
                       {"f32[b,4,s]", "f32[4]", "", "f32[4]", "f32[4]"},
                       {{"use_input_stats", true}}),
            "a^ b c^, b, _, b, b -> a^ b c^");
}

TEST(LossRuleTest, AMeanIsWholeASumReduces) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.cross_entropy_loss", {"f32[b,257]", "i64[b]"}),
            "a^ b^, a^ ->");
  EXPECT_EQ(bench.Rule("aten.cross_entropy_loss", {"f32[b,257]", "i64[b]"},
                       {{"reduction", 2}}),
            "a+ b^, a+ ->");
  EXPECT_EQ(bench.Rule("aten.cross_entropy_loss", {"f32[b,257]", "i64[b]"},
                       {{"reduction", 0}}),
            "a b^, a -> a");
}

TEST(ConvRuleTest, ChannelsAndGroups) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.conv1d", {"f32[b,8,s]", "f32[6,8,3]"}),
            "a b+ d^, c b+ e^ -> a c f^ partial 0|1");
  EXPECT_EQ(bench.Rule("aten.conv1d", {"f32[b,8,s]", "f32[6,8,3]", "f32[6]"}),
            "a b^ d^, c b^ e^, c -> a c f^");
  EXPECT_EQ(
      bench.Rule("aten.conv1d", {"f32[b,8,s]", "f32[6,4,3]"}, {{"groups", 2}}),
      "a (groups c+) e^, (groups d) c+ f^ -> a (groups d) g^ "
      "partial 0|1");
  EXPECT_EQ(bench.Rule("aten.conv1d", {"f32[b,8,s]", "f32[8,1,3]", "f32[8]"},
                       {{"groups", 8}}),
            "a groups c^, groups 1 d^, groups -> a groups e^");
  EXPECT_EQ(bench.Rule("aten.max_pool2d", {"f32[b,4,7,7]"},
                       {{"kernel_size", Ints({3, 3})}}),
            "a b c^ e^ -> a b d^ f^");
}

TEST(CreationRuleTest, FilledResultsPass) {
  OpBench bench;
  EXPECT_EQ(bench.Rule("aten.full", {},
                       {{"size", Ints({b, 8})}, {"fill_value", 1.0}}),
            "-> a b");
  EXPECT_EQ(bench.Rule("aten.arange", {}, {{"end", s}}), "-> 1");
  EXPECT_EQ(bench.Rule("aten.zeros_like", {"f32[b,8]"}), "a b -> a b");
  EXPECT_EQ(bench.Rule("aten.new_zeros", {"i64[b]"}, {{"size", Ints({s})}}),
            "b^ -> a");
}

// Localize hooks, on ops whose types are local already.
class LocalizeTest : public testing::Test {
 protected:
  // Makes the op and runs its hook for the factor of that name.
  absl::StatusOr<Value*> Run(Op* op, const std::string& factor,
                             DimFactor within, int64_t axis_size,
                             int64_t coordinate) {
    TP_ASSIGN_OR_RETURN(rule_, RuleOf(*op));
    LocalizeContext context;
    context.rule = &rule_;
    context.axis_name = "tp";
    context.axis_size = axis_size;
    context.coordinate = coordinate;
    context.sharding.within = within;
    for (size_t i = 0; i < rule_.factors.size(); ++i) {
      if (rule_.factors[i].name == factor) {
        context.sharding.factor = static_cast<int>(i);
      }
    }
    Builder builder(bench_.module(),
                    bench_.module().function("forward")->body());
    return FindOpDef(*op)->localize(*op, context, builder);
  }
  OpBench bench_;
  OpRule rule_;
};

TEST_F(LocalizeTest, EmbeddingRows) {
  Op* op = bench_.Make("aten.embedding", {"f32[86,96]", "i64[b]"}).value();
  auto value = Run(op, "v", {1, 257, 1}, 3, 1);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)->op()->name(), "tp.embedding_shard");
  // 257 over 3 is 86, 86, 85.
  EXPECT_EQ((*value)->op()->attribute("offset")->as_int(), SymExpr(86));
  EXPECT_EQ((*value)->type(), op->result()->type());
  // Chunks of rows.
  value = Run(op, "v", {1, 32, 8}, 3, 2);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)->op()->attribute("offset")->as_int(), SymExpr(22 * 8));
  EXPECT_FALSE(Run(op, "v", {2, 64, 2}, 2, 0).ok());
  // Columns need nothing.
  value = Run(op, "h", {1, 96, 1}, 2, 1);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, op->result());
}

TEST_F(LocalizeTest, SizesOfPartsAndGroups) {
  Op* split = bench_
                  .Make("aten.split.Tensor", {"f32[b,144]"},
                        {{"split_size", 48}, {"dim", 1}})
                  .value();
  split->SetAttribute("split_size", 96);
  ASSERT_TRUE(Run(split, "c", {1, 96, 1}, 2, 0).ok());
  EXPECT_EQ(split->attribute("split_size")->as_int(), SymExpr(48));

  Op* conv =
      bench_.Make("aten.conv1d", {"f32[b,6,s]", "f32[6,1,3]"}, {{"groups", 6}})
          .value();
  auto value = Run(conv, "groups", {1, 5, 2}, 2, 1);
  ASSERT_TRUE(value.ok()) << value.status();
  // 5 pairs over 2 is 3, 2.
  EXPECT_EQ(conv->attribute("groups")->as_int(), SymExpr(4));

  Op* squeeze =
      bench_.Make("aten.squeeze.dim", {"f32[2,1,3]"}, {{"dim", 1}}).value();
  value = Run(squeeze, "d0", {1, 2, 1}, 2, 0);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)->op()->name(), "aten.reshape");
}

}  // namespace
}  // namespace tp
