// The only way passes and the importer make ops.
#ifndef TP_IR_BUILDER_H_
#define TP_IR_BUILDER_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"

namespace tp {

// A tensor (or null for an absent one), or a list of tensors.
using OperandArg = std::variant<Value*, std::vector<Value*>>;

class Builder {
 public:
  // Appends to the block.
  Builder(Module& module, Block& block)
      : module_(module), block_(&block), position_(block.ops().end()) {}
  // Inserts before `position`.
  Builder(Module& module, Block& block, OpList::iterator position)
      : module_(module), block_(&block), position_(position) {}

  // Location given to the ops made from here on.
  void set_location(Location location) { location_ = std::move(location); }
  const Location& location() const { return location_; }

  // Makes an op; its result types come from the op table.
  absl::StatusOr<Op*> Create(std::string name, std::vector<OperandArg> operands,
                             std::vector<NamedAttribute> attributes = {});
  // As above with given result types.
  Op* CreateTyped(std::string name, std::vector<OperandArg> operands,
                  std::vector<NamedAttribute> attributes,
                  std::vector<TensorType> types);

  Module& module() { return module_; }
  Block& block() { return *block_; }
  // Goes on at the end of another block, of a region for instance.
  void MoveTo(Block& block) {
    block_ = &block;
    position_ = block.ops().end();
  }
  // Puts in an op that was made elsewhere, with its regions.
  Op* Insert(std::unique_ptr<Op> op) {
    return block_->Insert(position_, std::move(op));
  }

 private:
  std::unique_ptr<Op> Make(std::string name, std::vector<OperandArg> operands,
                           std::vector<NamedAttribute> attributes);
  Module& module_;
  Block* block_;
  OpList::iterator position_;
  Location location_;
};

}  // namespace tp

#endif  // TP_IR_BUILDER_H_
