// Control flow that is decided when the model runs. See branch_log.h for how
// both ways are imported, and loop_plan.h for what loops carry.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontend/branch_values.h"
#include "frontend/graph_interpreter.h"
#include "frontend/loop_plan.h"
#include "frontend/runtime_numbers.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

namespace jit = torch::jit;
using Values = std::vector<AbstractValue>;

// A loop changes at most so many kinds of things that it reads.
constexpr int kMaxTrials = 100;

// What a branch left behind: its outputs and what it did to what was there.
struct BranchEnd {
  BranchTrace trace;
  std::vector<Frozen> outputs;
  std::vector<Value*> written;  // by trace.written
  std::vector<Frozen> touched;  // by trace.touched
};

absl::Status ReadEnd(const Values& outputs, ImportContext& context,
                     BranchEnd& end) {
  for (const AbstractValue& output : outputs) {
    TP_ASSIGN_OR_RETURN(Frozen frozen, Freeze(output, context));
    end.outputs.push_back(std::move(frozen));
  }
  for (const auto& storage : end.trace.written) {
    TP_ASSIGN_OR_RETURN(Value * value, context.aliases.ReadWhole(storage));
    end.written.push_back(value);
  }
  for (const AbstractValue& container : end.trace.touched) {
    TP_ASSIGN_OR_RETURN(Frozen frozen, FreezeContainer(container, context));
    end.touched.push_back(std::move(frozen));
  }
  return absl::OkStatus();
}

const void* IdentityOf(const AbstractValue& container) {
  if (container.is_list()) return container.as_list().get();
  if (container.is_dict()) return container.as_dict().get();
  return container.as_object().get();
}

// The storages, or containers, that either branch changed, each once.
std::vector<std::shared_ptr<ViewNode>> AllWritten(const BranchEnd (&ends)[2]) {
  std::vector<std::shared_ptr<ViewNode>> all;
  for (const BranchEnd& end : ends) {
    for (const auto& storage : end.trace.written) {
      if (llvm::none_of(all, [&](const auto& other) {
            return other->storage == storage->storage;
          }))
        all.push_back(storage);
    }
  }
  return all;
}

Values AllTouched(const BranchEnd (&ends)[2]) {
  Values all;
  for (const BranchEnd& end : ends) {
    for (const AbstractValue& container : end.trace.touched) {
      if (llvm::none_of(all, [&](const AbstractValue& other) {
            return IdentityOf(other) == IdentityOf(container);
          }))
        all.push_back(container);
    }
  }
  return all;
}

// The content of a storage at the end of a branch; of the state before it
// where the branch does not write it.
absl::StatusOr<Value*> WrittenIn(const BranchEnd& end,
                                 const std::shared_ptr<ViewNode>& storage,
                                 ImportContext& context) {
  for (size_t i = 0; i < end.written.size(); ++i)
    if (end.trace.written[i]->storage == storage->storage)
      return end.written[i];
  return context.aliases.ReadWhole(storage);
}

absl::StatusOr<Frozen> TouchedIn(const BranchEnd& end,
                                 const AbstractValue& container,
                                 ImportContext& context) {
  for (size_t i = 0; i < end.touched.size(); ++i)
    if (IdentityOf(end.trace.touched[i]) == IdentityOf(container))
      return end.touched[i];
  return FreezeContainer(container, context);
}

}  // namespace

void GraphInterpreter::BeginBranch(BranchTrace& trace) {
  trace.first_serial = context_.aliases.next_serial();
  for (const Frame* frame : frames_)
    for (const auto& [name, value] : frame->values)
      CollectContainers(value, trace.existing);
  context_.branches.Begin(&trace);
}

absl::StatusOr<Values> GraphInterpreter::RunIfAtRunTime(const jit::Node& node,
                                                        Frame& frame,
                                                        Value* condition) {
  const Location place = context_.location();
  const Location last = frame.location;
  Block& outer = context_.builder.block();
  auto op = std::make_unique<Op>("tp.if", place);
  op->AddOperand(condition);
  op->AddRegion();
  op->AddRegion();
  BranchEnd ends[2];
  for (int i = 0; i < 2; ++i) {
    const jit::Block& block = *node.blocks()[i];
    const size_t mark = context_.branches.mark();
    BeginBranch(ends[i].trace);
    context_.builder.MoveTo(*op->regions()[i]);
    absl::Status status = RunBlock(block, frame);
    if (status.ok())
      status = ReadEnd(Arguments(block.outputs(), frame), context_, ends[i]);
    context_.builder.MoveTo(outer);
    context_.branches.RollBack(mark);
    context_.builder.set_location(place);
    frame.location = last;
    TP_RETURN_IF_ERROR(status);
  }

  BranchMerger merger(*op, condition, context_);
  const std::vector<std::shared_ptr<ViewNode>> written = AllWritten(ends);
  std::vector<Value*> contents;
  for (const auto& storage : written) {
    TP_ASSIGN_OR_RETURN(Value * yes, WrittenIn(ends[0], storage, context_));
    TP_ASSIGN_OR_RETURN(Value * no, WrittenIn(ends[1], storage, context_));
    TP_ASSIGN_OR_RETURN(Value * content, merger.MergeContents(yes, no));
    contents.push_back(content);
  }
  const Values touched = AllTouched(ends);
  std::vector<std::pair<Frozen, Frozen>> held;
  for (const AbstractValue& container : touched) {
    TP_ASSIGN_OR_RETURN(Frozen yes, TouchedIn(ends[0], container, context_));
    TP_ASSIGN_OR_RETURN(Frozen no, TouchedIn(ends[1], container, context_));
    held.push_back({std::move(yes), std::move(no)});
  }
  // Contents first: what is joined below has the content of here already.
  context_.builder.Insert(std::move(op));
  for (size_t i = 0; i < written.size(); ++i)
    TP_RETURN_IF_ERROR(context_.aliases.SetWhole(written[i], contents[i]));
  for (const BranchEnd& end : ends)
    for (const auto& [storage, where] : end.trace.tainted)
      context_.aliases.Taint(storage, where);
  Values outputs;
  for (size_t i = 0; i < ends[0].outputs.size(); ++i) {
    TP_ASSIGN_OR_RETURN(AbstractValue output,
                        merger.Merge(ends[0].outputs[i], ends[1].outputs[i]));
    outputs.push_back(std::move(output));
  }
  for (size_t i = 0; i < touched.size(); ++i)
    TP_RETURN_IF_ERROR(
        merger.MergeInto(touched[i], held[i].first, held[i].second));
  return outputs;
}

// One import of a loop's body.
struct GraphInterpreter::LoopRound {
  LoopRound(LoopPlan& plan, Block& body, ImportContext& context)
      : plan(plan), body(body), trial(plan, body, context) {}

  LoopPlan& plan;
  Block& body;
  LoopTrial trial;
  std::vector<Frozen> before;      // what is carried, before the loop
  std::vector<Frozen> containers;  // by plan.containers, before the loop
  BranchEnd end;
  Value* again = nullptr;  // null: until the limit
};

namespace {

std::string ContainerPath(size_t index) { return absl::StrCat("c", index); }

void SetContent(const AbstractValue& container, const AbstractValue& content,
                ImportContext& context) {
  context.branches.Touch(container);
  if (container.is_list())
    *container.as_list() = *content.as_list();
  else if (container.is_dict())
    *container.as_dict() = *content.as_dict();
  else
    for (const auto& [name, value] : content.as_object()->attributes)
      container.as_object()->attributes[name] = value;
}

// Adds to the plan what the body turned out to write and change.
bool NoteEffects(const BranchTrace& trace, LoopPlan& plan) {
  bool changed = false;
  for (const auto& storage : trace.written) {
    if (llvm::any_of(plan.storages, [&](const auto& other) {
          return other->storage == storage->storage;
        }))
      continue;
    plan.storages.push_back(storage);
    changed = true;
  }
  for (const AbstractValue& container : trace.touched) {
    if (llvm::any_of(plan.containers, [&](const AbstractValue& other) {
          return IdentityOf(other) == IdentityOf(container);
        }))
      continue;
    plan.containers.push_back(container);
    changed = true;
  }
  for (const auto& taint : trace.tainted) {
    if (llvm::any_of(plan.tainted, [&](const auto& other) {
          return other.first == taint.first;
        }))
      continue;
    plan.tainted.push_back(taint);
    changed = true;
  }
  return changed;
}

}  // namespace

absl::StatusOr<Values> GraphInterpreter::RunLoopAtRunTime(const jit::Node& node,
                                                          Frame& frame,
                                                          LoopState state) {
  if (state.condition.is_unknown() || state.limit.is_unknown())
    return IsTrue(state.limit.is_unknown() ? state.limit : state.condition)
        .status();
  if (!state.condition.is_runtime_number()) {
    TP_ASSIGN_OR_RETURN(bool runs, IsTrue(state.condition));
    if (!runs) return std::move(state.carried);
  }
  const Location place = context_.location();
  const Location last = frame.location;
  Block& outer = context_.builder.block();
  LoopPlan plan;
  for (int trials = 0; trials < kMaxTrials; ++trials) {
    auto op = std::make_unique<Op>("tp.loop", place);
    LoopRound round(plan, *op->AddRegion(), context_);
    const size_t mark = context_.branches.mark();
    absl::Status status = RunRound(node, frame, state, round);
    context_.builder.MoveTo(outer);
    context_.branches.RollBack(mark);
    context_.builder.set_location(place);
    frame.location = last;
    TP_RETURN_IF_ERROR(status);
    if (round.trial.changed()) continue;

    const std::optional<int64_t> known =
        state.limit.is_int() ? state.limit.as_int().AsConstant() : std::nullopt;
    Value* limit = nullptr;
    if (!known) {
      TP_ASSIGN_OR_RETURN(limit, NumberValue(state.limit, context_));
    } else if (*known < std::numeric_limits<int64_t>::max() || !round.again) {
      TP_ASSIGN_OR_RETURN(limit,
                          NumberValue(SymExpr(*known - state.done), context_));
    }
    Value* condition = nullptr;
    if (round.again != nullptr) {
      TP_ASSIGN_OR_RETURN(condition,
                          NumberValue(state.condition, context_, DType::kBool));
    }
    op->AddOperand(limit);
    op->AddOperand(condition);
    return FinishLoop(round, std::move(op));
  }
  return context_.Unsupported(
      "a loop that depends on data changes too many things");
}

absl::Status GraphInterpreter::RunRound(const jit::Node& node, Frame& frame,
                                        const LoopState& state,
                                        LoopRound& round) {
  const jit::Block& block = *node.blocks()[0];
  LoopPlan& plan = round.plan;
  BeginBranch(round.end.trace);
  // In front of the loop. Storages first: tensors that may share their memory
  // have the content of here already.
  Value* counter = round.body.AddArgument(TensorType{DType::kI64, {}});
  for (const AbstractValue& value : state.carried) {
    TP_ASSIGN_OR_RETURN(Frozen before, Freeze(value, context_));
    round.before.push_back(std::move(before));
  }
  for (const AbstractValue& container : plan.containers) {
    TP_ASSIGN_OR_RETURN(Frozen before, FreezeContainer(container, context_));
    round.containers.push_back(std::move(before));
  }
  for (const auto& storage : plan.storages)
    TP_RETURN_IF_ERROR(round.trial.EnterStorage(storage));
  for (size_t i = 0; i < plan.storages.size(); ++i)
    TP_RETURN_IF_ERROR(context_.aliases.SetWhole(
        plan.storages[i], round.trial.carried()[i].argument));
  for (const auto& [storage, where] : plan.tainted)
    context_.aliases.Taint(storage, where);
  Values inside, contents;
  for (size_t i = 0; i < round.before.size(); ++i) {
    TP_ASSIGN_OR_RETURN(AbstractValue value,
                        round.trial.Enter(absl::StrCat(i), round.before[i]));
    inside.push_back(std::move(value));
  }
  for (size_t i = 0; i < plan.containers.size(); ++i) {
    TP_ASSIGN_OR_RETURN(
        AbstractValue content,
        round.trial.Enter(ContainerPath(i), round.containers[i]));
    contents.push_back(std::move(content));
  }

  context_.builder.MoveTo(round.body);
  for (size_t i = 0; i < plan.containers.size(); ++i) {
    if (contents[i].is_unknown())
      return context_.Unsupported(contents[i].reason());
    SetContent(plan.containers[i], contents[i], context_);
  }
  AbstractValue index = RuntimeNumber{counter};
  if (state.done > 0) {
    TP_ASSIGN_OR_RETURN(
        std::optional<AbstractValue> later,
        EvaluateRuntimeNumberOp("aten::add", {index, SymExpr(state.done)},
                                ScalarKind::kInt, context_));
    index = *later;
  }
  frame.values[block.inputs()[0]] = index;
  for (size_t i = 0; i < inside.size(); ++i)
    frame.values[block.inputs()[i + 1]] = inside[i];
  TP_RETURN_IF_ERROR(RunBlock(block, frame));
  TP_RETURN_IF_ERROR(
      ReadEnd(Arguments(block.outputs(), frame), context_, round.end));

  const AbstractValue& again = round.end.outputs[0].value;
  if (again.is_unknown()) return IsTrue(again).status();
  if (again.is_runtime_number() || state.condition.is_runtime_number() ||
      (again.is_bool() && !again.as_bool())) {
    TP_ASSIGN_OR_RETURN(round.again,
                        NumberValue(again, context_, DType::kBool));
  }
  for (size_t i = 0; i < round.before.size(); ++i)
    TP_RETURN_IF_ERROR(round.trial.Leave(absl::StrCat(i), round.before[i],
                                         round.end.outputs[i + 1]));
  for (size_t i = 0; i < plan.containers.size(); ++i) {
    TP_ASSIGN_OR_RETURN(Frozen after,
                        TouchedIn(round.end, plan.containers[i], context_));
    // Its own identity is no sign that it is the same.
    Frozen before = round.containers[i];
    before.value = Rebuilt(before, {});
    if (round.containers[i].value.is_grown_list()) before = round.containers[i];
    after = AlignedTo(before, after);
    TP_RETURN_IF_ERROR(round.trial.Leave(ContainerPath(i), before, after));
  }
  for (size_t i = 0; i < plan.storages.size(); ++i) {
    TP_ASSIGN_OR_RETURN(round.trial.carried()[i].next,
                        WrittenIn(round.end, plan.storages[i], context_));
  }
  if (NoteEffects(round.end.trace, plan)) round.trial.set_changed();
  return absl::OkStatus();
}

absl::StatusOr<Values> GraphInterpreter::FinishLoop(LoopRound& round,
                                                    std::unique_ptr<Op> op) {
  std::vector<Value*> before;
  if (round.again != nullptr) round.body.results().push_back(round.again);
  for (LoopTrial::Carried& carried : round.trial.carried()) {
    before.push_back(carried.before);
    round.body.results().push_back(carried.next);
    carried.result = op->AddResult(round.trial.ResultType(carried));
  }
  op->AddOperandList(before);
  context_.builder.Insert(std::move(op));

  LoopPlan& plan = round.plan;
  for (size_t i = 0; i < plan.storages.size(); ++i)
    TP_RETURN_IF_ERROR(context_.aliases.SetWhole(
        plan.storages[i], round.trial.carried()[i].result));
  for (const auto& [storage, where] : plan.tainted)
    context_.aliases.Taint(storage, where);
  Values outputs;
  for (size_t i = 0; i < round.before.size(); ++i) {
    TP_ASSIGN_OR_RETURN(AbstractValue output,
                        round.trial.After(absl::StrCat(i), round.before[i],
                                          round.end.outputs[i + 1]));
    outputs.push_back(std::move(output));
  }
  for (size_t i = 0; i < plan.containers.size(); ++i) {
    TP_ASSIGN_OR_RETURN(Frozen after,
                        TouchedIn(round.end, plan.containers[i], context_));
    after = AlignedTo(round.containers[i], after);
    TP_ASSIGN_OR_RETURN(
        AbstractValue content,
        round.trial.After(ContainerPath(i), round.containers[i], after));
    SetContent(plan.containers[i], content, context_);
  }
  return outputs;
}

}  // namespace tp
