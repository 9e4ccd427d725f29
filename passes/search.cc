// Chooses a strategy for every op and a placement at rest for every weight.
//
// minimize   sum over ops        time of the strategy    (StrategyMicroseconds)
//          + sum over values and target placements that some use wants
//                                time of the reshard, paid once (AddReshards)
//          + sum over weights    price * bytes on the busiest rank
//                                                     (AddWeights, WeightPrice)
//          + sum over results    time of making them whole, or lie as the
//                                argument that they become      (AddResults)
// and for training, for every value that has a gradient,
//          + what the gradient goes through where the value is resharded
//                                                       (Reshard)
//          + the sum over ranks behind tp.copy, paid once per value
//                                                       (CopyMicroseconds)
// subject to: a use gets what its strategy asks for (AddReshards, infinite
// costs where the reshard table says impossible); a weight lies one way at
// rest and is gathered at a use only where nothing else is possible.
//
// The functions of a module are priced together: a weight that several of them
// use lies one way, and a cache that one leaves for another lies as the other
// takes it.
//
// The network is solved exactly by elimination (cost_network.h). Of several
// axes each is solved so in turn, given those before it.
#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/candidates.h"
#include "passes/cost_network.h"
#include "passes/gradients.h"
#include "passes/pass.h"

namespace tp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A weight that must be gathered at each use is the last resort, a cache more
// so than any amount of memory.
constexpr double kWeightGatherFactor = 100;
constexpr double kCacheGatherFactor = 1e6;
// Backward computes a gradient per operand: twice what forward does.
constexpr double kForwardAndBackward = 3;

// What a use asks for: a placement, for training perhaps through tp.copy.
struct Want {
  Placement placement;
  bool copy = false;
};

// Whether an op's results are its operands in another arrangement.
bool ShowsOperands(const Op& op) {
  if (HasTrait(op, kView)) return true;
  for (const char* name : {"aten.cat", "aten.stack", "aten.reshape",
                           "aten.clone", "aten.contiguous", "aten.index_copy",
                           "aten.repeat_interleave.self_int"})
    if (op.Is(name)) return true;
  return false;
}

// What is settled before an axis is searched.
struct AxesSoFar {
  std::vector<int> decided;             // axes searched before it
  llvm::DenseSet<const Value*> pinned;  // arguments whose spec is the user's
};

// The part of the cost network that one function brings in. A weight that
// several functions use has one variable, which the first of them adds.
class FunctionSearch {
 public:
  // Where a value's placement is decided, and the placements in question.
  struct Maker {
    int variable;
    std::vector<Placement> choices;
  };

  FunctionSearch(Module& module, Function& function, int axis,
                 const AxesSoFar& so_far, const PassContext& context,
                 CostNetwork& network)
      : module_(module),
        function_(function),
        axis_(axis),
        so_far_(so_far),
        axis_size_(module.mesh().axis(axis).size),
        context_(context),
        network_(network) {
    if (context.train) has_gradient_ = ValuesWithGradients(function);
    FindCaches();
  }

  absl::Status FindChoices() {
    TP_ASSIGN_OR_RETURN(
        candidates_, FindCandidates(module_, function_, axis_, so_far_.pinned));
    DropExtremesWithGradients();
    return LeaveDimsToOtherAxes();
  }

  const Function& function() const { return function_; }
  int num_ops() const { return static_cast<int>(candidates_.ops.size()); }
  std::vector<Placement>& choices(size_t argument) {
    return candidates_.arguments[argument];
  }

  // Where a gradient comes back to a maximum over ranks, only the rank that
  // holds it may take it, and a rank cannot know whether it does.
  void DropExtremesWithGradients() {
    for (OpCandidates& entry : candidates_.ops)
      llvm::erase_if(entry.strategies, [&](const Strategy& strategy) {
        for (int i = 0; i < entry.op->num_results(); ++i)
          if (IsExtreme(strategy.results[i]) &&
              has_gradient_.contains(entry.op->result(i)))
            return true;
        return false;
      });
  }

  // One dim is split on one axis: whether axes searched before this one split
  // that dim of the value, where it is made or wanted.
  bool IsTaken(const Value* value, const Placement& placement) const {
    return placement.is_shard() && taken_.contains({value, placement.dim()});
  }

  absl::Status LeaveDimsToOtherAxes() {
    const auto take = [&](const Value* value, const Placement& placement) {
      if (placement.is_shard()) taken_.insert({value, placement.dim()});
    };
    for (int axis : so_far_.decided) {
      for (const auto& argument : function_.body().arguments())
        take(argument.get(), AxisPlacement(*argument, axis));
      for (const OpCandidates& entry : candidates_.ops) {
        const Op& op = *entry.op;
        TP_ASSIGN_OR_RETURN(
            Strategy chosen,
            DeriveStrategy(op, entry.rule, module_, axis, context_.cost));
        for (int i = 0; i < op.num_operands(); ++i)
          take(op.operand(i), chosen.operands[i]);
        for (int i = 0; i < op.num_results(); ++i)
          take(op.result(i), chosen.results[i]);
      }
    }
    for (OpCandidates& entry : candidates_.ops) {
      const Op& op = *entry.op;
      llvm::erase_if(entry.strategies, [&](const Strategy& strategy) {
        for (int i = 0; i < op.num_operands(); ++i)
          if (IsTaken(op.operand(i), strategy.operands[i])) return true;
        for (int i = 0; i < op.num_results(); ++i)
          if (IsTaken(op.result(i), strategy.results[i])) return true;
        return false;
      });
    }
    for (size_t i = 0; i < candidates_.arguments.size(); ++i) {
      const Value* argument = function_.body().arguments()[i].get();
      if (so_far_.pinned.contains(argument)) continue;
      llvm::erase_if(candidates_.arguments[i], [&](const Placement& placement) {
        return IsTaken(argument, placement);
      });
    }
    return absl::OkStatus();
  }

  void AddOps() {
    first_ = network_.num_variables();
    for (const OpCandidates& entry : candidates_.ops) {
      std::vector<double> costs;
      const bool differentiated = entry.op->num_results() > 0 &&
                                  has_gradient_.contains(entry.op->result());
      for (const Strategy& strategy : entry.strategies)
        costs.push_back((differentiated ? kForwardAndBackward : 1) *
                        StrategyMicroseconds(context_.cost, *entry.op, strategy,
                                             axis_size_,
                                             module_.assumptions()));
      network_.AddVariable(std::move(costs));
    }
  }
  // Microseconds per byte of weights on the busiest rank: splitting a matrix
  // of average size in two is worth four gathers of the largest activation,
  // while a bias or a norm's scale, hundreds of times smaller, is worth none.
  double WeightPrice() const {
    double matrix_bytes = 0;
    int matrices = 0;
    for (size_t i = 0; i < function_.arguments().size(); ++i) {
      const TensorType& type = function_.body().arguments()[i]->type();
      if (function_.arguments()[i].kind != ArgumentKind::kParameter ||
          type.ndim() < 2)
        continue;
      matrix_bytes += HintBytes(type, module_.assumptions());
      ++matrices;
    }
    if (matrices == 0) return 0;
    double dearest = 0;
    for (const OpCandidates& entry : candidates_.ops)
      for (const Strategy& strategy : entry.strategies)
        for (int i = 0; i < entry.op->num_results(); ++i)
          if (strategy.results[i].is_shard())
            dearest = std::max(
                dearest,
                ReshardMicroseconds(context_.cost, entry.op->result(i)->type(),
                                    strategy.results[i], Placement::Replicate(),
                                    axis_size_, module_.assumptions()));
    // Training adds what the gradient goes through.
    const double gathers = context_.train ? 16 : 8;
    return gathers * dearest / (matrix_bytes / matrices);
  }

  // `variables`: of weights that another function has added, by name.
  void AddWeights(double price, std::map<std::string, int>& variables) {
    for (size_t i = 0; i < function_.arguments().size(); ++i) {
      const ArgumentInfo& info = function_.arguments()[i];
      if (info.is_weight()) {
        if (auto known = variables.find(info.name); known != variables.end()) {
          argument_variable_.push_back(known->second);
          continue;
        }
      }
      const Value* argument = function_.body().arguments()[i].get();
      const double bytes = HintBytes(argument->type(), module_.assumptions());
      std::vector<double> costs;
      for (const Placement& placement : candidates_.arguments[i]) {
        double share = 1;
        if (placement.is_shard()) share = PricedShare(placement.factor().size);
        const bool held =
            info.is_weight() || function_.IsCarried(static_cast<int>(i));
        costs.push_back(held ? price * bytes * share : 0);
      }
      argument_variable_.push_back(network_.AddVariable(std::move(costs)));
      if (info.is_weight()) variables[info.name] = argument_variable_.back();
    }
  }

  void AddReshards() {
    CollectUses();
    const auto& arguments = function_.body().arguments();
    for (size_t i = 0; i < arguments.size(); ++i)
      AddValue(arguments[i].get(), argument_variable_[i],
               candidates_.arguments[i],
               function_.arguments()[i].is_weight() &&
                   !function_.IsCarried(static_cast<int>(i)));
    for (int op = 0; op < num_ops(); ++op) {
      const OpCandidates& entry = candidates_.ops[op];
      for (int r = 0; r < entry.op->num_results(); ++r) {
        std::vector<Placement> given;
        for (const Strategy& strategy : entry.strategies)
          given.push_back(strategy.results[r]);
        AddValue(entry.op->result(r), Variable(op), given, /*weight=*/false);
      }
    }
  }

  // The variable that decides how a value lies, and its choices.
  Maker MakerOf(const Value* value) const {
    if (value->op() == nullptr)
      return {argument_variable_[value->index()],
              candidates_.arguments[value->index()]};
    const int op = candidates_.index_of.lookup(value->op());
    Maker maker{Variable(op), {}};
    for (const Strategy& strategy : candidates_.ops[op].strategies)
      maker.choices.push_back(strategy.results[value->index()]);
    return maker;
  }

  // `argument_of(i)` makes and gives what decides how the argument lies that
  // result i becomes.
  template <typename ArgumentOf>
  void AddResults(ArgumentOf argument_of) {
    llvm::DenseSet<const Value*> whole;
    const auto& results = function_.body().results();
    for (size_t i = 0; i < results.size(); ++i) {
      const Value* argument = ArgumentOfResult(module_, function_, i);
      if (argument != nullptr) {
        AddCarried(results[i], *argument, argument_of(i));
      } else if (whole.insert(results[i]).second) {
        AddWhole(results[i]);
      }
    }
    ForEachOp(function_.body(), [&](const Op& op) {
      for (const auto& region : op.regions())
        for (const Value* value : region->results())
          if (value->op() != nullptr && whole.insert(value).second)
            AddWhole(value);
    });
  }

  // What the function returns and regions yield is whole.
  void AddWhole(const Value* value) {
    const Maker maker = MakerOf(value);
    for (size_t g = 0; g < maker.choices.size(); ++g)
      network_.AddUnary(maker.variable, static_cast<int>(g),
                        Reshard(value, maker.choices[g], Placement::Replicate(),
                                /*weight=*/false));
  }

  void Apply(const CostNetwork::Solution& solution) {
    const int ndim = module_.mesh().ndim();
    for (int op = 0; op < num_ops(); ++op) {
      const OpCandidates& entry = candidates_.ops[op];
      const Strategy& chosen = entry.strategies[solution.choices[Variable(op)]];
      for (int i = 0; i < entry.op->num_results(); ++i)
        SetPlacement(entry.op->result(i), axis_, ndim, chosen.results[i]);
      for (const auto& region : entry.op->regions())
        for (const auto& argument : region->arguments())
          SetPlacement(argument.get(), axis_, ndim, Placement::Replicate());
    }
    for (size_t i = 0; i < argument_variable_.size(); ++i)
      SetPlacement(
          function_.body().arguments()[i].get(), axis_, ndim,
          candidates_.arguments[i][solution.choices[argument_variable_[i]]]);
  }

 private:
  // A use of a value by a strategy variable.
  struct Use {
    int op;
    std::vector<int> operands;  // of this op that are the value
  };

  // Inputs that stay on the ranks from call to call, what becomes them, and
  // views of either: nearly all of it is there already, so it is not moved.
  void FindCaches() {
    for (size_t i = 0; i < function_.arguments().size(); ++i)
      if (!function_.arguments()[i].is_weight() &&
          function_.IsCarried(static_cast<int>(i)))
        caches_.insert(function_.body().arguments()[i].get());
    for (size_t i = 0; i < function_.body().results().size(); ++i) {
      const int argument = function_.result_info(i).argument;
      if (argument >= 0 && !function_.arguments()[argument].is_weight())
        caches_.insert(function_.body().results()[i]);
    }
    if (caches_.empty()) return;
    for (const auto& op : function_.body().ops())
      if (ShowsOperands(*op) && llvm::any_of(op->operands(), [&](auto* value) {
            return value != nullptr && caches_.contains(value);
          }))
        for (int i = 0; i < op->num_results(); ++i)
          caches_.insert(op->result(i));
  }

  int Variable(int op) const { return first_ + op; }

  // What the busiest rank holds of a split weight. Up to 15 % above an even
  // part counts as even: 8 heads over 3 ranks (3/8) are not worth cutting a
  // head, which takes a collective to undo.
  double PricedShare(const SymExpr& factor_size) const {
    const double share =
        LargestShare(factor_size, axis_size_, module_.assumptions());
    const double even = 1.0 / static_cast<double>(axis_size_);
    return share <= 1.15 * even ? even : share;
  }

  std::vector<Use> UsesOf(const Value* value) const {
    auto it = uses_.find(value);
    return it == uses_.end() ? std::vector<Use>() : it->second;
  }

  void CollectUses() {
    for (int op = 0; op < static_cast<int>(candidates_.ops.size()); ++op) {
      const Op& node = *candidates_.ops[op].op;
      for (int i = 0; i < node.num_operands(); ++i) {
        if (node.operand(i) == nullptr) continue;
        std::vector<Use>& uses = uses_[node.operand(i)];
        if (uses.empty() || uses.back().op != op) uses.push_back({op, {}});
        uses.back().operands.push_back(i);
      }
    }
  }

  double Reshard(const Value* value, const Placement& from, const Placement& to,
                 bool weight) const {
    double cost = ReshardMicroseconds(context_.cost, value->type(), from, to,
                                      axis_size_, module_.assumptions());
    const bool gathers = Communicates(Transition(from, to, axis_size_));
    if (caches_.contains(value) && gathers) return cost * kCacheGatherFactor;
    if (weight && gathers) return cost * kWeightGatherFactor;
    if (weight) return 0;  // done once, when the files are written
    if (cost > 0 && has_gradient_.contains(value))
      cost += ReshardMicroseconds(
          context_.cost, value->type(), GradientPlacement(to),
          GradientPlacement(from), axis_size_, module_.assumptions());
    return cost;
  }

  double CopyMicroseconds(const Value* value) const {
    return ReshardMicroseconds(context_.cost, value->type(),
                               Placement::Partial(), Placement::Replicate(),
                               axis_size_, module_.assumptions());
  }

  // What a strategy asks of the operands of one use, each once.
  std::vector<Want> Wanted(const Use& use, int strategy) const {
    std::vector<Want> wanted;
    const Strategy& chosen = candidates_.ops[use.op].strategies[strategy];
    for (int operand : use.operands) {
      const bool copy =
          NeedsCopy(chosen, operand) &&
          has_gradient_.contains(candidates_.ops[use.op].op->operand(operand));
      Add(wanted, {chosen.operands[operand], copy});
    }
    return wanted;
  }

  bool Contains(llvm::ArrayRef<Want> list, const Want& item) const {
    return llvm::any_of(list, [&](const Want& other) {
      return other.copy == item.copy &&
             SameLayout(other.placement, item.placement, axis_size_);
    });
  }
  void Add(std::vector<Want>& list, const Want& item) const {
    if (!Contains(list, item)) list.push_back(item);
  }

  // The costs between a value's maker, which gives `given[choice]`, and its
  // users. One user: a table between the two. Several: a variable per target
  // placement says whether the value is made available so, and is paid once.
  void AddValue(const Value* value, int maker,
                const std::vector<Placement>& given, bool weight) {
    const std::vector<Use> uses = UsesOf(value);
    if (uses.empty()) return;
    if (uses.size() == 1) {
      AddDirect(value, maker, given, uses[0], weight);
      return;
    }
    std::vector<Want> targets;
    for (const Use& use : uses)
      for (int s = 0; s < network_.domain(Variable(use.op)); ++s)
        for (const Want& wanted : Wanted(use, s)) {
          // A copy is made of the whole value.
          if (wanted.copy) Add(targets, {wanted.placement, false});
          Add(targets, wanted);
        }
    int whole = -1;  // the variable of the whole value
    for (const Want& target : targets) {
      std::vector<double> made(given.size() * 2, 0);
      bool free = !target.copy;
      for (size_t g = 0; g < given.size() && !target.copy; ++g) {
        made[g * 2 + 1] = Reshard(value, given[g], target.placement, weight);
        free &= made[g * 2 + 1] == 0;
      }
      if (free) continue;  // there whatever is chosen
      int available = -1;
      if (target.copy) {
        available = network_.AddVariable({0, CopyMicroseconds(value)});
        if (whole >= 0)
          network_.AddPair(whole, available, {0, kInfinity, 0, 0});
      } else {
        available = network_.AddVariable({0, 0});
        network_.AddPair(maker, available, std::move(made));
        if (target.placement.is_replicate()) whole = available;
      }
      for (const Use& use : uses) {
        std::vector<double> costs(network_.domain(Variable(use.op)) * 2, 0);
        bool wanted_at_all = false;
        for (int s = 0; s < network_.domain(Variable(use.op)); ++s) {
          if (!Contains(Wanted(use, s), target)) continue;
          costs[s * 2] = kInfinity;
          wanted_at_all = true;
        }
        if (wanted_at_all)
          network_.AddPair(Variable(use.op), available, std::move(costs));
      }
    }
  }

  void AddDirect(const Value* value, int maker,
                 const std::vector<Placement>& given, const Use& use,
                 bool weight) {
    const int domain = network_.domain(Variable(use.op));
    std::vector<double> costs(given.size() * domain, 0);
    for (size_t g = 0; g < given.size(); ++g)
      for (int s = 0; s < domain; ++s)
        for (const Want& wanted : Wanted(use, s))
          costs[g * domain + s] +=
              Reshard(value, given[g], wanted.placement, weight) +
              (wanted.copy ? CopyMicroseconds(value) : 0);
    network_.AddPair(maker, Variable(use.op), std::move(costs));
  }

  // A result that becomes an argument lies as the argument does. A dim that
  // grows from call to call is not split.
  void AddCarried(const Value* value, const Value& argument,
                  const Maker& target) {
    const Dims& dims = argument.type().dims;
    const Dims& result_dims = value->type().dims;
    for (size_t c = 0; c < target.choices.size(); ++c) {
      const Placement& choice = target.choices[c];
      if (choice.is_shard() &&
          (dims[choice.dim()] != result_dims[choice.dim()] ||
           !dims[choice.dim()].is_constant()))
        network_.AddUnary(target.variable, static_cast<int>(c), kInfinity);
    }
    const Maker maker = MakerOf(value);
    if (maker.variable == target.variable) return;
    std::vector<double> costs;
    for (const Placement& from : maker.choices)
      for (const Placement& to : target.choices)
        costs.push_back(Reshard(value, from, to, /*weight=*/false));
    network_.AddPair(maker.variable, target.variable, std::move(costs));
  }

  static void SetPlacement(Value* value, int axis, int ndim,
                           const Placement& placement) {
    ShardingSpec spec(value->spec().begin(), value->spec().end());
    spec.resize(ndim);
    spec[axis] = placement;
    value->set_spec(std::move(spec));
  }

  Module& module_;
  Function& function_;
  const int axis_;
  const AxesSoFar& so_far_;
  llvm::DenseSet<std::pair<const Value*, int>> taken_;  // dims
  const int64_t axis_size_;
  const PassContext& context_;
  Candidates candidates_;
  CostNetwork& network_;
  int first_ = 0;  // the variable of op 0; those of the others follow
  std::vector<int> argument_variable_;
  llvm::DenseMap<const Value*, std::vector<Use>> uses_;
  llvm::DenseSet<const Value*> caches_;
  llvm::DenseSet<const Value*> has_gradient_;  // empty unless training
};

// All functions of a module together.
class Search {
 public:
  Search(Module& module, int axis, const AxesSoFar& so_far,
         const PassContext& context)
      : module_(module),
        axis_(axis),
        axis_size_(module.mesh().axis(axis).size),
        context_(context) {
    for (const auto& function : module.functions())
      parts_.emplace_back(module, *function, axis, so_far, context, network_);
  }

  absl::Status Run() {
    for (FunctionSearch& part : parts_) TP_RETURN_IF_ERROR(part.FindChoices());
    ShareChoices();
    double price = 0;
    for (FunctionSearch& part : parts_)
      price = std::max(price, part.WeightPrice());
    for (FunctionSearch& part : parts_) part.AddOps();
    std::map<std::string, int> variables;
    for (FunctionSearch& part : parts_) part.AddWeights(price, variables);
    for (FunctionSearch& part : parts_) part.AddReshards();
    for (FunctionSearch& part : parts_)
      part.AddResults([&](size_t result) {
        const Value* argument =
            ArgumentOfResult(module_, part.function(), result);
        return OwnerOf(argument).MakerOf(argument);
      });
    CostNetwork::Solution solution = network_.Solve();
    if (solution.cost == kInfinity)
      return absl::InternalError("the cost network has no solution");
    int ops = 0;
    for (FunctionSearch& part : parts_) {
      part.Apply(solution);
      ops += part.num_ops();
    }
    context_.Remark(absl::StrFormat(
        "search: axis %s, %d ops, %d variables, cost %.1f us, %s",
        module_.mesh().axis(axis_).name, ops, network_.num_variables(),
        solution.cost, solution.optimal ? "optimal" : "not proven optimal"));
    return absl::OkStatus();
  }

 private:
  // A weight of several functions may lie in every way that one of them likes
  // and none of them has no dim left for.
  void ShareChoices() {
    struct Use {
      FunctionSearch* part;
      size_t argument;
      const Value* value;
    };
    std::map<std::string, std::vector<Use>> uses;
    for (FunctionSearch& part : parts_)
      for (size_t i = 0; i < part.function().arguments().size(); ++i)
        if (part.function().arguments()[i].is_weight())
          uses[part.function().arguments()[i].name].push_back(
              {&part, i, part.function().body().arguments()[i].get()});
    for (auto& [name, list] : uses) {
      if (list.size() == 1) continue;
      std::vector<Placement> all;
      for (const Use& use : list)
        for (const Placement& placement : use.part->choices(use.argument)) {
          const bool known = llvm::any_of(all, [&](const Placement& other) {
            return SameLayout(other, placement, axis_size_);
          });
          const bool taken = llvm::any_of(list, [&](const Use& other) {
            return other.part->IsTaken(other.value, placement);
          });
          if (!known && !taken) all.push_back(placement);
        }
      for (const Use& use : list) use.part->choices(use.argument) = all;
    }
  }

  FunctionSearch& OwnerOf(const Value* argument) {
    for (FunctionSearch& part : parts_)
      for (const auto& own : part.function().body().arguments())
        if (own.get() == argument) return part;
    TP_CHECK(false, "an argument of no function");
    return parts_.front();
  }

  Module& module_;
  const int axis_;
  const int64_t axis_size_;
  const PassContext& context_;
  CostNetwork network_;
  std::deque<FunctionSearch> parts_;
};

}  // namespace

absl::Status SearchPlacements(Module& module, const PassContext& context) {
  // The batch first: it is the same dim all along, and leaves the others.
  std::vector<int> order;
  for (const bool batch : {true, false})
    for (int axis = 0; axis < module.mesh().ndim(); ++axis)
      if ((module.mesh().axis(axis).name == kBatchAxis) == batch)
        order.push_back(axis);
  AxesSoFar so_far;
  for (const auto& function : module.functions())
    for (const auto& argument : function->body().arguments())
      if (!argument->spec().empty()) so_far.pinned.insert(argument.get());
  for (int axis : order) {
    TP_RETURN_IF_ERROR(Search(module, axis, so_far, context).Run());
    so_far.decided.push_back(axis);
  }
  if (order.size() > 1)
    context.Remark(
        "search: axes were decided one after the other, each exactly; together "
        "they are not proven optimal");
  return absl::OkStatus();
}

}  // namespace tp
