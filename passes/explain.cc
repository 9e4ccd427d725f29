#include "passes/explain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "ir/value_names.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/candidates.h"
#include "passes/plan_summary.h"
#include "passes/plan_why.h"

namespace tp {
namespace {

// The passes in front of the search, which see the program as it is planned.
std::vector<std::string> PassesBeforeSearch(bool train) {
  std::vector<std::string> names;
  for (const std::string& name : PlanPipeline(train)) {
    if (name == "annotate") break;
    names.push_back(name);
  }
  return names;
}

struct Alternative {
  ShardingSpec spec;
  bool chosen = false;
  absl::Status status;  // why there is no such plan
  PlanSummary summary;

  double step_us() const { return summary.compute_us + summary.communicate_us; }
  double collective_bytes() const {
    double bytes = 0;
    for (const CollectiveSummary& collective : summary.collectives)
      bytes += static_cast<double>(collective.bytes);
    return bytes;
  }
};

class Explainer {
 public:
  Explainer(const Module& imported, const PassContext& context)
      : imported_(imported), context_(context) {
    context_.remark = nullptr;
    context_.dump = nullptr;
    context_.on_zero3 = nullptr;
  }

  absl::StatusOr<std::string> Explain(const Module& planned,
                                      const std::string& name) {
    TP_ASSIGN_OR_RETURN(const PlanSubject chosen, FindSubject(planned, name));
    Alternative first;
    first.chosen = true;
    first.spec =
        ShardingSpec(chosen.value->spec().begin(), chosen.value->spec().end());
    first.spec.resize(planned.mesh().ndim());
    TP_ASSIGN_OR_RETURN(first.summary, Summarize(planned, context_.cost));
    TP_ASSIGN_OR_RETURN(std::vector<ShardingSpec> others,
                        OtherSpecs(chosen.name, first.spec));
    std::vector<Alternative> alternatives = {std::move(first)};
    for (ShardingSpec& spec : others)
      alternatives.push_back(Price(chosen, std::move(spec)));
    std::stable_sort(alternatives.begin() + 1, alternatives.end(),
                     [](const Alternative& a, const Alternative& b) {
                       if (a.status.ok() != b.status.ok()) return a.status.ok();
                       return a.step_us() < b.step_us();
                     });
    return Table(chosen, alternatives);
  }

 private:
  // Placements by axis that differ from the chosen ones on one axis.
  absl::StatusOr<std::vector<ShardingSpec>> OtherSpecs(
      const std::string& name, const ShardingSpec& chosen) {
    std::unique_ptr<Module> module = CloneModule(imported_);
    TP_RETURN_IF_ERROR(
        RunPasses(*module, PassesBeforeSearch(context_.train), context_));
    TP_ASSIGN_OR_RETURN(const PlanSubject subject, FindSubject(*module, name));
    std::vector<ShardingSpec> specs;
    for (int axis = 0; axis < module->mesh().ndim(); ++axis) {
      TP_ASSIGN_OR_RETURN(Candidates candidates,
                          FindCandidates(*module, *subject.function, axis, {}));
      for (const Placement& placement : Placements(candidates, subject)) {
        ShardingSpec spec = chosen;
        spec[axis] = placement;
        const auto same = [&](const ShardingSpec& other) {
          for (int a = 0; a < module->mesh().ndim(); ++a)
            if (!SameLayout(spec[a], other[a], module->mesh().axis(a).size))
              return false;
          return true;
        };
        if (!same(chosen) && llvm::none_of(specs, same))
          specs.push_back(std::move(spec));
      }
    }
    return specs;
  }

  static std::vector<Placement> Placements(const Candidates& candidates,
                                           const PlanSubject& subject) {
    if (subject.value->op() == nullptr)
      return candidates.arguments[subject.value->index()];
    std::vector<Placement> placements;
    auto index = candidates.index_of.find(subject.value->op());
    if (index == candidates.index_of.end()) return placements;
    for (const Strategy& strategy : candidates.ops[index->second].strategies)
      placements.push_back(strategy.results[subject.value->index()]);
    return placements;
  }

  Alternative Price(const PlanSubject& subject, ShardingSpec spec) {
    Alternative alternative;
    alternative.spec = std::move(spec);
    UserRule rule;
    rule.of = subject.weight != nullptr ? UserRule::Of::kWeight
                                        : UserRule::Of::kProduced;
    rule.pattern = subject.name;
    rule.exact = true;
    rule.placement = ToString(alternative.spec);
    rule.source = "--explain";
    PassContext context = context_;
    // In front of the user's, which then may be for nothing.
    for (UserRule& other : context.rules) other.optional = true;
    context.rules.insert(context.rules.begin(), rule);
    std::unique_ptr<Module> module = CloneModule(imported_);
    alternative.status =
        RunPasses(*module, PlanPipeline(context.train), context);
    if (!alternative.status.ok()) return alternative;
    absl::StatusOr<PlanSummary> summary = Summarize(*module, context.cost);
    alternative.status = summary.status();
    if (summary.ok()) alternative.summary = *std::move(summary);
    return alternative;
  }

  // What an alternative has more of than the plan that was chosen.
  static std::string WhyLost(const Alternative& chosen,
                             const Alternative& other) {
    std::vector<std::string> reasons;
    const auto count = static_cast<int64_t>(other.summary.collectives.size()) -
                       static_cast<int64_t>(chosen.summary.collectives.size());
    const double moved = other.collective_bytes() - chosen.collective_bytes();
    if (count != 0 || moved != 0)
      reasons.push_back(
          absl::StrFormat("%+d collectives, %+.0f bytes moved", count, moved));
    const double communicate =
        other.summary.communicate_us - chosen.summary.communicate_us;
    const double compute = other.summary.compute_us - chosen.summary.compute_us;
    if (communicate != 0)
      reasons.push_back(absl::StrFormat("communicate %+.1f us", communicate));
    if (compute != 0)
      reasons.push_back(absl::StrFormat("compute %+.1f us", compute));
    const int64_t held = other.summary.largest_rank_bytes() -
                         chosen.summary.largest_rank_bytes();
    if (held != 0)
      reasons.push_back(absl::StrFormat("fullest rank holds %+d bytes", held));
    if (reasons.empty()) return "costs the same; the first one counts";
    return absl::StrJoin(reasons, ", ");
  }

  static std::string Table(const PlanSubject& subject,
                           const std::vector<Alternative>& alternatives) {
    const Alternative& chosen = alternatives.front();
    std::string text =
        absl::StrCat(subject.name, "  ", ToString(subject.value->type()),
                     subject.weight != nullptr ? ", a weight" : "", "\n");
    absl::StrAppend(&text, absl::StrFormat("%-28s %12s %14s  %s\n", "placement",
                                           "step us", "fullest rank", ""));
    for (const Alternative& other : alternatives) {
      const std::string spec = ToString(other.spec);
      if (!other.status.ok()) {
        absl::StrAppend(&text,
                        absl::StrFormat("%-28s %12s %14s  %s\n", spec, "-", "-",
                                        other.status.message()));
        continue;
      }
      absl::StrAppend(
          &text,
          absl::StrFormat("%-28s %12.1f %14d  %s\n", spec, other.step_us(),
                          other.summary.largest_rank_bytes(),
                          other.chosen ? "chosen" : WhyLost(chosen, other)));
    }
    const bool faster = llvm::any_of(alternatives, [&](const auto& other) {
      return other.status.ok() && other.step_us() < chosen.step_us();
    });
    if (faster)
      absl::StrAppend(&text,
                      "A faster one lost by what ranks hold: the search counts "
                      "bytes of weights, too, and uneven parts by the fullest "
                      "rank.\n");
    return text;
  }

  const Module& imported_;
  PassContext context_;
};

}  // namespace

absl::StatusOr<std::string> ExplainText(const Module& imported,
                                        const Module& planned,
                                        const PassContext& context,
                                        const std::string& name) {
  return Explainer(imported, context).Explain(planned, name);
}

}  // namespace tp
