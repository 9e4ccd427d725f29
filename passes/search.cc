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
// The network is solved exactly by elimination (cost_network.h).
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/candidates.h"
#include "passes/cost_network.h"
#include "passes/gradients.h"
#include "passes/pass.h"

namespace tp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A weight that must be gathered at each use is the last resort.
constexpr double kWeightGatherFactor = 100;
// Backward computes a gradient per operand: twice what forward does.
constexpr double kForwardAndBackward = 3;

// What a use asks for: a placement, for training perhaps through tp.copy.
struct Want {
  Placement placement;
  bool copy = false;
};

class Search {
 public:
  Search(Module& module, Function& function, int axis,
         const PassContext& context)
      : module_(module),
        function_(function),
        axis_(axis),
        axis_size_(module.mesh().axis(axis).size),
        context_(context) {
    if (context.train) has_gradient_ = ValuesWithGradients(function);
  }

  absl::Status Run() {
    TP_ASSIGN_OR_RETURN(candidates_, FindCandidates(module_, function_, axis_));
    DropExtremesWithGradients();
    AddOps();
    AddWeights();
    AddReshards();
    AddResults();
    CostNetwork::Solution solution = network_.Solve();
    if (solution.cost == kInfinity)
      return absl::InternalError("the cost network has no solution");
    Apply(solution);
    context_.Remark(absl::StrFormat(
        "search: axis %s, %d ops, %d variables, cost %.1f us, %s",
        module_.mesh().axis(axis_).name, candidates_.ops.size(),
        network_.num_variables(), solution.cost,
        solution.optimal ? "optimal" : "not proven optimal"));
    return absl::OkStatus();
  }

 private:
  // A use of a value by a strategy variable.
  struct Use {
    int op;
    std::vector<int> operands;  // of this op that are the value
  };

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

  void AddOps() {
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

  // What the busiest rank holds of a split weight. Up to 15 % above an even
  // part counts as even: 8 heads over 3 ranks (3/8) are not worth cutting a
  // head, which takes a collective to undo.
  double PricedShare(const SymExpr& factor_size) const {
    const double share =
        LargestShare(factor_size, axis_size_, module_.assumptions());
    const double even = 1.0 / static_cast<double>(axis_size_);
    return share <= 1.15 * even ? even : share;
  }

  void AddWeights() {
    const double price = WeightPrice();
    for (size_t i = 0; i < function_.arguments().size(); ++i) {
      const Value* argument = function_.body().arguments()[i].get();
      const double bytes = HintBytes(argument->type(), module_.assumptions());
      std::vector<double> costs;
      for (const Placement& placement : candidates_.arguments[i]) {
        double share = 1;
        if (placement.is_shard()) share = PricedShare(placement.factor().size);
        const bool held = function_.arguments()[i].is_weight() ||
                          function_.IsCarried(static_cast<int>(i));
        costs.push_back(held ? price * bytes * share : 0);
      }
      argument_variable_.push_back(network_.AddVariable(std::move(costs)));
    }
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

  void AddReshards() {
    CollectUses();
    const auto& arguments = function_.body().arguments();
    for (size_t i = 0; i < arguments.size(); ++i)
      AddValue(arguments[i].get(), argument_variable_[i],
               candidates_.arguments[i],
               function_.arguments()[i].is_weight() &&
                   !function_.IsCarried(static_cast<int>(i)));
    for (int op = 0; op < static_cast<int>(candidates_.ops.size()); ++op) {
      const OpCandidates& entry = candidates_.ops[op];
      for (int r = 0; r < entry.op->num_results(); ++r) {
        std::vector<Placement> given;
        for (const Strategy& strategy : entry.strategies)
          given.push_back(strategy.results[r]);
        AddValue(entry.op->result(r), op, given, /*weight=*/false);
      }
    }
  }

  double Reshard(const Value* value, const Placement& from, const Placement& to,
                 bool weight) const {
    double cost = ReshardMicroseconds(context_.cost, value->type(), from, to,
                                      axis_size_, module_.assumptions());
    const bool gathers = Communicates(Transition(from, to, axis_size_));
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
      for (int s = 0; s < network_.domain(use.op); ++s)
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
        std::vector<double> costs(network_.domain(use.op) * 2, 0);
        bool wanted_at_all = false;
        for (int s = 0; s < network_.domain(use.op); ++s) {
          if (!Contains(Wanted(use, s), target)) continue;
          costs[s * 2] = kInfinity;
          wanted_at_all = true;
        }
        if (wanted_at_all)
          network_.AddPair(use.op, available, std::move(costs));
      }
    }
  }

  void AddDirect(const Value* value, int maker,
                 const std::vector<Placement>& given, const Use& use,
                 bool weight) {
    const int domain = network_.domain(use.op);
    std::vector<double> costs(given.size() * domain, 0);
    for (size_t g = 0; g < given.size(); ++g)
      for (int s = 0; s < domain; ++s)
        for (const Want& wanted : Wanted(use, s))
          costs[g * domain + s] +=
              Reshard(value, given[g], wanted.placement, weight) +
              (wanted.copy ? CopyMicroseconds(value) : 0);
    network_.AddPair(maker, use.op, std::move(costs));
  }

  void AddResults() {
    llvm::DenseSet<const Value*> whole;
    const auto& results = function_.body().results();
    for (size_t i = 0; i < results.size(); ++i) {
      const int argument = function_.result_info(i).argument;
      if (argument >= 0) {
        AddCarried(results[i], argument);
      } else if (whole.insert(results[i]).second) {
        const auto [maker, given] = MakerOf(results[i]);
        for (size_t g = 0; g < given.size(); ++g)
          network_.AddUnary(maker, static_cast<int>(g),
                            Reshard(results[i], given[g],
                                    Placement::Replicate(), /*weight=*/false));
      }
    }
  }

  // The variable that decides how a value lies, and its choices.
  std::pair<int, std::vector<Placement>> MakerOf(const Value* value) const {
    if (value->op() == nullptr)
      return {argument_variable_[value->index()],
              candidates_.arguments[value->index()]};
    const int op = candidates_.index_of.lookup(value->op());
    std::vector<Placement> given;
    for (const Strategy& strategy : candidates_.ops[op].strategies)
      given.push_back(strategy.results[value->index()]);
    return {op, given};
  }

  // A result that becomes an argument lies as the argument does. A dim that
  // grows from call to call is not split.
  void AddCarried(const Value* value, int argument) {
    const int variable = argument_variable_[argument];
    const std::vector<Placement>& choices = candidates_.arguments[argument];
    const Dims& dims = function_.body().arguments()[argument]->type().dims;
    for (size_t c = 0; c < choices.size(); ++c)
      if (choices[c].is_shard() &&
          dims[choices[c].dim()] != value->type().dims[choices[c].dim()])
        network_.AddUnary(variable, static_cast<int>(c), kInfinity);
    const auto [maker, given] = MakerOf(value);
    if (maker == variable) return;
    std::vector<double> costs;
    for (const Placement& from : given)
      for (const Placement& to : choices)
        costs.push_back(Reshard(value, from, to, /*weight=*/false));
    network_.AddPair(maker, variable, std::move(costs));
  }

  static void SetPlacement(Value* value, int axis, int ndim,
                           const Placement& placement) {
    ShardingSpec spec(value->spec().begin(), value->spec().end());
    spec.resize(ndim);
    spec[axis] = placement;
    value->set_spec(std::move(spec));
  }

  void Apply(const CostNetwork::Solution& solution) {
    const int ndim = module_.mesh().ndim();
    for (size_t op = 0; op < candidates_.ops.size(); ++op) {
      const OpCandidates& entry = candidates_.ops[op];
      const Strategy& chosen = entry.strategies[solution.choices[op]];
      for (int i = 0; i < entry.op->num_results(); ++i)
        SetPlacement(entry.op->result(i), axis_, ndim, chosen.results[i]);
    }
    for (size_t i = 0; i < argument_variable_.size(); ++i)
      SetPlacement(
          function_.body().arguments()[i].get(), axis_, ndim,
          candidates_.arguments[i][solution.choices[argument_variable_[i]]]);
  }

  Module& module_;
  Function& function_;
  const int axis_;
  const int64_t axis_size_;
  const PassContext& context_;
  Candidates candidates_;
  CostNetwork network_;  // variable i < ops.size() is op i
  std::vector<int> argument_variable_;
  llvm::DenseMap<const Value*, std::vector<Use>> uses_;
  llvm::DenseSet<const Value*> has_gradient_;  // empty unless training
};

}  // namespace

absl::Status SearchPlacements(Module& module, const PassContext& context) {
  if (module.mesh().ndim() != 1)
    return absl::UnimplementedError(
        absl::StrCat("meshes of several axes are not planned yet, and ",
                     module.mesh().ToString(), " has ", module.mesh().ndim(),
                     "; use one axis, as in --tp ", module.mesh().num_ranks()));
  for (const auto& function : module.functions())
    TP_RETURN_IF_ERROR(Search(module, *function, 0, context).Run());
  return absl::OkStatus();
}

}  // namespace tp
