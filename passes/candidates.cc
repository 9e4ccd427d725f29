#include "passes/candidates.h"

#include <deque>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "llvm/ADT/DenseSet.h"

namespace tp {
namespace {

// Disjoint sets of nodes numbered from 0.
class Families {
 public:
  int Add() {
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }
  int Find(int node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  void Join(int a, int b) { parent_[Find(a)] = Find(b); }

 private:
  std::vector<int> parent_;
};

struct ValuePlacement {
  Placement placement;
  int node = 0;  // in the families
};

class Propagation {
 public:
  Propagation(const Module& module, const Function& function, int axis,
              const llvm::DenseSet<const Value*>& pinned)
      : function_(function),
        assumptions_(module.assumptions()),
        pinned_(pinned),
        axis_(axis),
        axis_size_(module.mesh().axis(axis).size),
        splits_batch_(module.mesh().axis(axis).name == kBatchAxis) {}

  absl::StatusOr<Candidates> Run() {
    TP_RETURN_IF_ERROR(ReadRules());
    SeedFactors();
    SeedPins();
    while (!work_.empty()) {
      auto [value, placement, node] = work_.front();
      work_.pop_front();
      Follow(value, placement, node);
    }
    KeepFamilies();
    FollowPartials();
    FillArguments();
    return std::move(result_);
  }

 private:
  struct Use {
    int op;
    int operand;
  };
  struct Work {
    const Value* value;
    Placement placement;
    int node;
  };

  absl::Status ReadRules() { return ReadRules(function_.body()); }

  // Ops of regions are planned like any others. What regions yield is whole.
  absl::Status ReadRules(const Block& block) {
    for (const auto& op : block.ops()) {
      OpCandidates entry;
      entry.op = op.get();
      TP_ASSIGN_OR_RETURN(entry.rule, RuleOf(*op));
      entry.strategies.push_back(ReplicateStrategy(*op));
      const int index = static_cast<int>(result_.ops.size());
      for (int i = 0; i < op->num_operands(); ++i)
        if (op->operand(i) != nullptr)
          uses_[op->operand(i)].push_back({index, i});
      result_.index_of[op.get()] = index;
      result_.ops.push_back(std::move(entry));
      nodes_.push_back({families_.Add()});
      for (const auto& region : op->regions()) {
        TP_RETURN_IF_ERROR(ReadRules(*region));
        yielded_.insert(region->results().begin(), region->results().end());
      }
    }
    return absl::OkStatus();
  }

  // A split of one index is none; a size that depends on data is not known
  // when parts are made.
  bool MaySplit(const SymExpr& size) const {
    if (size.is_constant()) return size.constant() > 1;
    return !assumptions_.DependsOnData(size);
  }

  void SeedFactors() {
    for (int i = 0; i < static_cast<int>(result_.ops.size()); ++i) {
      const OpRule& rule = result_.ops[i].rule;
      for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
        const Factor& factor = rule.factors[f];
        if (factor.kind == FactorKind::kWhole || !MaySplit(factor.size))
          continue;
        AddSplit(i, FactorSharding{f, DimFactor{1, factor.size, 1}});
      }
    }
  }

  void SeedPins() {
    for (const auto& argument : function_.body().arguments()) {
      if (!pinned_.contains(argument.get())) continue;
      const Placement placement = AxisPlacement(*argument, axis_);
      if (placement.is_shard()) AddPlacement(argument.get(), placement, -1);
    }
  }

  // Adds the split if the op has no strategy of the same bytes, and places
  // its operands and results. Returns the strategy's node.
  int AddSplit(int op, const FactorSharding& split) {
    OpCandidates& entry = result_.ops[op];
    Strategy strategy = SplitStrategy(*entry.op, entry.rule, split);
    for (size_t s = 1; s < entry.strategies.size(); ++s)
      if (SameStrategy(entry.strategies[s], strategy, axis_size_))
        return nodes_[op][s];
    const int node = families_.Add();
    nodes_[op].push_back(node);
    entry.strategies.push_back(strategy);
    for (int i = 0; i < entry.op->num_operands(); ++i)
      if (strategy.operands[i].is_shard())
        AddPlacement(entry.op->operand(i), strategy.operands[i], node);
    for (int i = 0; i < entry.op->num_results(); ++i)
      if (strategy.results[i].is_shard())
        AddPlacement(entry.op->result(i), strategy.results[i], node);
    return node;
  }

  void AddPlacement(const Value* value, const Placement& placement, int node) {
    auto& known = placements_[value];
    for (const ValuePlacement& other : known) {
      if (!SameLayout(other.placement, placement, axis_size_)) continue;
      if (node >= 0) families_.Join(node, other.node);
      return;
    }
    const int own = families_.Add();
    if (node >= 0) families_.Join(node, own);
    known.push_back({placement, own});
    work_.push_back({value, placement, own});
  }

  void Follow(const Value* value, const Placement& placement, int node) {
    if (value->op() != nullptr) {
      const int op = result_.index_of[value->op()];
      if (auto split = SplitOfResult(result_.ops[op].rule, value->index(),
                                     placement, axis_size_))
        families_.Join(node, AddSplit(op, *split));
    }
    for (const Use& use : uses_[value])
      if (auto split = SplitOfOperand(result_.ops[use.op].rule, use.operand,
                                      placement, axis_size_))
        families_.Join(node, AddSplit(use.op, *split));
  }

  // Whether families that place the argument so are kept.
  bool Keeps(size_t argument, const Placement& placement) const {
    const ArgumentInfo& info = function_.arguments()[argument];
    const Value& value = *function_.body().arguments()[argument];
    if (pinned_.contains(&value) && AxisPlacement(value, axis_).is_shard())
      return true;
    if (splits_batch_)
      return !info.is_weight() && placement.dim() == 0 &&
             placement.factor().size == value.type().dims[0];
    return info.kind == ArgumentKind::kParameter ||
           function_.IsCarried(static_cast<int>(argument));
  }

  void KeepFamilies() {
    llvm::DenseMap<int, bool> keep;
    for (size_t i = 0; i < function_.arguments().size(); ++i) {
      const Value* argument = function_.body().arguments()[i].get();
      for (const ValuePlacement& entry : placements_[argument])
        if (Keeps(i, entry.placement)) keep[families_.Find(entry.node)] = true;
    }
    for (size_t i = 0; i < result_.ops.size(); ++i) {
      std::vector<Strategy>& strategies = result_.ops[i].strategies;
      std::vector<Strategy> kept = {strategies[0]};
      for (size_t s = 1; s < strategies.size(); ++s)
        if (keep.count(families_.Find(nodes_[i][s])))
          kept.push_back(std::move(strategies[s]));
      strategies = std::move(kept);
    }
    for (auto& [value, entries] : placements_)
      llvm::erase_if(entries, [&](const ValuePlacement& entry) {
        return keep.count(families_.Find(entry.node)) == 0;
      });
  }

  static bool IsSum(const Placement& placement) {
    return placement.is_partial() && placement.reduce() == ReduceKind::kSum;
  }

  void FollowPartials() {
    llvm::DenseMap<const Value*, bool> partial;
    for (OpCandidates& entry : result_.ops) {
      for (const auto& operands : entry.rule.partial) {
        bool possible = !operands.empty();
        for (int operand : operands)
          possible &= partial.count(entry.op->operand(operand)) > 0;
        if (possible)
          entry.strategies.push_back(PartialStrategy(*entry.op, operands));
      }
      for (const Strategy& strategy : entry.strategies)
        for (int i = 0; i < entry.op->num_results(); ++i)
          if (IsSum(strategy.results[i])) partial[entry.op->result(i)] = true;
    }
  }

  void FillArguments() {
    for (size_t i = 0; i < function_.arguments().size(); ++i) {
      const Value* argument = function_.body().arguments()[i].get();
      std::vector<Placement> choices;
      if (pinned_.contains(argument)) {
        choices = {AxisPlacement(*argument, axis_)};
      } else {
        choices = {Placement::Replicate()};
        if ((function_.arguments()[i].is_weight() ||
             function_.IsCarried(static_cast<int>(i))) &&
            !yielded_.contains(argument))
          for (const ValuePlacement& entry : placements_[argument])
            choices.push_back(entry.placement);
      }
      result_.arguments.push_back(std::move(choices));
    }
  }

  const Function& function_;
  const Assumptions& assumptions_;
  const llvm::DenseSet<const Value*>& pinned_;
  const int axis_;
  const int64_t axis_size_;
  const bool splits_batch_;
  Candidates result_;
  Families families_;
  std::vector<std::vector<int>> nodes_;  // per op and strategy
  llvm::DenseMap<const Value*, std::vector<Use>> uses_;
  llvm::DenseMap<const Value*, std::vector<ValuePlacement>> placements_;
  llvm::DenseSet<const Value*> yielded_;  // by regions
  std::deque<Work> work_;
};

}  // namespace

absl::StatusOr<Candidates> FindCandidates(
    const Module& module, const Function& function, int axis,
    const llvm::DenseSet<const Value*>& pinned) {
  return Propagation(module, function, axis, pinned).Run();
}

}  // namespace tp
