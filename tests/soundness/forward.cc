#include "tests/soundness/forward.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/aten_kernel.h"
#include "runtime/session.h"
#include "tests/soundness/cases.h"

namespace tp::soundness {
namespace {

using Outputs = std::vector<at::Tensor>;

uint64_t SeedOf(const std::string& name) {
  uint64_t seed = 1469598103934665603ull;
  for (char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 1099511628211;
  return seed % 1000003;
}

NamedTensors MakeInputs(const std::vector<NamedSpec>& specs, int64_t size) {
  NamedTensors inputs;
  for (const NamedSpec& spec : specs)
    inputs.emplace_back(spec.name,
                        RandomTensor(spec.spec, size, SeedOf(spec.name)));
  return inputs;
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 1e-6;
    case DType::kF16:
      return 1e-3;
    case DType::kBF16:
      return 1e-2;
    default:
      return 1e-9;
  }
}

struct Run {
  std::unique_ptr<Session> session;
  std::string text;  // of rank 0
};

// From placements to a session, as the compiler and the runtime do.
absl::StatusOr<Run> Start(CaseProgram& program, const Edit& edit,
                          bool check_replicas) {
  Module& module = *program.module;
  const PassContext context;
  TP_RETURN_IF_ERROR(InsertReshards(module, context));
  const int64_t ranks = module.mesh().num_ranks();
  for (const Case& entry : program.cases) {
    for (int i = 0; ranks > 1 && i < entry.op->num_operands(); ++i) {
      if (entry.op->operand(i) == nullptr) continue;
      const Placement given = AxisPlacement(*entry.op->operand(i), 0);
      const Placement& wanted = entry.strategy.operands[i];
      if (!SameLayout(given, wanted, ranks))
        return absl::InternalError(absl::StrCat(
            entry.what, ": operand ", i, " became ", given.ToString(),
            " where the case needs ", wanted.ToString()));
    }
  }
  TP_RETURN_IF_ERROR(LowerReshards(module, context));
  TP_RETURN_IF_ERROR(CheckPlacements(module, context));
  TP_ASSIGN_OR_RETURN(auto made, MakeRankPrograms(module));
  Run run;
  std::vector<std::shared_ptr<const Module>> programs;
  for (std::unique_ptr<Module>& rank : made) {
    // As the package does: through text.
    std::string text = Print(*rank);
    if (edit) text = edit(std::move(text));
    if (run.text.empty()) run.text = text;
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> parsed,
                        Parse(text, "rank.tpir"));
    programs.push_back(std::move(parsed));
  }
  SessionOptions options;
  options.group.threads = 1;
  options.check_replicas = check_replicas;
  std::vector<std::vector<at::Tensor>> weights(programs.size());
  TP_ASSIGN_OR_RETURN(
      run.session,
      Session::Create(std::move(programs), std::move(weights), options));
  return run;
}

class Comparison {
 public:
  Comparison(const Sample& sample, int ranks, const Edit& edit, Report& report)
      : sample_(sample), ranks_(ranks), edit_(edit), report_(report) {}

  void Compare() {
    CaseProgram counted;
    if (absl::Status status = RunCases(-1, &counted); !status.ok()) {
      // Which of them is it?
      auto all = MakeCases(sample_, ranks_, true);
      if (!all.ok()) return Fail("cannot be built", all.status());
      bool found = false;
      for (int i = 0; i < 1 + all->splits + all->partials; ++i)
        if (absl::Status one = RunCases(i, nullptr); !one.ok()) {
          found = true;
          if (one.code() == absl::StatusCode::kUnimplemented)
            report_.refused.push_back(std::string(one.message()));
          else
            Fail(absl::StrCat("case ", i), one);
        }
      if (!found) Fail("all cases together", status);
      counted = *std::move(all);
    }
    report_.splits += counted.splits;
    report_.partials += counted.partials - counted.unproducible;
    report_.unproducible += counted.unproducible;
    for (const Case& entry : counted.cases) report_.chains += entry.chains;
  }

 private:
  void Fail(const std::string& what, const absl::Status& status) {
    report_.failures.push_back(absl::StrCat(sample_.text, "\n  ", ranks_,
                                            " ranks, ", what, ": ",
                                            status.ToString()));
  }

  absl::Status RunCases(int only, CaseProgram* counted) {
    const bool replicas = !sample_.values_undefined;
    TP_ASSIGN_OR_RETURN(CaseProgram whole,
                        MakeCases(sample_, ranks_, false, only));
    TP_ASSIGN_OR_RETURN(CaseProgram placed,
                        MakeCases(sample_, ranks_, true, only));
    if (placed.cases.empty()) return absl::OkStatus();
    TP_ASSIGN_OR_RETURN(Run expected, Start(whole, edit_, replicas));
    TP_ASSIGN_OR_RETURN(Run actual, Start(placed, edit_, replicas));
    const std::vector<int64_t> sizes =
        sample_.symbolic ? std::vector<int64_t>{kSize, 1, 2, 5}
                         : std::vector<int64_t>{kSize};
    for (int64_t size : sizes) {
      const NamedTensors inputs = MakeInputs(placed.inputs, size);
      absl::StatusOr<Outputs> want = expected.session->Run(inputs);
      if (!want.ok() && size != kSize &&
          want.status().code() == absl::StatusCode::kFailedPrecondition) {
        ++report_.guarded;
        continue;
      }
      TP_RETURN_IF_ERROR(want.status());
      TP_ASSIGN_OR_RETURN(Outputs got, actual.session->Run(inputs));
      ++report_.runs;
      CheckTypes(placed, *want, size);
      for (const Case& entry : placed.cases)
        CompareCase(entry, *want, got, actual.text, size);
    }
    if (counted != nullptr) *counted = std::move(placed);
    return absl::OkStatus();
  }

  // The op table's shape functions against LibTorch.
  void CheckTypes(const CaseProgram& program, const Outputs& outputs,
                  int64_t size) {
    if (edit_) return;
    SymbolValues symbols;
    symbols[kSymbol] = size;
    const auto results = program.module->function("forward")->body().results();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorType& type = results[i]->type();
      auto dims = EvaluateDims(type.dims, symbols);
      if (!dims.ok() ||
          outputs[i].sizes() != at::IntArrayRef(dims->data(), dims->size()) ||
          outputs[i].scalar_type() != ScalarTypeOf(type.dtype)) {
        report_.failures.push_back(absl::StrCat(
            sample_.text, "\n  the op table says ", ToString(type),
            ", LibTorch gives ", toString(outputs[i].scalar_type()), "[",
            absl::StrJoin(outputs[i].sizes(), ","), "]"));
        return;
      }
    }
  }

  void CompareCase(const Case& entry, const Outputs& want, const Outputs& got,
                   const std::string& text, int64_t size) {
    for (int i = 0; i < entry.num_results; ++i) {
      if (sample_.values_undefined || sample_.random) continue;
      const int index = entry.first_result + i;
      const std::string difference =
          Difference(got[index], want[index], ToleranceOf(sample_));
      if (difference.empty()) continue;
      const int results = entry.op->num_results();
      report_.failures.push_back(absl::StrCat(
          sample_.text, "\n  ", entry.what,
          sample_.symbolic ? absl::StrCat(" with N = ", size) : "",
          i < results ? absl::StrCat(", result ", i)
                      : absl::StrCat(", consumer ", i - results),
          " (output ", index, "): ", difference,
          report_.failures.empty() ? "\n" + text.substr(0, 20000) : ""));
      return;
    }
  }

  const Sample& sample_;
  const int ranks_;
  const Edit& edit_;
  Report& report_;
};

}  // namespace

void CompareForward(const Sample& sample, int ranks, const Edit& edit,
                    Report& report) {
  Comparison(sample, ranks, edit, report).Compare();
}

double ToleranceOf(const Sample& sample) {
  double tolerance = ToleranceOf(DType::kF64);
  for (size_t i = 0; i < sample.operands.size(); ++i)
    if (sample.present[i])
      tolerance =
          std::max(tolerance, ToleranceOf(sample.operands[i].type.dtype));
  return tolerance;
}

std::string Difference(const at::Tensor& actual, const at::Tensor& expected,
                       double tolerance) {
  if (actual.scalar_type() != expected.scalar_type() ||
      actual.sizes() != expected.sizes())
    return absl::StrCat(toString(actual.scalar_type()), "[",
                        absl::StrJoin(actual.sizes(), ","), "] instead of ",
                        toString(expected.scalar_type()), "[",
                        absl::StrJoin(expected.sizes(), ","), "]");
  if (!at::isFloatingType(actual.scalar_type()))
    return at::equal(actual, expected) ? "" : "other values";
  tolerance = std::max(tolerance, ToleranceOf(*DTypeOf(actual.scalar_type())));
  const at::Tensor a = actual.to(at::kDouble);
  const at::Tensor b = expected.to(at::kDouble);
  const at::Tensor finite =
      at::where(b.isfinite(), b, at::zeros({}, b.options()));
  const double largest = b.numel() == 0 ? 0 : finite.abs().max().item<double>();
  if (at::allclose(a, b, 0, tolerance * std::max(largest, 1e-3), true))
    return "";
  return absl::StrCat("differs by ", (a - b).abs().max().item<double>(),
                      " where the largest value is ", largest);
}

}  // namespace tp::soundness
