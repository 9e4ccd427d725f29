// What a user can get wrong, one test per mistake: the code, and that the
// message names the thing to change.

#include <ATen/ATen.h>

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/torch_unit/rank_programs.h"

namespace tp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OpenText;

constexpr char kProgram[] = R"(symbol batch = 2 from "x":0
symbol seq = 3 from "x":1
guard seq <= 8 because "there are 8 positions" loc "m.py":7 in "wpe"
func @forward(%x: f32[batch,seq], %ids: i64[batch,seq]) -> f32[batch,seq] {
  %0 = aten.add.Tensor(%x, %ids) : f32[batch,seq]
  return %0
}
)";

class InputErrorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto session = OpenText(2, [](int) { return kProgram; });
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  void ExpectError(const NamedTensors& inputs, absl::StatusCode code,
                   const ::testing::Matcher<absl::string_view>& message) {
    auto outputs = session_->Run(inputs);
    EXPECT_EQ(outputs.status().code(), code) << outputs.status();
    EXPECT_THAT(outputs.status().message(), message);
    // A bad input does not end the session.
    EXPECT_TRUE(session_->Run({{"x", x_}, {"ids", ids_}}).ok());
  }

  const at::Tensor x_ = at::rand({2, 3});
  const at::Tensor ids_ = at::ones({2, 3}, at::kLong);
  std::unique_ptr<Session> session_;
};

TEST_F(InputErrorsTest, Missing) {
  ExpectError({{"x", x_}}, absl::StatusCode::kInvalidArgument,
              AllOf(HasSubstr("'ids' is missing"),
                    HasSubstr("x: f32[batch,seq], ids: i64[batch,seq]")));
}

TEST_F(InputErrorsTest, Misnamed) {
  ExpectError({{"x", x_}, {"id", ids_}}, absl::StatusCode::kInvalidArgument,
              HasSubstr("no input 'id'"));
}

TEST_F(InputErrorsTest, Twice) {
  ExpectError({{"x", x_}, {"ids", ids_}, {"input_0", x_}},
              absl::StatusCode::kInvalidArgument,
              HasSubstr("'x' is given twice"));
}

TEST_F(InputErrorsTest, PositionsAndStrayOutputsAreFine) {
  auto outputs =
      session_->Run({{"input_1", ids_}, {"input_0", x_}, {"output_0", x_}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(at::equal((*outputs)[0], x_ + 1));
}

TEST_F(InputErrorsTest, WrongDType) {
  ExpectError({{"x", x_}, {"ids", ids_.to(at::kInt)}},
              absl::StatusCode::kInvalidArgument,
              HasSubstr("'ids' is i32, the model was compiled for i64"));
}

TEST_F(InputErrorsTest, WrongNumberOfDims) {
  ExpectError({{"x", x_}, {"ids", ids_.flatten()}},
              absl::StatusCode::kInvalidArgument,
              HasSubstr("'ids' has shape [6], expected 2 dims"));
}

TEST_F(InputErrorsTest, SizesThatDisagree) {
  ExpectError({{"x", x_}, {"ids", at::ones({2, 4}, at::kLong)}},
              absl::StatusCode::kInvalidArgument,
              HasSubstr("dim 1 has to be 3 (seq = 3)"));
}

TEST_F(InputErrorsTest, EmptyDim) {
  ExpectError({{"x", at::rand({0, 3})}, {"ids", at::ones({0, 3}, at::kLong)}},
              absl::StatusCode::kInvalidArgument,
              HasSubstr("dim 0 of input 'x'"));
}

TEST_F(InputErrorsTest, GuardNamesReasonAndPlace) {
  ExpectError(
      {{"x", at::rand({2, 9})}, {"ids", at::ones({2, 9}, at::kLong)}},
      absl::StatusCode::kFailedPrecondition,
      AllOf(HasSubstr("seq <= 8"), HasSubstr("9 <= 8 does not hold"),
            HasSubstr("there are 8 positions"), HasSubstr("m.py:7 in wpe")));
}

TEST(CompileErrorsTest, UnknownOperator) {
  auto session = OpenText(1, [](int) {
    return R"(
func @forward(%x: f32[2]) -> f32[2] {
  %0 = aten.no_such_op(%x) : f32[2] loc "m.py":3 in "block"
  return %0
}
)";
  });
  EXPECT_EQ(session.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(session.status().message(),
              AllOf(HasSubstr("rank 0: aten.no_such_op"),
                    HasSubstr("m.py:3 in block")));
}

TEST(CompileErrorsTest, UnknownArgument) {
  auto session = OpenText(1, [](int) {
    return R"(
func @forward(%x: f32[2]) -> f32[2] {
  %0 = aten.gelu(%x) {approximation = "tanh"} : f32[2]
  return %0
}
)";
  });
  EXPECT_EQ(session.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(session.status().message(), HasSubstr("'approximation'"));
}

TEST(RunErrorsTest, OneRankStopsAllAndIsNamed) {
  // Rank 1 looks outside of the table while rank 0 waits in the all_reduce.
  auto session = OpenText(2, [](int rank) {
    return absl::StrCat(R"(
func @forward(%x: f32[4,2]) -> f32[2] {
  %0 = aten.select.int(%x) {dim = 0, index = )",
                        rank * 9, R"(} : f32[2] loc "m.py":5 in "emb"
  %1 = tp.all_reduce(%0) {axis = "tp", reduce = "sum"} : f32[2]
  return %1
}
)");
  });
  ASSERT_TRUE(session.ok()) << session.status();
  auto outputs = (*session)->Run({{"x", at::rand({4, 2})}});
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(outputs.status().message(),
              AllOf(HasSubstr("rank 1: aten.select.int"),
                    HasSubstr("m.py:5 in emb"), HasSubstr("index 9")));
}

TEST(RunErrorsTest, DifferentSchedulesAreAnErrorNotANumber) {
  auto session = OpenText(2, [](int rank) {
    return absl::StrCat(R"(
func @forward(%x: f32[2]) -> f32[2] {
  %0 = tp.all_reduce(%x) {axis = "tp", reduce = ")",
                        rank == 0 ? "sum" : "max", R"("} : f32[2]
  return %0
}
)");
  });
  ASSERT_TRUE(session.ok()) << session.status();
  auto outputs = (*session)->Run({{"x", at::rand({2})}});
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RunErrorsTest, ReplicasThatDiffer) {
  SessionOptions options;
  options.check_replicas = true;
  auto session = OpenText(
      2,
      [](int rank) {
        return absl::StrCat(R"(
func @forward(%x: f32[2]) -> f32[2] {
  %0 = aten.add.Scalar(%x) {other = )",
                            rank, R"(} : f32[2]
  return %0
}
)");
      },
      nullptr, options);
  ASSERT_TRUE(session.ok()) << session.status();
  auto outputs = (*session)->Run({{"x", at::rand({2})}});
  EXPECT_THAT(outputs.status().message(),
              HasSubstr("output_0 of rank 1 differs"));
}

TEST(RunErrorsTest, NanIsFoundAtTheOpThatMadeIt) {
  SessionOptions options;
  options.executor.nan_check = NanCheck::kAll;
  auto session = OpenText(
      1,
      [](int) {
        return R"(
func @forward(%x: f32[2]) -> f32[2] {
  %0 = aten.sqrt(%x) : f32[2] loc "m.py":4 in "norm"
  %1 = aten.nan_to_num(%0) : f32[2]
  return %1
}
)";
      },
      nullptr, options);
  ASSERT_TRUE(session.ok()) << session.status();
  auto outputs = (*session)->Run({{"x", at::full({2}, -1.0)}});
  EXPECT_THAT(outputs.status().message(),
              AllOf(HasSubstr("NaN"), HasSubstr("aten.sqrt at m.py:4")));
}

TEST(RunErrorsTest, ARankThatNeverComesIsATimeout) {
  SessionOptions options;
  options.group.timeout = absl::Milliseconds(200);
  auto session = OpenText(
      2,
      [](int rank) -> std::string {
        if (rank == 1) {
          return R"(
func @forward(%x: f32[2]) -> f32[2] {
  %0 = aten.neg(%x) : f32[2]
  return %0
}
)";
        }
        return R"(
func @forward(%x: f32[2]) -> f32[2] {
  %0 = tp.all_reduce(%x) {axis = "tp", reduce = "sum"} : f32[2] loc "m.py":6 in "mlp"
  return %0
}
)";
      },
      nullptr, options);
  ASSERT_TRUE(session.ok()) << session.status();
  auto outputs = (*session)->Run({{"x", at::rand({2})}});
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(outputs.status().message(),
              AllOf(HasSubstr("tp.all_reduce"), HasSubstr("m.py:6")));
}

}  // namespace
}  // namespace tp
