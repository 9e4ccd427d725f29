#include "ir/module.h"

#include "ir/status.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {

Value* Function::AddArgument(TensorType type, ArgumentInfo info) {
  Value* value = body_.AddArgument(std::move(type));
  value->set_name(info.name);
  arguments_.push_back(std::move(info));
  return value;
}

void Function::RemoveArgument(int index) {
  TP_CHECK(!IsCarried(index), "removes an argument that a result becomes");
  body_.RemoveArgument(index);
  arguments_.erase(arguments_.begin() + index);
  for (ResultInfo& info : result_infos_)
    if (info.argument > index) --info.argument;
}

void Function::AddResult(Value* value, ResultInfo info) {
  body_.results().push_back(value);
  SetResultInfo(body_.results().size() - 1, info);
}

void Function::SetResultInfo(size_t index, ResultInfo info) {
  if (index >= result_infos_.size()) result_infos_.resize(index + 1);
  result_infos_[index] = info;
}

void Function::SetOnlyOutput(Value* value) {
  llvm::SmallVector<Value*, 4> results = {value};
  std::vector<ResultInfo> infos(1);
  for (size_t i = 0; i < body_.results().size(); ++i) {
    ResultInfo info = result_info(i);
    if (info.argument < 0) continue;
    info.is_output = false;
    results.push_back(body_.results()[i]);
    infos.push_back(info);
  }
  body_.results() = std::move(results);
  result_infos_ = std::move(infos);
}

int Function::FindInput(llvm::StringRef name) const {
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (!arguments_[i].is_weight() && arguments_[i].name == name)
      return static_cast<int>(i);
  return -1;
}

bool Function::IsCarried(int argument) const {
  return arguments_[argument].fed ||
         llvm::any_of(result_infos_, [&](const ResultInfo& info) {
           return info.argument == argument;
         });
}

Function* Module::AddFunction(std::string name) {
  functions_.push_back(std::make_unique<Function>(std::move(name)));
  return functions_.back().get();
}

Function* Module::function(llvm::StringRef name) const {
  for (const std::unique_ptr<Function>& function : functions_)
    if (name == function->name()) return function.get();
  return nullptr;
}

namespace {

// Copies of values by original; null stays null.
using CopyMap = llvm::DenseMap<const Value*, Value*>;

void CopyValue(const Value& from, Value* to, CopyMap& copies) {
  to->set_spec(ShardingSpec(from.spec().begin(), from.spec().end()));
  to->set_name(from.name());
  copies[&from] = to;
}

void CloneOps(const Block& from, Block& to, CopyMap& copies);

std::unique_ptr<Op> CloneOp(const Op& from, CopyMap& copies) {
  auto op = std::make_unique<Op>(from.name(), from.location());
  for (const OperandSlot& slot : from.slots()) {
    llvm::SmallVector<Value*, 4> operands;
    for (const Value* operand : from.operands().slice(slot.begin, slot.size))
      operands.push_back(copies.lookup(operand));
    if (slot.is_list)
      op->AddOperandList(operands);
    else
      op->AddOperand(operands[0]);
  }
  for (const NamedAttribute& attribute : from.attributes())
    op->SetAttribute(attribute.name, attribute.value);
  for (const std::unique_ptr<Block>& region : from.regions()) {
    Block* copy = op->AddRegion();
    for (const std::unique_ptr<Value>& argument : region->arguments())
      CopyValue(*argument, copy->AddArgument(argument->type()), copies);
    CloneOps(*region, *copy, copies);
  }
  for (int i = 0; i < from.num_results(); ++i)
    CopyValue(*from.result(i), op->AddResult(from.result(i)->type()), copies);
  return op;
}

void CloneOps(const Block& from, Block& to, CopyMap& copies) {
  for (const std::unique_ptr<Op>& op : from.ops())
    to.Append(CloneOp(*op, copies));
  for (const Value* result : from.results())
    to.results().push_back(copies.lookup(result));
}

}  // namespace

std::unique_ptr<Module> CloneModule(const Module& module) {
  auto clone = std::make_unique<Module>();
  clone->set_mesh(module.mesh());
  if (module.rank()) clone->set_rank(*module.rank());
  clone->assumptions() = module.assumptions();
  for (const std::unique_ptr<Function>& from : module.functions()) {
    Function* function = clone->AddFunction(from->name());
    CopyMap copies;
    for (size_t i = 0; i < from->arguments().size(); ++i) {
      const Value& argument = *from->body().arguments()[i];
      CopyValue(argument,
                function->AddArgument(argument.type(), from->arguments()[i]),
                copies);
    }
    CloneOps(from->body(), function->body(), copies);
    for (size_t i = 0; i < from->body().results().size(); ++i)
      function->SetResultInfo(i, from->result_info(i));
  }
  return clone;
}

}  // namespace tp
