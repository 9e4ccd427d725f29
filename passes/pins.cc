#include "passes/pins.h"

#include <functional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "ir/value_names.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "passes/pass.h"
#include "passes/rule_match.h"

namespace tp {
namespace {

bool IsInside(const Op& op, const std::string& module) {
  const std::string& path = op.location().module_path;
  return path == module || absl::StartsWith(path, module + ".");
}

// Module paths of a function with those around them, sorted.
std::set<std::string> ModulePaths(const Function& function) {
  std::set<std::string> paths;
  ForEachOp(function.body(), [&](const Op& op) {
    std::string path = op.location().module_path;
    while (!path.empty() && paths.insert(path).second) {
      const size_t dot = path.rfind('.');
      path = dot == std::string::npos ? "" : path.substr(0, dot);
    }
  });
  return paths;
}

bool IsWeight(const Function& function, const Value* value) {
  if (value->op() != nullptr) return false;
  const auto& arguments = function.body().arguments();
  const auto index = static_cast<size_t>(value->index());
  return index < arguments.size() && arguments[index].get() == value &&
         function.arguments()[index].is_weight();
}

// What comes into a module besides weights, in order of first use.
std::vector<Value*> InputsOf(const Function& function,
                             const std::string& module) {
  llvm::SetVector<Value*> inputs;
  ForEachOp(function.body(), [&](const Op& op) {
    if (!IsInside(op, module)) return;
    for (Value* operand : op.operands())
      if (operand != nullptr && !IsWeight(function, operand) &&
          (operand->op() == nullptr || !IsInside(*operand->op(), module)))
        inputs.insert(operand);
  });
  return std::vector<Value*>(inputs.begin(), inputs.end());
}

// What a module makes and others use, in program order.
std::vector<Value*> OutputsOf(const Function& function,
                              const std::string& module) {
  llvm::DenseSet<const Value*> used;
  const auto use_results = [&](const Block& block) {
    for (const Value* result : block.results()) used.insert(result);
  };
  use_results(function.body());
  ForEachOp(function.body(), [&](const Op& op) {
    for (const auto& region : op.regions()) use_results(*region);
    if (IsInside(op, module)) return;
    for (const Value* operand : op.operands())
      if (operand != nullptr) used.insert(operand);
  });
  std::vector<Value*> outputs;
  ForEachOp(function.body(), [&](const Op& op) {
    if (!IsInside(op, module)) return;
    for (int i = 0; i < op.num_results(); ++i)
      if (used.contains(op.result(i))) outputs.push_back(op.result(i));
  });
  return outputs;
}

// The block that defines a value and the place behind its definition.
std::optional<std::pair<Block*, OpList::iterator>> PlaceBehind(
    Block& block, const Value* value) {
  for (const auto& argument : block.arguments())
    if (argument.get() == value) return {{&block, block.ops().begin()}};
  for (auto it = block.ops().begin(); it != block.ops().end(); ++it) {
    if (it->get() == value->op()) return {{&block, std::next(it)}};
    for (const auto& region : (*it)->regions())
      if (auto place = PlaceBehind(*region, value)) return place;
  }
  return std::nullopt;
}

using IsUser = std::function<bool(const Op&)>;

void ReplaceUses(Block& block, Value* from, Value* to, const IsUser& is_user,
                 bool results) {
  for (const auto& op : block.ops()) {
    if (op.get() != to->op() && is_user(*op))
      for (int i = 0; i < op->num_operands(); ++i)
        if (op->operand(i) == from) op->set_operand(i, to);
    for (const auto& region : op->regions())
      ReplaceUses(*region, from, to, is_user, results);
  }
  if (!results) return;
  for (Value*& result : block.results())
    if (result == from) result = to;
}

// One rule applied to one value.
struct Pin {
  const UserRule* rule;
  std::string module;  // "" of a value
  Value* value;
  ShardingSpec spec;
};

class PinInserter {
 public:
  PinInserter(Module& module, const UserRules& rules)
      : module_(module), rules_(rules) {}

  absl::Status Run() {
    TP_RETURN_IF_ERROR(PinValues());
    TP_RETURN_IF_ERROR(PinModules(UserRule::Of::kOutput));
    return PinModules(UserRule::Of::kInput);
  }

 private:
  absl::Status PinValues() {
    TP_ASSIGN_OR_RETURN(RuleMatcher matcher,
                        RuleMatcher::Of(rules_, UserRule::Of::kValue));
    if (matcher.empty()) return absl::OkStatus();
    std::vector<std::string> known;
    for (const NamedValue& named : NamedValues(module_)) {
      known.push_back(named.name);
      const UserRule* rule = matcher.First(named.name);
      if (rule == nullptr) continue;
      TP_ASSIGN_OR_RETURN(
          ShardingSpec spec,
          SpecOf(*rule, named.name, named.value->type(), module_.mesh()));
      TP_RETURN_IF_ERROR(Insert(
          *module_.function(named.function->name()),
          {rule, "", named.value, std::move(spec)},
          [](const Op&) { return true; },
          /*results=*/true));
    }
    return matcher.CheckUsed("value", known);
  }

  absl::Status PinModules(UserRule::Of of) {
    TP_ASSIGN_OR_RETURN(RuleMatcher matcher, RuleMatcher::Of(rules_, of));
    if (matcher.empty()) return absl::OkStatus();
    const bool input = of == UserRule::Of::kInput;
    std::vector<std::string> known;
    for (const auto& function : module_.functions()) {
      if (!IsPlanned(module_, *function)) continue;
      std::vector<Pin> pins;
      for (const std::string& path : ModulePaths(*function)) {
        known.push_back(path);
        for (const UserRule* rule : matcher.All(path))
          TP_RETURN_IF_ERROR(FindPins(*function, *rule, path, input, pins));
      }
      TP_RETURN_IF_ERROR(CheckConflicts(pins));
      for (const Pin& pin : pins)
        TP_RETURN_IF_ERROR(Insert(
            *function, pin,
            [&](const Op& op) { return IsInside(op, pin.module) == input; },
            /*results=*/!input));
    }
    return matcher.CheckUsed("module", known);
  }

  absl::Status FindPins(const Function& function, const UserRule& rule,
                        const std::string& path, bool input,
                        std::vector<Pin>& pins) {
    const char* const what = input ? "inputs" : "outputs";
    const std::vector<Value*> values =
        input ? InputsOf(function, path) : OutputsOf(function, path);
    if (rule.optional && rule.position >= static_cast<int>(values.size()))
      return absl::OkStatus();
    if (rule.position >= static_cast<int>(values.size()))
      return RuleError(
          rule, absl::StrCat("module \"", path, "\" has ", values.size(), " ",
                             what, ", counted from 0: no ", rule.position));
    if (values.empty() && !rule.optional)
      return RuleError(rule,
                       absl::StrCat("module \"", path, "\" has no ", what));
    for (size_t i = 0; i < values.size(); ++i) {
      if (rule.position >= 0 && static_cast<int>(i) != rule.position) continue;
      const std::string name =
          absl::StrCat(input ? "input " : "output ", i, " of module ", path);
      TP_ASSIGN_OR_RETURN(
          ShardingSpec spec,
          SpecOf(rule, name, values[i]->type(), module_.mesh()));
      pins.push_back({&rule, path, values[i], std::move(spec)});
    }
    return absl::OkStatus();
  }

  // Rules of one kind on one value, of a module and one in it: the uses of
  // one are uses of the other.
  absl::Status CheckConflicts(llvm::ArrayRef<Pin> pins) const {
    for (size_t b = 0; b < pins.size(); ++b)
      for (size_t a = 0; a < b; ++a) {
        const Pin& first = pins[a];
        const Pin& second = pins[b];
        if (first.value != second.value || first.spec == second.spec) continue;
        if (first.module != second.module &&
            !absl::StartsWith(second.module, first.module + ".") &&
            !absl::StartsWith(first.module, second.module + "."))
          continue;
        return RuleError(
            *second.rule,
            absl::StrCat("asks for ", ToString(second.spec), " at module \"",
                         second.module, "\", but the rule at ",
                         first.rule->source, " for ", ToString(first.spec),
                         " of the same value at module \"", first.module,
                         "\""));
      }
    return absl::OkStatus();
  }

  absl::Status Insert(Function& function, const Pin& pin, const IsUser& is_user,
                      bool results) {
    for (const Placement& placement : pin.spec)
      if (placement.is_shard() && placement.factor().size == SymExpr(1))
        return RuleError(*pin.rule,
                         absl::StrCat("dim ", placement.dim(), " of ",
                                      ToString(pin.value->type()),
                                      " is one piece: nothing to split"));
    auto place = PlaceBehind(function.body(), pin.value);
    TP_CHECK(place.has_value(), "a value of no block");
    Builder builder(module_, *place->first, place->second);
    if (pin.value->op() != nullptr)
      builder.set_location(pin.value->op()->location());
    Op* op = builder.CreateTyped("aten.alias", {pin.value},
                                 {{kPinAttribute, ToString(pin.spec)}},
                                 {pin.value->type()});
    ReplaceUses(function.body(), pin.value, op->result(), is_user, results);
    return absl::OkStatus();
  }

  Module& module_;
  const UserRules& rules_;
};

using Pins = llvm::DenseMap<const Value*, const PinnedValue*>;

absl::Status Impossible(const Op& op, const OpRule& rule,
                        const PinnedValue& pin) {
  const std::string what =
      absl::StrCat(op.name(), " at ", ToString(op.location()), " cannot give ",
                   ToString(pin.spec), "; its rule is ", rule.ToString());
  if (pin.rule == nullptr) return absl::InvalidArgumentError(what);
  return RuleError(*pin.rule, what);
}

// Where an operand was pinned to what an op cannot make its result of (a sum
// that is no longer due), the op computes the whole.
absl::Status MakePossible(const Module& module, Block& block,
                          const CostModel& cost, const Pins& pins) {
  for (const auto& op : block.ops()) {
    for (const auto& region : op->regions())
      TP_RETURN_IF_ERROR(MakePossible(module, *region, cost, pins));
    TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(*op));
    for (int axis = 0; axis < module.mesh().ndim(); ++axis) {
      if (DeriveStrategy(*op, rule, module, axis, cost).ok()) continue;
      for (int i = 0; i < op->num_results(); ++i) {
        if (auto pin = pins.find(op->result(i)); pin != pins.end())
          return Impossible(*op, rule, *pin->second);
        ShardingSpec spec(op->result(i)->spec().begin(),
                          op->result(i)->spec().end());
        spec.resize(module.mesh().ndim());
        spec[axis] = Placement::Replicate();
        op->result(i)->set_spec(std::move(spec));
      }
    }
  }
  return absl::OkStatus();
}

// One dim of a value is split on one axis, where it is made and wherever it is
// wanted: the search plans so, and lowering goes by it. Where a pin takes a dim
// that ops split on another axis, those compute the whole there.
class DimsByAxis {
 public:
  DimsByAxis(Module& module, const CostModel& cost, const Pins& pins)
      : module_(module), cost_(cost), pins_(pins) {}

  absl::Status Run() {
    for (const auto& function : module_.functions()) {
      if (!IsPlanned(module_, *function)) continue;
      bool changed = true;
      while (changed) {
        TP_ASSIGN_OR_RETURN(changed, ResolveOne(*function));
        // What computes the whole makes no sums that others could pass on.
        TP_RETURN_IF_ERROR(
            MakePossible(module_, function->body(), cost_, pins_));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Claim {
    Op* op;  // null of an argument at rest
    int axis;
  };

  bool IsFixed(const Claim& claim) const {
    if (claim.op == nullptr || !claim.op->regions().empty()) return true;
    for (int i = 0; i < claim.op->num_results(); ++i)
      if (pins_.count(claim.op->result(i)) > 0) return true;
    return false;
  }

  void Replicate(const Claim& claim) {
    for (int i = 0; i < claim.op->num_results(); ++i) {
      Value* result = claim.op->result(i);
      ShardingSpec spec(result->spec().begin(), result->spec().end());
      spec.resize(module_.mesh().ndim());
      spec[claim.axis] = Placement::Replicate();
      result->set_spec(std::move(spec));
    }
  }

  // Whether a conflict was found, and then resolved.
  absl::StatusOr<bool> Add(const Value* value, const Placement& placement,
                           Claim claim) {
    if (value == nullptr || !placement.is_shard()) return false;
    auto [it, is_new] = claims_.try_emplace({value, placement.dim()}, claim);
    if (is_new || it->second.axis == claim.axis) {
      // What cannot give way is remembered.
      if (!is_new && IsFixed(claim)) it->second = claim;
      return false;
    }
    if (IsFixed(claim)) std::swap(claim, it->second);
    if (IsFixed(claim))
      return absl::InvalidArgumentError(absl::StrCat(
          "rules split dim ", placement.dim(), " of ",
          value->op() == nullptr
              ? "an argument"
              : absl::StrCat("what ", value->op()->name(), " gives at ",
                             ToString(value->op()->location())),
          " on ", module_.mesh().axis(claim.axis).name, " and on ",
          module_.mesh().axis(it->second.axis).name,
          "; a dim is split on one axis"));
    Replicate(claim);
    return true;
  }

  absl::StatusOr<bool> ResolveOne(Function& function) {
    claims_.clear();
    for (const auto& argument : function.body().arguments())
      for (int axis = 0; axis < module_.mesh().ndim(); ++axis) {
        TP_ASSIGN_OR_RETURN(bool found,
                            Add(argument.get(), AxisPlacement(*argument, axis),
                                {nullptr, axis}));
        if (found) return true;
      }
    return ResolveOne(function.body());
  }

  absl::StatusOr<bool> ResolveOne(Block& block) {
    for (const auto& op : block.ops()) {
      TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(*op));
      for (int axis = 0; axis < module_.mesh().ndim(); ++axis) {
        TP_ASSIGN_OR_RETURN(Strategy strategy,
                            DeriveStrategy(*op, rule, module_, axis, cost_));
        for (int i = 0; i < op->num_operands() + op->num_results(); ++i) {
          const bool operand = i < op->num_operands();
          const int index = operand ? i : i - op->num_operands();
          TP_ASSIGN_OR_RETURN(
              bool found,
              Add(operand ? op->operand(index) : op->result(index),
                  operand ? strategy.operands[index] : strategy.results[index],
                  {op.get(), axis}));
          if (found) return true;
        }
      }
      for (const auto& region : op->regions()) {
        TP_ASSIGN_OR_RETURN(bool found, ResolveOne(*region));
        if (found) return true;
      }
    }
    return false;
  }

  Module& module_;
  const CostModel& cost_;
  const Pins& pins_;
  llvm::DenseMap<std::pair<const Value*, int>, Claim> claims_;
};

void EraseOps(Block& block, const llvm::DenseMap<Value*, Value*>& dropped) {
  for (const auto& op : block.ops())
    for (const auto& region : op->regions()) EraseOps(*region, dropped);
  block.ops().remove_if([&](const std::unique_ptr<Op>& op) {
    return op->num_results() == 1 && dropped.count(op->result()) > 0;
  });
}

}  // namespace

absl::Status InsertPins(Module& module, const UserRules& rules) {
  return PinInserter(module, rules).Run();
}

absl::StatusOr<std::vector<PinnedValue>> PinnedValues(const Module& module,
                                                      const UserRules& rules) {
  std::vector<PinnedValue> pinned;
  TP_ASSIGN_OR_RETURN(RuleMatcher matcher,
                      RuleMatcher::Of(rules, UserRule::Of::kProduced));
  if (!matcher.empty()) {
    std::vector<std::string> known;
    for (const NamedValue& named : NamedValues(module)) {
      known.push_back(named.name);
      const UserRule* rule = matcher.First(named.name);
      if (rule == nullptr) continue;
      TP_ASSIGN_OR_RETURN(
          ShardingSpec spec,
          SpecOf(*rule, named.name, named.value->type(), module.mesh()));
      pinned.push_back({named.value, std::move(spec), rule});
    }
    TP_RETURN_IF_ERROR(matcher.CheckUsed("value", known));
  }
  absl::Status status;
  for (const auto& function : module.functions())
    ForEachOp(function->body(), [&](const Op& op) {
      if (!IsPin(op) || !status.ok()) return;
      absl::StatusOr<ShardingSpec> spec =
          ParseSpecText(op.attribute(kPinAttribute)->as_string(),
                        op.result()->type(), module.mesh());
      if (!spec.ok())
        status = spec.status();
      else
        pinned.push_back({op.result(), *std::move(spec), nullptr});
    });
  TP_RETURN_IF_ERROR(status);
  return pinned;
}

absl::Status KeepPinned(const Module& module, const UserRules& rules, int axis,
                        Candidates& candidates) {
  const int64_t axis_size = module.mesh().axis(axis).size;
  TP_ASSIGN_OR_RETURN(std::vector<PinnedValue> pinned,
                      PinnedValues(module, rules));
  for (const PinnedValue& pin : pinned) {
    const Op* op = pin.value->op();
    if (op == nullptr) continue;
    auto index = candidates.index_of.find(op);
    if (index == candidates.index_of.end()) continue;
    OpCandidates& entry = candidates.ops[index->second];
    const Placement& wanted = pin.spec[axis];
    const auto gives = [&](const Strategy& strategy) {
      return SameLayout(strategy.results[pin.value->index()], wanted,
                        axis_size);
    };
    if (llvm::none_of(entry.strategies, gives)) {
      auto split =
          SplitOfResult(entry.rule, pin.value->index(), wanted, axis_size);
      // place_pins says so with the rule.
      if (!split) continue;
      entry.strategies.push_back(SplitStrategy(*op, entry.rule, *split));
    }
    // On several axes another may take the dim that the pin splits: then
    // place_pins has the word.
    const bool may_replicate = module.mesh().ndim() > 1;
    llvm::erase_if(entry.strategies, [&](const Strategy& strategy) {
      return !gives(strategy) &&
             !(may_replicate && strategy.kind == Strategy::Kind::kReplicate);
    });
  }
  return absl::OkStatus();
}

absl::Status PlacePins(Module& module, const PassContext& context) {
  TP_ASSIGN_OR_RETURN(std::vector<PinnedValue> pinned,
                      PinnedValues(module, context.rules));
  for (PinnedValue& pin : pinned) {
    if (pin.rule == nullptr) {
      const Value* operand = pin.value->op()->operand(0);
      const ShardingSpec given(operand->spec().begin(), operand->spec().end());
      if (given == pin.spec)
        context.Remark(
            absl::StrCat("rule: ", pin.value->op()->location().module_path,
                         " is ", ToString(pin.spec), " already"));
    }
    pin.value->set_spec(pin.spec);
  }
  // A value goes around a loop as it leaves it.
  for (const PinnedValue& pin : pinned) {
    const Op* op = pin.value->op();
    if (op == nullptr || !op->Is("tp.loop")) continue;
    for (const auto& region : op->regions())
      for (int i = 0; i < op->num_results(); ++i)
        region->arguments()[i + 1]->set_spec(ShardingSpec(
            op->result(i)->spec().begin(), op->result(i)->spec().end()));
  }
  llvm::DenseMap<const Value*, const PinnedValue*> pin_of;
  for (const PinnedValue& pin : pinned) pin_of[pin.value] = &pin;
  // The first axis is searched before rules on weights split dims on others.
  if (context.rules.empty()) return absl::OkStatus();
  for (const auto& function : module.functions())
    if (IsPlanned(module, *function))
      TP_RETURN_IF_ERROR(
          MakePossible(module, function->body(), context.cost, pin_of));
  if (module.mesh().ndim() < 2) return absl::OkStatus();
  return DimsByAxis(module, context.cost, pin_of).Run();
}

absl::Status DropPins(Module& module, const PassContext&) {
  for (const auto& function : module.functions()) {
    llvm::DenseMap<Value*, Value*> dropped;
    ForEachOp(function->body(), [&](const Op& op) {
      if (!IsPin(op)) return;
      // Pins of one value follow each other.
      Value* held = op.operand(0);
      if (auto it = dropped.find(held); it != dropped.end()) held = it->second;
      dropped[op.result()] = held;
    });
    if (dropped.empty()) continue;
    ReplaceAllUses(function->body(), dropped);
    EraseOps(function->body(), dropped);
  }
  return absl::OkStatus();
}

}  // namespace tp
