// Writes the backward pass as text: @backward, from the gradient of the loss
// to one gradient per parameter, and @reduce_gradients, which adds up what
// ranks hold terms of.
//
// Collectives cut @forward into segments. A segment is differentiated as one,
// by autograd; what enters it and what leaves it is marked:
//
//   %1 = aten.layer_norm(%x, ...)
//   %2 = tp.copy(%1) {axis = "tp"}
//   %3 = aten.linear(%2, %w)
// becomes
//   %1 = tp.enter(%x) {segment = 0}
//   %2 = aten.layer_norm(%1, ...)
//   %3 = tp.leave(%2) {segment = 0}
//   %4 = tp.copy(%3) {axis = "tp"}
//   %5:2 = tp.enter(%4, %w) {segment = 1}
//   %6 = aten.linear(%5#0, %5#1)
//
// and @backward says, for each segment from the last to the first, which
// gradients go in and which come out. All communication of the backward pass
// is tp.reshard, lowered by the one table.
#include "absl/strings/str_cat.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/replacements.h"
#include "ir/status.h"
#include "ir/text.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "passes/gradients.h"
#include "passes/pass.h"

namespace tp {
namespace {

// A gathered parameter below this is not worth a second gather.
constexpr double kKeptBytes = 64 << 10;

// Marks what enters and leaves the segments of a function.
class SegmentCutter {
 public:
  SegmentCutter(Module& module, Function& function)
      : module_(module),
        function_(function),
        has_gradient_(ValuesWithGradients(function)) {}

  void Run() {
    NumberSegments();
    FindLeaving();
    Block& body = function_.body();
    auto begin = body.ops().begin();
    while (begin != body.ops().end()) {
      auto end = begin;
      while (end != body.ops().end() && !HasTrait(**end, kCollective)) ++end;
      CutSegment(begin, end);
      if (end == body.ops().end()) break;
      left_.ApplyTo(**end);
      begin = std::next(end);
    }
    left_.ApplyToResults(body);
  }

 private:
  void NumberSegments() {
    int number = 0;
    for (const auto& op : function_.body().ops()) {
      if (HasTrait(*op, kCollective))
        ++number;
      else
        segment_of_[op.get()] = number;
    }
  }

  void FindLeaving() {
    for (const auto& op : function_.body().ops())
      for (const Value* operand : op->operands()) {
        if (operand == nullptr || operand->op() == nullptr) continue;
        auto maker = segment_of_.find(operand->op());
        if (maker == segment_of_.end()) continue;
        auto user = segment_of_.find(op.get());
        if (user == segment_of_.end() || user->second != maker->second)
          leaving_.insert(operand);
      }
    for (const Value* result : function_.body().results())
      leaving_.insert(result);
  }

  void CutSegment(OpList::iterator begin, OpList::iterator end) {
    llvm::SetVector<Value*> entering;
    std::vector<Value*> leaving;
    llvm::DenseSet<const Value*> made;
    for (auto it = begin; it != end; ++it) {
      Op& op = **it;
      left_.ApplyTo(op);
      for (Value* operand : op.operands())
        if (operand != nullptr && !made.contains(operand) &&
            HasGradient(operand))
          entering.insert(operand);
      for (int i = 0; i < op.num_results(); ++i) {
        made.insert(op.result(i));
        if (HasGradient(op.result(i)) && leaving_.contains(op.result(i)))
          leaving.push_back(op.result(i));
      }
    }
    if (leaving.empty()) return;
    Op* enter =
        Mark("tp.enter", entering.getArrayRef(), begin, (*begin)->location());
    Replacements entered;
    for (size_t i = 0; i < entering.size(); ++i)
      entered.Set(entering[i], enter->result(i));
    for (auto it = begin; it != end; ++it) entered.ApplyTo(**it);
    Op* leave =
        Mark("tp.leave", leaving, end, leaving.back()->op()->location());
    for (size_t i = 0; i < leaving.size(); ++i)
      left_.Set(leaving[i], leave->result(i));
    ++num_segments_;
  }

  // A value that left a segment has the gradient that the original has.
  bool HasGradient(const Value* value) const {
    return has_gradient_.contains(value) ||
           (value->op() != nullptr && value->op()->Is("tp.leave"));
  }

  Op* Mark(const char* name, llvm::ArrayRef<Value*> values,
           OpList::iterator position, const Location& location) {
    Builder builder(module_, function_.body(), position);
    builder.set_location(location);
    std::vector<TensorType> types;
    for (const Value* value : values) types.push_back(value->type());
    Op* op = builder.CreateTyped(
        name, std::vector<OperandArg>(values.begin(), values.end()),
        {{"segment", num_segments_}}, types);
    for (size_t i = 0; i < values.size(); ++i)
      op->result(i)->set_spec(
          ShardingSpec(values[i]->spec().begin(), values[i]->spec().end()));
    return op;
  }

  Module& module_;
  Function& function_;
  const llvm::DenseSet<const Value*> has_gradient_;
  llvm::DenseMap<const Op*, int> segment_of_;
  llvm::DenseSet<const Value*> leaving_;
  Replacements left_;
  int64_t num_segments_ = 0;
};

class BackwardWriter {
 public:
  BackwardWriter(Module& module, Function& forward, bool keep_gathered)
      : module_(module),
        forward_(forward),
        backward_(module.AddFunction("backward")),
        keep_gathered_(keep_gathered),
        builder_(module, backward_->body()) {}

  void Run() {
    const Value* loss = forward_.body().results()[0];
    ArgumentInfo seed;
    seed.name = "seed";
    Value* argument = backward_->AddArgument(loss->type(), seed);
    argument->set_spec(Whole());
    gradients_[loss].push_back(argument);
    auto& ops = forward_.body().ops();
    for (const auto& op : ops) {
      if (op->Is("tp.enter")) enters_.push_back(op.get());
      for (const Value* operand : op->operands())
        if (operand != nullptr) ++uses_[operand];
    }
    for (auto it = ops.rbegin(); it != ops.rend(); ++it) Reverse(**it);
    WriteResults();
  }

 private:
  ShardingSpec Whole() const { return ShardingSpec(module_.mesh().ndim()); }

  void Reverse(Op& op) {
    builder_.set_location(op.location());
    if (op.Is("tp.leave")) ReverseSegment(op);
    if (!HasTrait(op, kCollective)) return;
    // What a step does to the value, resolving undoes for the gradient: the
    // terms of a copy stay terms until somebody needs their sum.
    auto given = gradients_.find(op.result());
    if (given == gradients_.end()) return;
    std::vector<Value*> terms = given->second;
    for (Value* term : terms) gradients_[op.operand(0)].push_back(term);
  }

  static int64_t SegmentOf(const Op& op) {
    return *op.attribute("segment")->AsConstantInt();
  }

  // The parameter that a gather made whole for this use alone, where that is
  // large enough to be worth a second gather; else null.
  const Value* GatheredParameter(const Value* value) const {
    if (keep_gathered_) return nullptr;
    while (value->op() != nullptr && value->op()->Is("tp.copy") &&
           uses_.lookup(value) == 1)
      value = value->op()->operand(0);
    if (value->op() == nullptr || !value->op()->Is("tp.all_gather") ||
        uses_.lookup(value) != 1)
      return nullptr;
    const Value* parameter = value->op()->operand(0);
    if (parameter->op() != nullptr) return nullptr;
    return HintBytes(parameter->type(), module_.assumptions()) < kKeptBytes
               ? nullptr
               : parameter;
  }

  Value* ArgumentOfBackward(const Value* parameter) {
    Value*& argument = arguments_[parameter];
    if (argument != nullptr) return argument;
    argument = backward_->AddArgument(parameter->type(),
                                      forward_.arguments()[parameter->index()]);
    argument->set_spec(
        ShardingSpec(parameter->spec().begin(), parameter->spec().end()));
    return argument;
  }

  // Gathers again what the segment let go.
  void Refill(Op& leave, const Op& enter) {
    std::vector<Attribute> freed;
    for (int i = 0; i < enter.num_operands(); ++i) {
      const Value* parameter = GatheredParameter(enter.operand(i));
      if (parameter == nullptr) continue;
      freed.push_back(Attribute(i));
      Op* gathered =
          builder_.CreateTyped("tp.reshard", {ArgumentOfBackward(parameter)},
                               {}, {parameter->type()});
      gathered->result()->set_spec(Whole());
      builder_.CreateTyped("tp.refill", {gathered->result()},
                           {{"segment", SegmentOf(leave)}, {"input", i}}, {});
    }
    if (!freed.empty()) leave.SetAttribute("frees", Attribute(freed));
  }

  void ReverseSegment(Op& leave) {
    std::vector<OperandArg> given;
    bool any = false;
    for (int i = 0; i < leave.num_results(); ++i) {
      const Value* value = leave.result(i);
      Value* gradient = nullptr;
      if (gradients_.count(value))
        gradient = Resolve(value, GradientSpec(*value, module_.mesh().ndim()));
      any |= gradient != nullptr;
      given.push_back(gradient);
    }
    if (!any) return;
    const Op* enter = enters_[SegmentOf(leave)];
    Refill(leave, *enter);
    std::vector<TensorType> types;
    for (const Value* operand : enter->operands())
      types.push_back(operand->type());
    Op* op = builder_.CreateTyped("tp.segment_grad", given,
                                  {{"segment", SegmentOf(leave)}}, types);
    for (int i = 0; i < enter->num_operands(); ++i) {
      op->result(i)->set_spec(TermSpec(*enter->operand(i), module_.mesh()));
      gradients_[enter->operand(i)].push_back(op->result(i));
    }
  }

  Value* Add(Value* a, Value* b) {
    Op* op = builder_.CreateTyped("aten.add.Tensor", {a, b}, {}, {a->type()});
    op->result()->set_spec(ShardingSpec(a->spec().begin(), a->spec().end()));
    return op->result();
  }

  bool SameSpec(llvm::ArrayRef<Placement> a, llvm::ArrayRef<Placement> b) {
    for (int axis = 0; axis < module_.mesh().ndim(); ++axis)
      if (!SameLayout(a[axis], b[axis], module_.mesh().axis(axis).size))
        return false;
    return true;
  }

  // The terms of a value's gradient, those that lie alike added up.
  std::vector<Value*> Groups(const Value* value) {
    std::vector<Value*> groups;
    for (Value* term : gradients_[value]) {
      bool found = false;
      for (Value*& group : groups) {
        if (found || !SameSpec(group->spec(), term->spec())) continue;
        group = Add(group, term);
        found = true;
      }
      if (!found) groups.push_back(term);
    }
    return groups;
  }

  // The gradient of a value, lying as `wanted`.
  Value* Resolve(const Value* value, const ShardingSpec& wanted) {
    Value* sum = nullptr;
    for (Value* group : Groups(value)) {
      if (!SameSpec(group->spec(), wanted)) {
        Op* op =
            builder_.CreateTyped("tp.reshard", {group}, {}, {group->type()});
        op->result()->set_spec(wanted);
        group = op->result();
      }
      sum = sum == nullptr ? group : Add(sum, group);
    }
    return sum;
  }

  // Gradients of parameters. One that is a sum of the ranks' terms is left
  // so: terms of many micro-batches are added before they are reduced once.
  void WriteResults() {
    Function* reduce = module_.AddFunction("reduce_gradients");
    Builder reducer(module_, reduce->body());
    for (size_t i = 0; i < forward_.arguments().size(); ++i) {
      const Value* parameter = forward_.body().arguments()[i].get();
      if (!forward_.arguments()[i].is_trainable() ||
          !gradients_.count(parameter))
        continue;
      const ShardingSpec wanted =
          GradientSpec(*parameter, module_.mesh().ndim());
      builder_.set_location(Location());
      const std::vector<Value*> groups = Groups(parameter);
      gradients_[parameter] = groups;
      Value* gradient = groups.size() == 1 && CanWait(*groups[0], wanted)
                            ? groups[0]
                            : Resolve(parameter, wanted);
      backward_->body().results().push_back(gradient);
      ArgumentInfo info;
      info.name = forward_.arguments()[i].name;
      Value* argument = reduce->AddArgument(gradient->type(), info);
      argument->set_spec(
          ShardingSpec(gradient->spec().begin(), gradient->spec().end()));
      Value* reduced = argument;
      if (!SameSpec(argument->spec(), wanted)) {
        Op* op = reducer.CreateTyped("tp.reshard", {argument}, {},
                                     {argument->type()});
        op->result()->set_spec(wanted);
        reduced = op->result();
      }
      reduce->body().results().push_back(reduced);
    }
  }

  // Whether what is left to do for `wanted` is to sum or gather: done once,
  // not per micro-batch. A part is taken at once, for it is smaller.
  bool CanWait(const Value& value, const ShardingSpec& wanted) const {
    for (int axis = 0; axis < module_.mesh().ndim(); ++axis)
      if (!wanted[axis].is_replicate() &&
          !SameLayout(value.spec()[axis], wanted[axis],
                      module_.mesh().axis(axis).size))
        return false;
    return true;
  }

  Module& module_;
  Function& forward_;
  Function* backward_;
  const bool keep_gathered_;
  Builder builder_;
  llvm::DenseMap<const Value*, int> uses_;
  llvm::DenseMap<const Value*, Value*> arguments_;  // of @backward
  // Terms of the gradient of each value of @forward, in program order.
  llvm::DenseMap<const Value*, std::vector<Value*>> gradients_;
  std::vector<const Op*> enters_;  // by segment
};

absl::Status CheckLoss(const Function& forward) {
  if (forward.body().results().empty())
    return absl::InvalidArgumentError("the model returns nothing to train on");
  const Value* loss = forward.body().results()[0];
  bool one = IsFloatingPoint(loss->type().dtype);
  for (const SymExpr& dim : loss->type().dims) one &= dim == SymExpr(1);
  if (one) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "output_0 is ", ToString(loss->type()),
      ", not a loss (one floating point number); put a loss around it with "
      "--loss cross_entropy --labels NAME, or return the loss first"));
}

}  // namespace

absl::Status Differentiate(Module& module, const PassContext& context) {
  Function* forward = module.function("forward");
  if (forward == nullptr || module.functions().size() != 1)
    return absl::InvalidArgumentError(
        "training needs a module with @forward alone");
  TP_RETURN_IF_ERROR(CheckLoss(*forward));
  if (ValuesWithGradients(*forward).count(forward->body().results()[0]) == 0)
    return absl::InvalidArgumentError(
        "the loss depends on no trainable parameter (are all frozen, or was "
        "the model exported under no_grad?)");
  SegmentCutter(module, *forward).Run();
  BackwardWriter(module, *forward, context.zero3_keep).Run();
  return absl::OkStatus();
}

}  // namespace tp
