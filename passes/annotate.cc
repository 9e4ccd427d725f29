// Pins the weights that the user's rules name. A pinned weight keeps its
// placement at rest whatever the search finds; a rule can change speed and
// memory, never a result.
#include <algorithm>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "passes/pass.h"

namespace tp {
namespace {

std::vector<std::string> NamesOf(const ArgumentInfo& info) {
  std::vector<std::string> names = {info.name};
  names.insert(names.end(), info.aliases.begin(), info.aliases.end());
  return names;
}

absl::Status RuleError(const UserRule& rule, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(rule.source, ": rule \"", rule.pattern, "\": ", what));
}

absl::StatusOr<bool> Matches(const UserRule& rule, const ArgumentInfo& info) {
  const std::vector<std::string> names = NamesOf(info);
  if (rule.exact) return llvm::is_contained(names, rule.pattern);
  try {
    const std::regex pattern(rule.pattern);
    return llvm::any_of(names, [&](const std::string& name) {
      return std::regex_search(name, pattern);
    });
  } catch (const std::regex_error& error) {
    return RuleError(rule, absl::StrCat("not a regular expression: ",
                                        error.what()));
  }
}

absl::StatusOr<Placement> PlacementOf(const UserRule& rule,
                                      const ArgumentInfo& info,
                                      const TensorType& type) {
  if (rule.action == UserRule::Action::kReplicate)
    return Placement::Replicate();
  const int dim = rule.dim < 0 ? rule.dim + type.ndim() : rule.dim;
  if (dim < 0 || dim >= type.ndim())
    return RuleError(
        rule, absl::StrCat("\"", info.name, "\" is ", ToString(type),
                           " and has no dim ", rule.dim, " to split"));
  const SymExpr unit = SymExpr(rule.groups) * SymExpr(rule.chunk);
  const std::optional<SymExpr> size = ExactDiv(type.dims[dim], unit);
  if (!size || (size->is_constant() && size->constant() < 1))
    return RuleError(
        rule, absl::StrCat("dim ", dim, " of \"", info.name, "\" has ",
                           type.dims[dim].ToString(),
                           " indices, no multiple of ",
                           rule.groups == 1
                               ? ""
                               : absl::StrCat("groups=", rule.groups, " x "),
                           "chunk=", rule.chunk));
  return Placement::Shard(dim, DimFactor{rule.groups, *size, rule.chunk});
}

// The weight names nearest to a pattern that matched none.
std::string NearNames(const UserRule& rule, const Module& module) {
  std::vector<std::pair<unsigned, std::string>> names;
  for (const auto& function : module.functions())
    for (const ArgumentInfo& info : function->arguments())
      if (info.is_weight())
        for (const std::string& name : NamesOf(info))
          names.push_back(
              {llvm::StringRef(name).edit_distance(rule.pattern), name});
  std::sort(names.begin(), names.end());
  if (names.size() > 3) names.resize(3);
  return absl::StrJoin(names, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, "\"", entry.second, "\"");
  });
}

}  // namespace

absl::Status AnnotateWeights(Module& module, const PassContext& context) {
  std::vector<bool> matched(context.rules.size(), false);
  for (const auto& function : module.functions()) {
    for (size_t i = 0; i < function->arguments().size(); ++i) {
      const ArgumentInfo& info = function->arguments()[i];
      if (!info.is_weight()) continue;
      Value* value = function->body().arguments()[i].get();
      bool pinned = false;
      for (size_t r = 0; r < context.rules.size(); ++r) {
        TP_ASSIGN_OR_RETURN(bool matches, Matches(context.rules[r], info));
        if (!matches) continue;
        matched[r] = true;
        if (pinned) continue;  // the first rule that matches counts
        pinned = true;
        TP_ASSIGN_OR_RETURN(Placement placement, PlacementOf(context.rules[r],
                                                             info,
                                                             value->type()));
        ShardingSpec spec(module.mesh().ndim());
        if (!spec.empty()) spec.back() = placement;
        value->set_spec(std::move(spec));
      }
    }
  }
  for (size_t r = 0; r < matched.size(); ++r) {
    if (matched[r] || context.rules[r].optional) continue;
    return RuleError(
        context.rules[r],
        absl::StrCat("names no weight; near names: ",
                     NearNames(context.rules[r], module),
                     " (mark it `optional: true` if that is meant)"));
  }
  return absl::OkStatus();
}

}  // namespace tp
