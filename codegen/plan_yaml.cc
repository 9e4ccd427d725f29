#include "codegen/plan_yaml.h"

#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/schedule.h"
#include "ir/value_placement.h"
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

// Which factor of which op the split of a weight follows.
std::string WhyOf(const Function& function, const Value* weight,
                  const Mesh& mesh) {
  const Op* use = FirstUse(function, weight);
  if (use == nullptr) return "not used";
  std::string where = absl::StrCat(std::string(use->base_name()), " ",
                                   ToString(use->location()));
  absl::StatusOr<OpRule> rule = RuleOf(*use);
  const Placement placement = AxisPlacement(*weight, 0);
  if (!placement.is_shard()) return absl::StrCat("whole in ", where);
  if (!rule.ok()) return where;
  for (int i = 0; i < use->num_operands(); ++i) {
    if (use->operand(i) != weight) continue;
    auto split = ToFactorSharding(*rule, rule->operands[i], placement,
                                  mesh.axis(0).size);
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

// Each weight once, under the first function that uses it.
void AddWeights(const Module& planned, const Function& function,
                llvm::StringSet<>& seen, std::string& text) {
  for (size_t i = 0; i < function.arguments().size(); ++i) {
    const ArgumentInfo& info = function.arguments()[i];
    if (!info.is_weight() || !seen.insert(info.name).second) continue;
    const Value* value = function.body().arguments()[i].get();
    absl::StrAppend(&text, "  - name: ", Quoted(info.name), "\n");
    for (const std::string& alias : info.aliases)
      absl::StrAppend(&text, "    # also ", Quoted(alias), "\n");
    absl::StrAppend(
        &text, "    state: ", StateText(AxisPlacement(*value, 0)),
        "\n    type: ", Quoted(ToString(value->type())),
        "\n    why: ", Quoted(WhyOf(function, value, planned.mesh())), "\n");
  }
}

void AddValues(const Module& planned, const Function& function,
               std::string& text) {
  ForEachOp(function.body(), [&](const Op& op) {
    if (op.num_results() == 0) return;
    absl::StrAppend(
        &text, "  - {op: ", Quoted(op.name()),
        ", type: ", Quoted(ToString(op.result()->type())),
        ", placement: ", Quoted(SpecText(*op.result(), planned.mesh())),
        ", where: ", Quoted(ToString(op.location())), "}\n");
  });
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

std::string PlanYaml(const Module& planned, const std::string& model) {
  std::string text = absl::StrCat(
      "# Plan of ", model, " over ", planned.mesh().ToString(),
      ".\n# Edit the weights and feed it back: tp-compile ... --config "
      "plan.yaml\n# (\"values\" is for reading; it follows from the weights)\n"
      "tp_plan: 1\nmesh: ",
      Quoted(planned.mesh().ToString()), "\nweights:\n");
  llvm::StringSet<> seen;
  for (const auto& function : planned.functions())
    AddWeights(planned, *function, seen, text);
  absl::StrAppend(&text, "values:\n");
  for (const auto& function : planned.functions())
    AddValues(planned, *function, text);
  return text;
}

}  // namespace tp
