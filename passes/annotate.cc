// Takes down what the user's rules say: weights that they name get their
// placement at rest, which the search works around, and rules on inputs,
// outputs and values of modules become ops that hold a placement (pins.h). A
// rule can change speed and memory, never a result.
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/value_names.h"
#include "llvm/ADT/StringMap.h"
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

// What the rules say of a weight; null if none does. Every name of a tied
// weight counts, and all have to agree.
absl::StatusOr<const UserRule*> RuleOfWeight(RuleMatcher& matcher,
                                             const ArgumentInfo& info,
                                             const Value& value,
                                             const Module& module,
                                             ShardingSpec& spec) {
  const UserRule* chosen = nullptr;
  std::string chosen_name;
  for (const std::string& name : NamesOf(info)) {
    const UserRule* rule = matcher.First(name);
    if (rule == nullptr || rule == chosen) continue;
    TP_ASSIGN_OR_RETURN(ShardingSpec asked,
                        SpecOf(*rule, name, value.type(), module.mesh()));
    if (chosen != nullptr && asked != spec)
      return RuleError(
          *rule, absl::StrCat("asks for ", ToString(asked), " of \"", name,
                              "\", but the rule at ", chosen->source, " for ",
                              ToString(spec), " of \"", chosen_name,
                              "\", which is the same weight: a tied weight "
                              "lies one way"));
    if (chosen != nullptr) continue;
    chosen = rule;
    chosen_name = name;
    spec = std::move(asked);
  }
  return chosen;
}

absl::Status AnnotateArguments(Module& module, const UserRules& rules,
                               bool train) {
  TP_ASSIGN_OR_RETURN(RuleMatcher weights,
                      RuleMatcher::Of(rules, UserRule::Of::kWeight));
  std::vector<std::string> known;
  for (const auto& function : module.functions()) {
    for (size_t i = 0; i < function->arguments().size(); ++i) {
      const ArgumentInfo& info = function->arguments()[i];
      if (!info.is_weight()) continue;
      for (std::string& name : NamesOf(info)) known.push_back(std::move(name));
      Value* value = function->body().arguments()[i].get();
      ShardingSpec spec;
      TP_ASSIGN_OR_RETURN(const UserRule* rule,
                          RuleOfWeight(weights, info, *value, module, spec));
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
