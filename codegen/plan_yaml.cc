#include "codegen/plan_yaml.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "codegen/package_writer.h"
#include "ir/collectives.h"
#include "ir/op_def.h"
#include "ir/schedule.h"
#include "ir/value_names.h"
#include "ir/value_placement.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

namespace tp {
namespace {

std::string Quoted(llvm::StringRef text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  quoted += '"';
  return quoted;
}

// The first op that uses the value.
const Op* FirstUse(const Function& function, const Value* value) {
  const Op* first = nullptr;
  ForEachOp(function.body(), [&](const Op& op) {
    if (first == nullptr && llvm::is_contained(op.operands(), value))
      first = &op;
  });
  return first;
}

// The axis that splits a weight, of several the first; 0 if none does.
int SplitAxis(const Value& weight, const Mesh& mesh) {
  for (int axis = 0; axis < mesh.ndim(); ++axis)
    if (AxisPlacement(weight, axis).is_shard()) return axis;
  return 0;
}

// Which factor of which op the split of a weight follows.
std::string WhyOf(const Function& function, const Value* weight,
                  const Mesh& mesh) {
  const Op* use = FirstUse(function, weight);
  if (use == nullptr) return "not used";
  std::string where = absl::StrCat(std::string(use->base_name()), " ",
                                   ToString(use->location()));
  absl::StatusOr<OpRule> rule = RuleOf(*use);
  const int axis = SplitAxis(*weight, mesh);
  const Placement placement = AxisPlacement(*weight, axis);
  if (!placement.is_shard()) return absl::StrCat("whole in ", where);
  if (!rule.ok()) return where;
  for (int i = 0; i < use->num_operands(); ++i) {
    if (use->operand(i) != weight) continue;
    auto split = ToFactorSharding(*rule, rule->operands[i], placement,
                                  mesh.axis(axis).size);
    if (!split) continue;
    const Factor& factor = rule->factors[split->factor];
    return absl::StrCat(
        factor.kind == FactorKind::kReduce ? "summed factor " : "factor ",
        factor.name, " of ", where);
  }
  return where;
}

std::string SpecText(const Value& value, const Mesh& mesh) {
  ShardingSpec spec(value.spec().begin(), value.spec().end());
  spec.resize(mesh.ndim());
  return ToString(spec);
}

// "split 1", or by axis "{dp: replicate, tp: split 1}".
std::string StatesText(const Value& weight, const Mesh& mesh) {
  if (mesh.ndim() == 1) return StateText(AxisPlacement(weight, 0));
  std::string text = "{";
  for (int axis = 0; axis < mesh.ndim(); ++axis)
    absl::StrAppend(&text, axis == 0 ? "" : ", ", mesh.axis(axis).name, ": ",
                    StateText(AxisPlacement(weight, axis)));
  return text + "}";
}

// Each weight once, under the first function that uses it.
void AddWeights(const Module& planned, const Function& function,
                llvm::ArrayRef<std::string> zero3, llvm::StringSet<>& seen,
                std::string& text) {
  for (size_t i = 0; i < function.arguments().size(); ++i) {
    const ArgumentInfo& info = function.arguments()[i];
    if (!info.is_weight() || !seen.insert(info.name).second) continue;
    const Value* value = function.body().arguments()[i].get();
    absl::StrAppend(&text, "  - name: ", Quoted(info.name), "\n");
    for (const std::string& alias : info.aliases)
      absl::StrAppend(&text, "    # also ", Quoted(alias), "\n");
    absl::StrAppend(
        &text, "    state: ",
        llvm::is_contained(zero3, info.name)
            ? "zero3"
            : StatesText(*value, planned.mesh()),
        "\n    type: ", Quoted(ToString(value->type())),
        "\n    why: ", Quoted(WhyOf(function, value, planned.mesh())), "\n");
  }
}

void AddValues(const Module& planned, std::string& text) {
  llvm::DenseMap<const Value*, std::string> names;
  for (const NamedValue& named : NamedValues(planned))
    names[named.value] = named.name;
  const auto add = [&](const Value& value, const Location& location) {
    absl::StrAppend(&text, "  - {name: ", Quoted(names[&value]),
                    ", placement: ", Quoted(SpecText(value, planned.mesh())),
                    ", type: ", Quoted(ToString(value.type())),
                    location.empty() ? "" : ", where: ",
                    location.empty() ? "" : Quoted(ToString(location)), "}\n");
  };
  for (const auto& function : planned.functions()) {
    if (!IsPlanned(planned, *function)) continue;
    // Inputs are whole, but for what stays on the ranks.
    for (const auto& argument : function->body().arguments())
      if (names.count(argument.get()) > 0 &&
          llvm::any_of(argument->spec(), [](const Placement& placement) {
            return !placement.is_replicate();
          }))
        add(*argument, Location());
    ForEachOp(function->body(), [&](const Op& op) {
      for (int i = 0; i < op.num_results(); ++i)
        if (names.count(op.result(i)) > 0) add(*op.result(i), op.location());
      if (Communicates(KindOf(op)))
        absl::StrAppend(&text, "  # ", op.name(), " gives ",
                        SpecText(*op.result(), planned.mesh()), "\n");
    });
  }
}

std::string RuleStateText(const RuleState& state) {
  if (state.action == RuleState::Action::kReplicate) return "replicate";
  std::string text = absl::StrCat("split ", state.dim);
  if (state.groups != 1) absl::StrAppend(&text, " groups=", state.groups);
  if (state.chunk == kAutoChunk)
    absl::StrAppend(&text, " chunk=auto");
  else if (state.chunk != 1)
    absl::StrAppend(&text, " chunk=", state.chunk);
  return text;
}

// The user's rules on inputs, outputs and values, as they were given: what
// they say is not to be seen in how ops leave their results.
void AddRules(const UserRules& rules, std::string& text) {
  bool first = true;
  for (const UserRule& rule : rules) {
    const char* const of = rule.of == UserRule::Of::kInput    ? "input"
                           : rule.of == UserRule::Of::kOutput ? "output"
                           : rule.of == UserRule::Of::kValue  ? "value"
                                                              : nullptr;
    if (of == nullptr) continue;
    if (first) absl::StrAppend(&text, "rules:\n");
    first = false;
    absl::StrAppend(&text, "  - ",
                    rule.exact  ? "name: "
                    : rule.glob ? "glob: "
                                : "search: ",
                    Quoted(rule.pattern), "\n    of: ", of, "\n");
    if (rule.position >= 0)
      absl::StrAppend(&text, "    position: ", rule.position, "\n");
    if (rule.axes.empty()) {
      absl::StrAppend(&text, "    state: ", RuleStateText(rule), "\n");
    } else {
      absl::StrAppend(&text, "    state: {",
                      absl::StrJoin(rule.axes, ", ",
                                    [](std::string* out, const auto& axis) {
                                      absl::StrAppend(
                                          out, axis.axis, ": ",
                                          RuleStateText(axis.state));
                                    }),
                      "}\n");
    }
    if (rule.optional) absl::StrAppend(&text, "    optional: true\n");
  }
}

}  // namespace

std::string StateText(const Placement& placement) {
  if (!placement.is_shard()) return "replicate";
  std::string text = absl::StrCat("split ", placement.dim());
  const DimFactor& factor = placement.factor();
  if (!(factor.left == SymExpr(1)))
    absl::StrAppend(&text, " groups=", factor.left.ToString());
  if (!(factor.right == SymExpr(1)))
    absl::StrAppend(&text, " chunk=", factor.right.ToString());
  return text;
}

std::string PlanYaml(const Module& planned, const PackageOptions& options) {
  std::string text = absl::StrCat(
      "# Plan of ", options.model, " over ", planned.mesh().ToString(),
      ".\n# Feed it back for the same plan: tp-compile ... --config plan.yaml\n"
      "# To change weights and have the rest searched again, take out the "
      "lines "
      "of\n# `values` that follow from them, or all.\n"
      "tp_plan: 2\nmesh: ",
      Quoted(planned.mesh().ToString()),
      "\nfingerprint: ", Quoted(PlanFingerprint(planned)), "\n");
  if (options.search)
    absl::StrAppend(
        &text, "search: {optimal: ", options.search->optimal ? "true" : "false",
        ", gap: ", options.search->gap, "}\n");
  AddRules(options.rules, text);
  absl::StrAppend(&text, "weights:\n");
  llvm::StringSet<> seen;
  for (const auto& function : planned.functions())
    AddWeights(planned, *function, options.zero3, seen, text);
  absl::StrAppend(&text, "values:\n");
  AddValues(planned, text);
  return text;
}

}  // namespace tp
