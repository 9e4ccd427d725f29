#include "ir/schedule.h"

#include "absl/strings/substitute.h"
#include "gtest/gtest.h"
#include "ir/text.h"

namespace tp {
namespace {

constexpr char kProgram[] = R"(tpir 1
mesh @m = [tp: 2]
symbol batch = 5 from "x":0
func @forward(%x: f32[batch,16] <R>, %n: i64[] <R>) -> f32[batch,16] {
  %0 = tp.broadcast(%n) {axis = "tp"} : i64[] <R>
  %c = aten.gt.Scalar(%n) {other = 2} : bool[] <R>
  %1 = tp.sym() {value = batch + 1} : i64[] <R>
  %2 = tp.loop(%0, none, [%x]) { ^(%i: i64[] <R>, %h: f32[batch,16] <R>)
    %3 = aten.gt.Scalar(%i) {other = 2} : bool[] <R>
    %4 = tp.broadcast(%3) {axis = "tp"} : bool[] <R>
    %5 = tp.if(%4) { ^()
      %6 = aten.relu(%h) : f32[batch,16] <P(sum)>
      %7 = tp.all_reduce(%6) {axis = "tp", reduce = "sum"} : f32[batch,16] <R>
      yield %7
    } { ^()
      yield %h
    } : f32[batch,16] <R>
    yield %5
  } : f32[batch,16] <R>
  %8 = tp.loop(%1, %c, [%2]) { ^(%j: i64[] <R>, %k: f32[batch,16] <R>)
    yield %c, %k
  } : f32[batch,16] <R>
  return %8
}
)";

std::unique_ptr<Module> Program(const std::string& text) {
  auto module = Parse(text, "schedule.tpir");
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

std::string Replaced(const std::string& from, const std::string& to) {
  std::string text = kProgram;
  text.replace(text.find(from), from.size(), to);
  return text;
}

Schedule Of(const Module& module) {
  auto schedule = ScheduleOf(*module.function("forward"));
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

TEST(ScheduleTest, IsAGrammarOfCalls) {
  auto module = Program(kProgram);
  ASSERT_NE(module, nullptr);
  std::string text;
  for (const ScheduleStep& step : Of(*module)) text += step.ToString();
  // The second loop says nothing.
  EXPECT_EQ(text, R"(tp.broadcast tp i64[]
loop data {
  tp.broadcast tp bool[]
  if {
    tp.all_reduce tp f32[batch,16] sum
  } {
  }
}
)");
  EXPECT_EQ(CountCalls(Of(*module)), 3);
}

TEST(ScheduleTest, BranchesAndCountsAreCompared) {
  auto module = Program(kProgram);
  ASSERT_NE(module, nullptr);
  EXPECT_TRUE(SameSchedule(Of(*module), Of(*module), "tp"));
  auto other = Program(Replaced("tp.loop(%0, none", "tp.loop(%1, none"));
  ASSERT_NE(other, nullptr);
  EXPECT_FALSE(SameSchedule(Of(*module), Of(*other), "tp"));
  EXPECT_EQ(Of(*other)[1].count, "batch + 1");
  const std::string reduce =
      "      %7 = tp.all_reduce(%6) {axis = \"tp\", reduce = \"sum\"} : "
      "f32[batch,16] <R>\n      yield %7\n    } { ^()\n      yield %h\n";
  auto swapped = Program(Replaced(
      reduce,
      "      yield %6\n    } { ^()\n"
      "      %7 = tp.all_reduce(%h) {axis = \"tp\", reduce = \"sum\"} : "
      "f32[batch,16] <R>\n      yield %7\n"));
  ASSERT_NE(swapped, nullptr);
  EXPECT_EQ(CountCalls(Of(*swapped)), CountCalls(Of(*module)));
  EXPECT_FALSE(SameSchedule(Of(*module), Of(*swapped), "tp"));
  auto hash = HashSchedules({module.get(), module.get()});
  auto other_hash = HashSchedules({module.get(), swapped.get()});
  ASSERT_TRUE(hash.ok() && other_hash.ok());
  EXPECT_NE(*hash, *other_hash);
}

// Groups of another axis may move other sizes, but not at other places.
TEST(ScheduleTest, AxesAreComparedEachInItsGroups) {
  const char* const kHeader =
      "tpir 1\nmesh @m = [dp: 2, tp: 2]\nrank 0\n"
      "func @forward(%x: f32[$0,4] <dp: R, tp: R>) -> f32[$0,4] {\n"
      "  %0 = tp.all_reduce(%x) {axis = \"$1\", reduce = \"sum\"} : f32[$0,4] "
      "<dp: R, tp: R>\n  return %0\n}\n";
  auto three = Program(absl::Substitute(kHeader, 3, "tp"));
  auto two = Program(absl::Substitute(kHeader, 2, "tp"));
  auto other = Program(absl::Substitute(kHeader, 3, "dp"));
  ASSERT_TRUE(three && two && other);
  EXPECT_FALSE(SameSchedule(Of(*three), Of(*two), "tp"));
  EXPECT_TRUE(SameSchedule(Of(*three), Of(*two), "dp"));
  EXPECT_FALSE(SameSchedule(Of(*three), Of(*other), "dp"));
  EXPECT_FALSE(SameSchedule(Of(*three), Of(*other), "tp"));
}

}  // namespace
}  // namespace tp
