#include "tests/soundness/gradients.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "runtime/aten_kernel.h"
#include "tests/soundness/cases.h"
#include "tests/soundness/local_op.h"

namespace tp::soundness {
namespace {

using Tensors = std::vector<at::Tensor>;

// The rank's part of a whole tensor, written without the project's own code.
at::Tensor PartOf(const at::Tensor& whole, const Placement& placement,
                  int ranks, int rank) {
  if (!placement.is_shard()) return whole;
  const DimFactor& box = placement.factor();
  const int64_t left = box.left.constant();
  const int64_t size = box.size.constant();
  const int64_t right = box.right.constant();
  const int dim = placement.dim();
  const int64_t base = size / ranks;
  const int64_t more = size % ranks;
  const int64_t begin = rank * base + std::min<int64_t>(rank, more);
  const int64_t extent = base + (rank < more ? 1 : 0);
  std::vector<int64_t> dims = whole.sizes().vec();
  dims[dim] = left * extent * right;
  return whole.unflatten(dim, {left, size, right})
      .narrow(dim + 1, begin, extent)
      .reshape(dims)
      .contiguous();
}

bool IsFloat(const at::Tensor& tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type());
}

// Gradients of the operands that are floats; undefined where none flows.
struct Gradients {
  Tensors operands;
  std::string skipped;  // why there are none
};

class GradientComparison {
 public:
  GradientComparison(const Sample& sample, int ranks, const Edit& edit,
                     Report& report)
      : sample_(sample), ranks_(ranks), edit_(edit), report_(report) {}

  void Compare() {
    if (!sample_.no_grad.empty()) return Skip(sample_.no_grad);
    auto probe = ProbeSample(sample_);
    if (!probe.ok()) return Fail("probe", probe.status().ToString());
    Tensors operands;
    bool floats = false;
    for (size_t i = 0; i < sample_.operands.size(); ++i) {
      operands.push_back(sample_.present[i]
                             ? RandomTensor(sample_.operands[i], kSize, 100 + i)
                             : at::Tensor());
      floats |= IsFloat(operands.back());
    }
    if (!floats) return Skip("no operand is a float");
    for (const FactorSharding& split : SplitsOf(probe->rule)) {
      const Factor& factor = probe->rule.factors[split.factor];
      if (factor.kind == FactorKind::kReduce &&
          factor.reduce != ReduceKind::kSum) {
        Skip("a maximum or minimum over ranks has no gradient here");
        continue;
      }
      CompareCase(
          operands,
          absl::StrCat("split ", factor.name, " of ", factor.size.ToString(),
                       " as ", split.within.left.ToString(), "x[",
                       split.within.size.ToString(), "]x",
                       split.within.right.ToString()),
          SplitStrategy(*probe->op, probe->rule, split));
    }
    for (const auto& which : probe->rule.partial) {
      bool all = true;
      for (int i : which) all &= IsFloat(operands[i]);
      if (all)
        CompareCase(operands, "partial", PartialStrategy(*probe->op, which));
      else
        Skip("a Partial operand is no float");
    }
  }

 private:
  void Skip(const std::string& why) { report_.skipped.push_back(why); }
  void Fail(const std::string& what, const std::string& why) {
    report_.failures.push_back(absl::StrCat(sample_.text, "\n  ", what,
                                            " over ", ranks_, " ranks: ", why));
  }

  // The op between arguments and results that lie as the strategy says.
  absl::StatusOr<std::unique_ptr<Module>> MakeModule(const Strategy* strategy) {
    auto module = std::make_unique<Module>();
    module->set_mesh(Mesh({{"tp", strategy == nullptr ? 1 : ranks_}}));
    Function* function = module->AddFunction("forward");
    std::vector<Value*> operands;
    for (size_t i = 0; i < sample_.operands.size(); ++i) {
      operands.push_back(nullptr);
      if (!sample_.present[i]) continue;
      ArgumentInfo info;
      info.kind = ArgumentKind::kParameter;
      info.name = absl::StrCat("a", i);
      operands.back() = function->AddArgument(sample_.operands[i].type, info);
      if (strategy != nullptr)
        operands.back()->set_spec({strategy->operands[i]});
    }
    Builder builder(*module, function->body());
    TP_ASSIGN_OR_RETURN(Op * op, sample_.Make(builder, operands));
    for (int i = 0; i < op->num_results(); ++i) {
      if (strategy != nullptr) op->result(i)->set_spec({strategy->results[i]});
      function->body().results().push_back(op->result(i));
    }
    return module;
  }

  absl::StatusOr<std::unique_ptr<Module>> ProgramOf(const Module& module,
                                                    int rank) {
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> local,
                        LocalizeForRank(module, rank));
    if (!edit_) return local;
    return Parse(edit_(Print(*local)), "rank.tpir");
  }

  // Runs forward and backward; `seeds` are gradients of the results (those of
  // results that are no floats are ignored).
  absl::StatusOr<Gradients> Differentiate(const Function& function,
                                          const Tensors& operands,
                                          Tensors* results,
                                          const Tensors* seeds) {
    at::AutoGradMode enabled(true);
    Tensors leaves;
    Tensors present;
    for (const at::Tensor& operand : operands) {
      leaves.push_back(operand);
      if (!operand.defined()) continue;
      if (IsFloat(operand) && frozen_.count(leaves.size() - 1) == 0)
        leaves.back() = operand.detach().clone().requires_grad_();
      present.push_back(leaves.back());
    }
    TP_ASSIGN_OR_RETURN(*results, RunFunction(function, present));
    Gradients gradients;
    at::Tensor loss;
    for (size_t i = 0; i < results->size(); ++i) {
      const at::Tensor& result = (*results)[i];
      if (!IsFloat(result) || !result.requires_grad()) continue;
      const at::Tensor seed =
          seeds != nullptr ? (*seeds)[i] : SeedOf(i, result);
      const at::Tensor term = (result * seed).sum();
      loss = loss.defined() ? loss + term : term;
    }
    if (!loss.defined()) {
      gradients.skipped = "no result has a gradient";
    } else {
      try {
        loss.backward();
      } catch (const std::exception& error) {
        const std::string what = error.what();
        gradients.skipped = what.substr(0, what.find('\n'));
      }
    }
    for (const at::Tensor& leaf : leaves)
      gradients.operands.push_back(
          leaf.defined() && leaf.requires_grad()
              ? (leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf))
              : at::Tensor());
    return gradients;
  }

  // Leaves the operand out that the message says has no derivative ("... with
  // respect to argument 'weight'").
  bool FreezeNamed(const std::string& message) {
    const std::string mark = "with respect to argument '";
    const size_t begin = message.find(mark);
    if (begin == std::string::npos) return false;
    const size_t from = begin + mark.size();
    const std::string name =
        message.substr(from, message.find('\'', from) - from);
    auto probe = ProbeSample(sample_);
    if (!probe.ok()) return false;
    auto call = ResolveAten(*probe->op, at::kCPU);
    if (!call.ok()) return false;
    for (const AtenArgument& argument : call->arguments)
      if (argument.schema->name() == name && argument.size == 1)
        return frozen_.insert(argument.begin).second;
    return false;
  }

  static at::Tensor SeedOf(size_t result, const at::Tensor& like) {
    TensorType type{DType::kF64, {}};
    for (int64_t size : like.sizes()) type.dims.push_back(size);
    return RandomTensor({type, false, 0.5, 2}, kSize, 900 + result)
        .to(like.scalar_type());
  }

  void CompareCase(const Tensors& operands, const std::string& what,
                   const Strategy& strategy) {
    if (absl::Status status = TryCase(operands, what, strategy); !status.ok()) {
      if (status.code() == absl::StatusCode::kUnimplemented)
        report_.refused.push_back(std::string(status.message()));
      else
        Fail(what, status.ToString());
    }
  }

  absl::Status TryCase(const Tensors& operands, const std::string& what,
                       const Strategy& strategy) {
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> unsplit, MakeModule(nullptr));
    TP_ASSIGN_OR_RETURN(unsplit, ProgramOf(*unsplit, 0));
    Tensors whole_results;
    absl::StatusOr<Gradients> tried = Differentiate(
        *unsplit->function("forward"), operands, &whole_results, nullptr);
    while (!tried.ok() && FreezeNamed(std::string(tried.status().message())))
      tried = Differentiate(*unsplit->function("forward"), operands,
                            &whole_results, nullptr);
    TP_RETURN_IF_ERROR(tried.status());
    const Gradients& whole = *tried;
    if (!whole.skipped.empty()) {
      Skip(whole.skipped);
      return absl::OkStatus();
    }
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> module, MakeModule(&strategy));
    std::vector<Tensors> terms = TermsOf(operands, strategy);
    Tensors sums(operands.size());
    for (int rank = 0; rank < ranks_; ++rank) {
      TP_ASSIGN_OR_RETURN(std::unique_ptr<Module> program,
                          ProgramOf(*module, rank));
      Tensors local;
      for (size_t i = 0; i < operands.size(); ++i)
        local.push_back(
            operands[i].defined()
                ? PartOf(terms[rank][i], strategy.operands[i], ranks_, rank)
                : at::Tensor());
      Tensors seeds;
      for (size_t i = 0; i < whole_results.size(); ++i)
        seeds.push_back(PartOf(SeedOf(i, whole_results[i]), strategy.results[i],
                               ranks_, rank));
      Tensors results;
      TP_ASSIGN_OR_RETURN(Gradients got,
                          Differentiate(*program->function("forward"), local,
                                        &results, &seeds));
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!got.operands[i].defined()) continue;
        if (strategy.operands[i].is_replicate()) {
          sums[i] =
              sums[i].defined() ? sums[i] + got.operands[i] : got.operands[i];
          continue;
        }
        const at::Tensor expected =
            PartOf(whole.operands[i], strategy.operands[i], ranks_, rank);
        Check(what, rank, i, got.operands[i], expected);
      }
    }
    for (size_t i = 0; i < operands.size(); ++i)
      if (sums[i].defined()) Check(what, -1, i, sums[i], whole.operands[i]);
    ++report_.gradients;
    return absl::OkStatus();
  }

  // The operands of each rank: terms of those that are Partial.
  std::vector<Tensors> TermsOf(const Tensors& operands,
                               const Strategy& strategy) {
    std::vector<Tensors> terms(ranks_, operands);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!strategy.operands[i].is_partial()) continue;
      at::Tensor rest = operands[i];
      for (int rank = 1; rank < ranks_; ++rank) {
        terms[rank][i] =
            RandomTensor(sample_.operands[i], kSize, 500 + 10 * i + rank);
        rest = rest - terms[rank][i];
      }
      terms[0][i] = rest;
    }
    return terms;
  }

  void Check(const std::string& what, int rank, size_t operand,
             const at::Tensor& actual, const at::Tensor& expected) {
    const std::string difference =
        Difference(actual, expected, ToleranceOf(sample_));
    if (difference.empty()) return;
    Fail(what, absl::StrCat("gradient of operand ", operand,
                            rank < 0 ? " summed over ranks"
                                     : absl::StrCat(" on rank ", rank),
                            ": ", difference));
  }

  const Sample& sample_;
  const int ranks_;
  const Edit& edit_;
  Report& report_;
  std::set<size_t> frozen_;  // operands without a derivative
};

}  // namespace

void CompareGradients(const Sample& sample, int ranks, const Edit& edit,
                      Report& report) {
  GradientComparison(sample, ranks, edit, report).Compare();
}

}  // namespace tp::soundness
