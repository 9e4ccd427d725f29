// Every row of the op table, split in every way its rule allows.
#include <ATen/Parallel.h>

#include <map>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "ir/op_def.h"
#include "passes/pass.h"
#include "tests/soundness/cases.h"
#include "tests/soundness/forward.h"
#include "tests/soundness/gradients.h"
#include "tests/soundness/local_op.h"

namespace tp::soundness {
namespace {

// Rows for TorchScript's own functions, which no LibTorch operator runs: the
// importer asks the table for their types and makes a cast or a constant.
constexpr const char* kNoOperator[] = {
    "aten.bfloat16", "aten.bool", "aten.cpu",  "aten.double", "aten.float",
    "aten.half",     "aten.int",  "aten.long", "aten.tensor"};

// Ops that the training passes make, whose meaning is in gradients of whole
// programs: tests/torch_unit/train_session_test.cc.
constexpr const char* kTrainingOps[] = {"tp.copy",   "tp.dropout_mask",
                                        "tp.enter",  "tp.leave",
                                        "tp.refill", "tp.segment_grad"};

// Control flow, whose meaning is in its regions: tests/torch_unit/
// import_control_flow_test.cc and tests/e2e/control_flow_test.py.
constexpr const char* kControlOps[] = {"tp.broadcast", "tp.if", "tp.loop",
                                       "tp.raise"};

std::map<std::string, int> Count(const std::vector<std::string>& reasons) {
  std::map<std::string, int> counts;
  for (const std::string& reason : reasons) ++counts[reason.substr(0, 100)];
  return counts;
}

using Parameters = std::tuple<Family, int>;  // and the number of ranks

std::string NameOf(const ::testing::TestParamInfo<Parameters>& info) {
  return absl::StrCat(std::get<0>(info.param).name, "_",
                      std::get<1>(info.param), "_ranks");
}

// What all tests of this process compared.
struct Totals {
  std::set<std::string> rows;
  int samples = 0;
  Report report;
};

Totals& AllTotals() {
  static auto* const totals = new Totals();
  return *totals;
}

class TotalsEnvironment : public ::testing::Environment {
 public:
  void TearDown() override {
    const Totals& totals = AllTotals();
    const Report& report = totals.report;
    if (totals.samples == 0) return;
    std::printf(
        "rule soundness: %zu rows, %d samples, %d splits, %d partials, %d "
        "chains in %d runs (%d sizes refused by guards); %d gradient cases\n",
        totals.rows.size(), totals.samples, report.splits, report.partials,
        report.chains, report.runs, report.guarded, report.gradients);
    for (const auto& [reason, count] : Count(report.refused))
      std::printf("  %5d refused: %s\n", count, reason.c_str());
    if (report.unproducible > 0)
      std::printf("  %5d partials skipped: no op makes a sum of that dtype\n",
                  report.unproducible);
    for (const auto& [reason, count] : Count(report.skipped))
      std::printf("  %5d gradients skipped: %s\n", count, reason.c_str());
  }
};
const ::testing::Environment* const kTotalsEnvironment =
    ::testing::AddGlobalTestEnvironment(new TotalsEnvironment());

class RuleTest : public ::testing::TestWithParam<Parameters> {
 protected:
  // The samples are too small for threads inside of ops.
  void SetUp() override { at::set_num_threads(1); }

  template <typename Function>
  void ForEachSample(bool symbolic_too, Function compare) {
    const auto& [family, ranks] = GetParam();
    Totals& totals = AllTotals();
    for (absl::string_view line : family.lines) {
      for (bool symbolic : {false, true}) {
        if (symbolic && (!symbolic_too || !MentionsSymbol(line))) continue;
        auto sample = ParseSample(line, symbolic);
        ASSERT_TRUE(sample.ok()) << line << ": " << sample.status();
        if (sample->refused) continue;
        if (symbolic_too) ++totals.samples;
        totals.rows.insert(FindOpDef(sample->op)->name);
        Report& report = totals.report;
        report.failures.clear();
        const size_t refused = report.refused.size();
        compare(*sample, ranks, nullptr, report);
        for (const std::string& failure : report.failures)
          ADD_FAILURE() << failure;
        // A rule offers nothing that localize refuses.
        EXPECT_EQ(report.refused.size(), refused) << report.refused.back();
      }
    }
  }
};

TEST_P(RuleTest, PartsMakeTheWhole) {
  const Report before = AllTotals().report;
  ForEachSample(true, &CompareForward);
  const Report& after = AllTotals().report;
  // Each sample with a symbol must have run at more than its example size.
  EXPECT_GT(after.runs - before.runs,
            static_cast<int>(std::get<0>(GetParam()).lines.size()));
}

TEST_P(RuleTest, GradientsOfPartsMakeTheWhole) {
  ForEachSample(false, &CompareGradients);
}

INSTANTIATE_TEST_SUITE_P(Rows, RuleTest,
                         ::testing::Combine(::testing::ValuesIn(Families()),
                                            ::testing::Values(2, 3, 4)),
                         NameOf);

// No op of the table writes to its operands.
TEST(TableTest, OpsArePure) {
  int compared = 0;
  for (const Family& family : Families()) {
    for (absl::string_view line : family.lines) {
      auto sample = ParseSample(line, false);
      ASSERT_TRUE(sample.ok()) << line << ": " << sample.status();
      if (sample->refused || sample->op == "tp.sym") continue;
      auto probe = ProbeSample(*sample);
      ASSERT_TRUE(probe.ok()) << line << ": " << probe.status();
      std::vector<at::Tensor> operands;
      std::vector<at::Tensor> before;
      for (size_t i = 0; i < sample->operands.size(); ++i) {
        operands.push_back(sample->present[i]
                               ? RandomTensor(sample->operands[i], kSize, i)
                               : at::Tensor());
        before.push_back(operands[i].defined() ? operands[i].clone()
                                               : at::Tensor());
      }
      auto results = RunOp(*probe->op, operands);
      EXPECT_TRUE(results.ok()) << line << ": " << results.status();
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].defined()) continue;
        EXPECT_TRUE(at::equal(operands[i], before[i]))
            << line << " writes to operand " << i;
      }
      ++compared;
    }
  }
  std::printf("  %d samples write to none of their operands\n", compared);
}

// Ops of the programs that a few samples become.
std::set<std::string> OpsOfPrograms() {
  std::set<std::string> names;
  const auto collect = [&names](const Module& module) {
    for (const auto& op : module.function("forward")->body().ops())
      names.insert(op->name());
  };
  for (const char* line :
       {"aten.embedding(f64[12,6], i64[6]~0..11)", "aten.neg(f64[6,4])",
        "aten.gather(f64[5,12], i64[5,2]~0..11) {dim = 1}",
        "aten.mm(f64[4,6], f64[6,4])"}) {
    auto sample = ParseSample(line, false);
    EXPECT_TRUE(sample.ok()) << sample.status();
    auto cases = MakeCases(*sample, 2, true);
    EXPECT_TRUE(cases.ok()) << cases.status();
    const PassContext context;
    EXPECT_TRUE(InsertReshards(*cases->module, context).ok());
    collect(*cases->module);
    EXPECT_TRUE(LowerReshards(*cases->module, context).ok());
    collect(*cases->module);
    auto programs = MakeRankPrograms(*cases->module);
    EXPECT_TRUE(programs.ok()) << programs.status();
    collect(*(*programs)[0]);
  }
  return names;
}

TEST(TableTest, EveryRowHasASample) {
  std::set<std::string> rows;
  for (const Family& family : Families()) {
    for (absl::string_view line : family.lines) {
      auto sample = ParseSample(line, false);
      ASSERT_TRUE(sample.ok()) << line << ": " << sample.status();
      const OpDef* row = FindOpDef(sample->op);
      ASSERT_NE(row, nullptr) << "no row for " << line;
      rows.insert(row->name);
      if (!sample->refused) continue;
      auto probe = ProbeSample(*sample);
      EXPECT_EQ(probe.status().code(), absl::StatusCode::kUnimplemented)
          << line << " should be refused: " << probe.status();
    }
  }
  // The compiler's own ops: those that reshards and hooks become.
  for (const std::string& name : OpsOfPrograms())
    if (absl::StartsWith(name, "tp.")) rows.insert(name);
  for (const char* name : kNoOperator) {
    rows.insert(name);
    std::string base = absl::StrCat("aten::", name + 5);
    for (const auto& operation : c10::Dispatcher::singleton().getAllOpNames())
      EXPECT_NE(operation.name, base) << "has an operator: give it a sample";
  }
  for (const char* name : kTrainingOps) rows.insert(name);
  for (const char* name : kControlOps) rows.insert(name);
  std::vector<std::string> missing;
  for (const OpDef* row : AllOpDefs())
    if (rows.count(row->name) == 0) missing.push_back(row->name);
  EXPECT_TRUE(missing.empty())
      << "rows without a sample in tests/soundness/samples_*.cc: "
      << absl::StrJoin(missing, " ");
  std::printf("  %zu rows have samples\n", rows.size());
}

}  // namespace
}  // namespace tp::soundness
