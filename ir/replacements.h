// Replacements of values, applied in one walk instead of one walk each.
#ifndef TP_IR_REPLACEMENTS_H_
#define TP_IR_REPLACEMENTS_H_

#include "ir/value.h"
#include "llvm/ADT/DenseMap.h"

namespace tp {

class Replacements {
 public:
  void Set(Value* from, Value* to) { map_[from] = Get(to); }
  // What stands for the value now.
  Value* Get(Value* value) const {
    auto it = map_.find(value);
    return it == map_.end() ? value : it->second;
  }
  void ApplyTo(Op& op) const {
    for (int i = 0; i < op.num_operands(); ++i)
      if (op.operand(i) != nullptr) op.set_operand(i, Get(op.operand(i)));
  }
  void ApplyToResults(Block& block) const {
    for (Value*& result : block.results()) result = Get(result);
  }

 private:
  llvm::DenseMap<Value*, Value*> map_;
};

}  // namespace tp

#endif  // TP_IR_REPLACEMENTS_H_
