// Takes down what the user's rules say: weights that they name get their
// placement at rest, which the search works around, and rules on inputs,
// outputs and values of modules become ops that hold a placement (pins.h). A
// rule can change speed and memory, never a result.
#include <functional>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/value_names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "passes/candidates.h"
#include "passes/pass.h"
#include "passes/pins.h"
#include "passes/rule_match.h"

namespace tp {
namespace {

std::vector<std::string> NamesOf(const ArgumentInfo& info) {
  std::vector<std::string> names = {info.name};
  names.insert(names.end(), info.aliases.begin(), info.aliases.end());
  return names;
}

// Placements of weights that the program suggests, by name; empty unless a
// rule asks for them.
using Suggestions = llvm::StringMap<std::vector<Placement>>;

absl::StatusOr<Suggestions> Suggest(const Module& module,
                                    const UserRules& rules) {
  Suggestions suggestions;
  if (llvm::none_of(rules, HasAutoChunk) || module.mesh().ndim() == 0)
    return suggestions;
  for (const auto& function : module.functions()) {
    if (!IsPlanned(module, *function)) continue;
    TP_ASSIGN_OR_RETURN(
        Candidates found,
        FindCandidates(module, *function, DefaultAxis(module.mesh()), {}));
    for (size_t i = 0; i < found.arguments.size(); ++i) {
      std::vector<Placement>& list = suggestions[function->arguments()[i].name];
      list.insert(list.end(), found.arguments[i].begin(),
                  found.arguments[i].end());
    }
  }
  return suggestions;
}

// The rule that says how a weight is to lie, null if none does, and its spec.
// Every name of a tied weight counts, and all have to agree; an optional rule
// gives way.
absl::StatusOr<const UserRule*> FindSpec(
    RuleMatcher& matcher, const ArgumentInfo& info, const Value& value,
    const Module& module, const Suggestions& suggestions, ShardingSpec& spec) {
  struct Match {
    const UserRule* rule;
    std::string name;
  };
  std::vector<Match> matches;
  for (const std::string& name : NamesOf(info))
    if (const UserRule* rule = matcher.First(name))
      matches.push_back({rule, name});
  // In the order of the rules, which lie in one list.
  llvm::stable_sort(matches, [](const Match& a, const Match& b) {
    return std::less<>()(a.rule, b.rule);
  });
  for (const Match& match : matches) {
    TP_ASSIGN_OR_RETURN(ShardingSpec asked,
                        SpecOf(*match.rule, match.name, value.type(),
                               module.mesh(), suggestions.lookup(info.name)));
    if (match.rule == matches.front().rule) {
      spec = std::move(asked);
    } else if (asked != spec && !match.rule->optional) {
      return RuleError(
          *match.rule,
          absl::StrCat("asks for ", ToString(asked), " of \"", match.name,
                       "\", but the rule at ", matches.front().rule->source,
                       " for ", ToString(spec), " of \"", matches.front().name,
                       "\", which is the same weight: a tied weight lies one "
                       "way"));
    }
  }
  return matches.empty() ? nullptr : matches.front().rule;
}

absl::Status AnnotateArguments(Module& module, const UserRules& rules,
                               bool train) {
  TP_ASSIGN_OR_RETURN(RuleMatcher weights,
                      RuleMatcher::Of(rules, UserRule::Of::kWeight));
  TP_ASSIGN_OR_RETURN(const Suggestions suggestions, Suggest(module, rules));
  std::vector<std::string> known;
  for (const auto& function : module.functions()) {
    for (size_t i = 0; i < function->arguments().size(); ++i) {
      const ArgumentInfo& info = function->arguments()[i];
      if (!info.is_weight()) continue;
      for (std::string& name : NamesOf(info)) known.push_back(std::move(name));
      Value* value = function->body().arguments()[i].get();
      ShardingSpec spec;
      TP_ASSIGN_OR_RETURN(
          const UserRule* rule,
          FindSpec(weights, info, *value, module, suggestions, spec));
      if (rule == nullptr) continue;
      if (rule->action == UserRule::Action::kZero3 && !train)
        return RuleError(*rule,
                         "zero3 is a state of training: compile with --train, "
                         "or write replicate");
      value->set_spec(std::move(spec));
    }
  }
  return weights.CheckUsed("weight", known);
}

// What a plan was made for, and what is here instead.
absl::Status CheckStamp(const Module& module, const UserRules& rules) {
  if (rules.fingerprint.empty() || rules.fingerprint == PlanFingerprint(module))
    return absl::OkStatus();
  const auto stale = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(
        rules.file, ": this plan was made for something else: ", what,
        ". Compile without it for a new one; to keep some of its weights, take "
        "out tp_plan, fingerprint, mesh and values"));
  };
  if (!rules.mesh.empty() && rules.mesh != module.mesh().ToString())
    return stale(absl::StrCat("the mesh is ", module.mesh().ToString(),
                              " and was ", rules.mesh));
  llvm::StringMap<std::string> types;
  for (const auto& function : module.functions())
    for (size_t i = 0; i < function->arguments().size(); ++i)
      if (function->arguments()[i].is_weight())
        types["weight " + function->arguments()[i].name] =
            ToString(function->body().arguments()[i]->type());
  for (const NamedValue& named : NamedValues(module))
    types["value " + named.name] = ToString(named.value->type());
  for (const UserRule& rule : rules) {
    const bool weight = rule.of == UserRule::Of::kWeight;
    if (rule.type.empty() || !rule.exact) continue;
    auto found = types.find((weight ? "weight " : "value ") + rule.pattern);
    if (found == types.end())
      return stale(absl::StrCat("there is no ", weight ? "weight" : "value",
                                " \"", rule.pattern, "\" (", rule.source, ")"));
    if (found->second != rule.type)
      return stale(absl::StrCat("\"", rule.pattern, "\" is ", found->second,
                                " and was ", rule.type, " (", rule.source,
                                ")"));
  }
  return stale("the model has weights or ops that the plan has not");
}

}  // namespace

absl::Status AnnotateWeights(Module& module, const PassContext& context) {
  TP_RETURN_IF_ERROR(CheckStamp(module, context.rules));
  TP_RETURN_IF_ERROR(AnnotateArguments(module, context.rules, context.train));
  TP_RETURN_IF_ERROR(InsertPins(module, context.rules));
  // Inputs that stay on the ranks from call to call.
  TP_ASSIGN_OR_RETURN(std::vector<PinnedValue> pinned,
                      PinnedValues(module, context.rules));
  for (PinnedValue& pin : pinned)
    if (pin.value->op() == nullptr) pin.value->set_spec(std::move(pin.spec));
  return absl::OkStatus();
}

}  // namespace tp
