#include "passes/rule_match.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/value_names.h"

namespace tp {
namespace {

// The regular expression of a glob: * is one component of a dotted name, **
// any number of them.
std::string RegexOfGlob(const std::string& glob) {
  std::string regex;
  for (size_t i = 0; i < glob.size(); ++i) {
    const char c = glob[i];
    if (c == '*' && i + 1 < glob.size() && glob[i + 1] == '*') {
      regex += ".*";
      ++i;
    } else if (c == '*') {
      regex += "[^.:]*";
    } else {
      if (std::string("\\^$.|?+()[]{}").find(c) != std::string::npos)
        regex += '\\';
      regex += c;
    }
  }
  return regex;
}

absl::StatusOr<std::regex> RegexOf(const UserRule& rule) {
  try {
    if (rule.glob)
      return std::regex(absl::StrCat("^", RegexOfGlob(rule.pattern), "$"));
    return std::regex(rule.pattern);
  } catch (const std::regex_error& error) {
    return RuleError(rule,
                     absl::StrCat("not a regular expression: ", error.what()));
  }
}

// The largest chunk of the dim, seen as so many groups, that a placement
// splits by; 1 if none does.
int64_t AutoChunk(llvm::ArrayRef<Placement> known, int dim, int64_t groups) {
  int64_t chunk = 1;
  for (const Placement& placement : known) {
    if (!placement.is_shard() || placement.dim() != dim ||
        !(placement.factor().left == SymExpr(groups)))
      continue;
    const std::optional<int64_t> right = placement.factor().right.AsConstant();
    if (right && *right > chunk) chunk = *right;
  }
  return chunk;
}

absl::StatusOr<Placement> PlacementOf(const UserRule& rule,
                                      const RuleState& state,
                                      const std::string& name,
                                      const TensorType& type,
                                      llvm::ArrayRef<Placement> known) {
  if (state.action != RuleState::Action::kSplit) return Placement::Replicate();
  const int dim = state.dim < 0 ? state.dim + type.ndim() : state.dim;
  if (dim < 0 || dim >= type.ndim())
    return RuleError(rule,
                     absl::StrCat("\"", name, "\" is ", ToString(type),
                                  " and has no dim ", state.dim, " to split"));
  const int64_t chunk = state.chunk == kAutoChunk
                            ? AutoChunk(known, dim, state.groups)
                            : state.chunk;
  const SymExpr unit = SymExpr(state.groups) * SymExpr(chunk);
  const std::optional<SymExpr> size = ExactDiv(type.dims[dim], unit);
  if (!size || (size->is_constant() && size->constant() < 1))
    return RuleError(
        rule,
        absl::StrCat("dim ", dim, " of \"", name, "\" has ",
                     type.dims[dim].ToString(), " indices, no multiple of ",
                     state.groups == 1
                         ? ""
                         : absl::StrCat("groups=", state.groups, " x "),
                     "chunk=", chunk));
  return Placement::Shard(dim, DimFactor{state.groups, *size, chunk});
}

// A dim is split on one axis.
absl::Status CheckDims(const UserRule& rule, const std::string& name,
                       const ShardingSpec& spec, const Mesh& mesh) {
  for (int a = 0; a < mesh.ndim(); ++a)
    for (int b = a + 1; b < mesh.ndim(); ++b)
      if (spec[a].is_shard() && spec[b].is_shard() &&
          spec[a].dim() == spec[b].dim())
        return RuleError(
            rule,
            absl::StrCat("dim ", spec[a].dim(), " of \"", name,
                         "\" is to be split on ", mesh.axis(a).name, " and ",
                         mesh.axis(b).name, "; a dim is split on one axis"));
  return absl::OkStatus();
}

}  // namespace

absl::Status RuleError(const UserRule& rule, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(rule.source, ": rule \"", rule.pattern, "\": ", what));
}

absl::StatusOr<RuleMatcher> RuleMatcher::Of(const UserRules& rules,
                                            UserRule::Of of) {
  RuleMatcher matcher;
  for (const UserRule& rule : rules) {
    if (rule.of != of) continue;
    const int index = static_cast<int>(matcher.states_.size());
    matcher.states_.push_back({&rule});
    if (rule.exact) {
      matcher.exact_[rule.pattern].push_back(index);
    } else {
      TP_ASSIGN_OR_RETURN(std::regex regex, RegexOf(rule));
      matcher.patterns_.push_back({index, std::move(regex)});
    }
  }
  return matcher;
}

std::vector<int> RuleMatcher::Find(const std::string& name) {
  std::vector<int> found;
  if (auto it = exact_.find(name); it != exact_.end()) found = it->second;
  for (const Pattern& pattern : patterns_)
    if (std::regex_search(name, pattern.regex)) found.push_back(pattern.rule);
  std::sort(found.begin(), found.end());
  for (int rule : found) states_[rule].matched = true;
  return found;
}

const UserRule* RuleMatcher::First(const std::string& name) {
  const std::vector<int> found = Find(name);
  if (found.empty()) return nullptr;
  states_[found.front()].used = true;
  return states_[found.front()].rule;
}

std::vector<const UserRule*> RuleMatcher::All(const std::string& name) {
  std::vector<const UserRule*> rules;
  for (int rule : Find(name)) {
    states_[rule].used = true;
    rules.push_back(states_[rule].rule);
  }
  return rules;
}

absl::Status RuleMatcher::CheckUsed(const std::string& what,
                                    llvm::ArrayRef<std::string> known) const {
  for (const State& state : states_) {
    if (state.rule->optional || state.used) continue;
    if (state.matched)
      return RuleError(*state.rule,
                       "is never used: rules before it are for all that it "
                       "names, and the first counts");
    return RuleError(
        *state.rule,
        absl::StrCat("names no ", what, "; near names: ",
                     NearNames(state.rule->pattern, known.vec()),
                     " (mark it `optional: true` if that is meant)"));
  }
  return absl::OkStatus();
}

bool HasAutoChunk(const UserRule& rule) {
  return rule.chunk == kAutoChunk ||
         llvm::any_of(rule.axes, [](const UserRule::AxisState& axis) {
           return axis.state.chunk == kAutoChunk;
         });
}

int DefaultAxis(const Mesh& mesh) {
  if (const int axis = mesh.AxisIndex("tp"); axis >= 0) return axis;
  for (int axis = mesh.ndim() - 1; axis >= 0; --axis)
    if (mesh.axis(axis).name != "dp") return axis;
  return mesh.ndim() - 1;
}

absl::StatusOr<ShardingSpec> SpecOf(const UserRule& rule,
                                    const std::string& name,
                                    const TensorType& type, const Mesh& mesh,
                                    llvm::ArrayRef<Placement> known) {
  if (!rule.type.empty() && rule.type != ToString(type))
    return RuleError(rule, absl::StrCat("\"", name, "\" is ", ToString(type),
                                        " here, but ", rule.type,
                                        " in the plan: it is of another model "
                                        "or other inputs; compile without it"));
  if (!rule.placement.empty()) {
    absl::StatusOr<ShardingSpec> spec =
        ParseSpecText(rule.placement, type, mesh);
    if (!spec.ok())
      return RuleError(rule, std::string(spec.status().message()));
    return spec;
  }
  ShardingSpec spec(mesh.ndim());
  if (spec.empty()) return spec;
  if (rule.axes.empty()) {
    TP_ASSIGN_OR_RETURN(spec[DefaultAxis(mesh)],
                        PlacementOf(rule, rule, name, type, known));
  }
  for (const UserRule::AxisState& axis : rule.axes) {
    const int index = mesh.AxisIndex(axis.axis);
    if (index < 0) {
      std::vector<std::string> names;
      for (const MeshAxis& known : mesh.axes()) names.push_back(known.name);
      return RuleError(
          rule, absl::StrCat("the mesh ", mesh.ToString(), " has no axis \"",
                             axis.axis,
                             "\"; near names: ", NearNames(axis.axis, names)));
    }
    TP_ASSIGN_OR_RETURN(spec[index],
                        PlacementOf(rule, axis.state, name, type, known));
  }
  TP_RETURN_IF_ERROR(CheckDims(rule, name, spec, mesh));
  return spec;
}

absl::StatusOr<ShardingSpec> ParseSpecText(const std::string& text,
                                           const TensorType& type,
                                           const Mesh& mesh) {
  llvm::StringRef rest = text;
  const auto fail = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no placement on ", mesh.ToString(),
                     "; write one per axis, as in <S(0)> or <R, S(1)>"));
  };
  if (!rest.consume_front("<") || !rest.consume_back(">")) return fail();
  ShardingSpec spec;
  while (!rest.trim().empty()) {
    size_t end = 0;
    for (int depth = 0; end < rest.size(); ++end) {
      if (rest[end] == ',' && depth == 0) break;
      depth += (rest[end] == '(') - (rest[end] == ')');
    }
    TP_ASSIGN_OR_RETURN(Placement placement,
                        ParsePlacement(rest.take_front(end).trim(), type.dims));
    spec.push_back(std::move(placement));
    rest = rest.drop_front(std::min(end + 1, rest.size()));
  }
  if (static_cast<int>(spec.size()) != mesh.ndim()) return fail();
  return spec;
}

}  // namespace tp
