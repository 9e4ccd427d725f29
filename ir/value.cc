#include "ir/value.h"

#include "ir/status.h"
#include "ir/uses.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {

llvm::StringRef Op::base_name() const {
  llvm::StringRef name = name_;
  size_t first = name.find('.');
  if (first == llvm::StringRef::npos) return name;
  return name.substr(0, name.find('.', first + 1));
}

bool Op::Is(llvm::StringRef base_or_full_name) const {
  return base_or_full_name == name_ || base_or_full_name == base_name();
}

void Op::AddOperand(Value* value_or_null) {
  slots_.push_back({/*is_list=*/false, num_operands(), 1});
  operands_.push_back(value_or_null);
}

void Op::AddOperandList(llvm::ArrayRef<Value*> values) {
  slots_.push_back(
      {/*is_list=*/true, num_operands(), static_cast<int>(values.size())});
  operands_.append(values.begin(), values.end());
}

Value* Op::AddResult(TensorType type) {
  results_.push_back(
      std::make_unique<Value>(std::move(type), this, num_results()));
  return results_.back().get();
}

const Attribute* Op::attribute(llvm::StringRef name) const {
  for (const NamedAttribute& attribute : attributes_)
    if (name == attribute.name) return &attribute.value;
  return nullptr;
}

void Op::SetAttribute(llvm::StringRef name, Attribute value) {
  for (NamedAttribute& attribute : attributes_) {
    if (name == attribute.name) {
      attribute.value = std::move(value);
      return;
    }
  }
  attributes_.push_back({name.str(), std::move(value)});
}

void Op::RemoveAttribute(llvm::StringRef name) {
  llvm::erase_if(attributes_,
                 [&](const NamedAttribute& a) { return name == a.name; });
}

bool Op::BoolOr(llvm::StringRef name, bool otherwise) const {
  const Attribute* found = attribute(name);
  return found && found->is_bool() ? found->as_bool() : otherwise;
}

int64_t Op::IntOr(llvm::StringRef name, int64_t otherwise) const {
  const Attribute* found = attribute(name);
  return found ? found->AsConstantInt().value_or(otherwise) : otherwise;
}

double Op::FloatOr(llvm::StringRef name, double otherwise) const {
  const Attribute* found = attribute(name);
  return found ? found->AsNumber().value_or(otherwise) : otherwise;
}

void Op::RemoveResult(int index) {
  results_.erase(results_.begin() + index);
  for (int i = index; i < num_results(); ++i) results_[i]->set_index(i);
}

Block* Op::AddRegion() {
  regions_.push_back(std::make_unique<Block>());
  return regions_.back().get();
}

Op::~Op() = default;

Value* Block::AddArgument(TensorType type) {
  arguments_.push_back(std::make_unique<Value>(
      std::move(type), nullptr, static_cast<int>(arguments_.size())));
  return arguments_.back().get();
}

void Block::RemoveArgument(int index) {
  arguments_.erase(arguments_.begin() + index);
  for (int i = index; i < static_cast<int>(arguments_.size()); ++i)
    arguments_[i]->set_index(i);
}

Op* Block::Append(std::unique_ptr<Op> op) {
  return Insert(ops_.end(), std::move(op));
}

Op* Block::Insert(OpList::iterator position, std::unique_ptr<Op> op) {
  return ops_.insert(position, std::move(op))->get();
}

void ReplaceAllUses(Block& block, Value* from, Value* to) {
  ReplaceAllUses(block, {{from, to}});
}

void ReplaceAllUses(Block& block,
                    const llvm::DenseMap<Value*, Value*>& replacements) {
  auto replacement = [&](Value* value) {
    auto found = replacements.find(value);
    return found == replacements.end() ? value : found->second;
  };
  for (const std::unique_ptr<Op>& op : block.ops()) {
    for (int i = 0; i < op->num_operands(); ++i)
      op->set_operand(i, replacement(op->operand(i)));
    for (const std::unique_ptr<Block>& region : op->regions())
      ReplaceAllUses(*region, replacements);
  }
  for (Value*& result : block.results()) result = replacement(result);
}

bool HasEffects(const Op& op) {
  if (op.name() == "tp.raise") return true;
  bool any = false;
  for (const std::unique_ptr<Block>& region : op.regions())
    for (const std::unique_ptr<Op>& nested : region->ops())
      any = any || HasEffects(*nested);
  return any;
}

namespace {

// Users come after definitions, so one walk from the end sees every user of
// an op gone before the op itself.
int Sweep(Block& block, UseCounts& uses) {
  int erased = 0;
  for (auto it = block.ops().end(); it != block.ops().begin();) {
    --it;
    Op& op = **it;
    bool used =
        HasEffects(op) || (op.num_results() == 0 && op.regions().empty());
    for (int i = 0; i < op.num_results() && !used; ++i)
      used = uses.IsUsed(*op.result(i));
    if (used) {
      for (const std::unique_ptr<Block>& region : op.regions())
        erased += Sweep(*region, uses);
      continue;
    }
    uses.Remove(op);
    it = block.ops().erase(it);
    ++erased;
  }
  return erased;
}

}  // namespace

int EraseDeadOps(Block& block) {
  UseCounts uses(block);
  return Sweep(block, uses);
}

}  // namespace tp
