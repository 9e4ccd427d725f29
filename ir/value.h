// Values, ops and blocks: an SSA graph whose values are tensors.
#ifndef TP_IR_VALUE_H_
#define TP_IR_VALUE_H_

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "ir/attribute.h"
#include "ir/location.h"
#include "ir/placement.h"
#include "ir/type.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

class Op;
class Block;
struct OpDef;

// A tensor: an argument of a block or a result of an op. Owned by either.
class Value {
 public:
  Value(TensorType type, Op* op, int index)
      : type_(std::move(type)), op_(op), index_(index) {}
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  const TensorType& type() const { return type_; }
  void set_type(TensorType type) { type_ = std::move(type); }
  // Empty while nothing is decided; else one placement per mesh axis.
  llvm::ArrayRef<Placement> spec() const { return spec_; }
  void set_spec(ShardingSpec spec) { spec_ = std::move(spec); }

  // The op it is a result of, null for a block argument.
  Op* op() const { return op_; }
  // Which result or argument it is.
  int index() const { return index_; }
  void set_index(int index) { index_ = index; }  // for Block only
  // Preferred name in text ("x" prints as %x); empty: numbered.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

 private:
  TensorType type_;
  ShardingSpec spec_;
  Op* op_;
  int index_;
  std::string name_;
};

// One argument slot of an op: a tensor, an absent optional tensor (null), or
// a list of tensors (some of which may be absent). In text: %x, none,
// [%a, none, %b].
struct OperandSlot {
  bool is_list = false;
  int begin = 0;  // range in operands()
  int size = 1;
};

// An operation. Tensor arguments are operands, in schema order; all others
// are attributes by schema name, left out where they equal the schema's
// default. Names are "<namespace>.<op>[.<overload>]": aten.add.Tensor,
// aten.linear, tp.all_reduce.
class Op {
 public:
  Op(std::string name, Location location)
      : name_(std::move(name)), location_(std::move(location)) {}
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  const std::string& name() const { return name_; }
  // Without the overload: "aten.add".
  llvm::StringRef base_name() const;
  bool Is(llvm::StringRef base_or_full_name) const;

  // All operands flattened over slots; absent ones are null.
  llvm::ArrayRef<Value*> operands() const { return operands_; }
  Value* operand(int index) const { return operands_[index]; }
  int num_operands() const { return static_cast<int>(operands_.size()); }
  void set_operand(int index, Value* value) { operands_[index] = value; }
  llvm::ArrayRef<OperandSlot> slots() const { return slots_; }
  void AddOperand(Value* value_or_null);
  void AddOperandList(llvm::ArrayRef<Value*> values);
  // Operand if the index exists, else null.
  Value* operand_or_null(int index) const {
    return index < num_operands() ? operands_[index] : nullptr;
  }

  int num_results() const { return static_cast<int>(results_.size()); }
  Value* result(int index = 0) const { return results_[index].get(); }
  Value* AddResult(TensorType type);
  // Removes a result without uses and renumbers the rest.
  void RemoveResult(int index);

  // Attributes in insertion order (the schema's order for imported ops).
  const std::vector<NamedAttribute>& attributes() const { return attributes_; }
  // Null if there is none of that name.
  const Attribute* attribute(llvm::StringRef name) const;
  void SetAttribute(llvm::StringRef name, Attribute value);
  void RemoveAttribute(llvm::StringRef name);
  // Typed access with the schema's default.
  bool BoolOr(llvm::StringRef name, bool otherwise) const;
  int64_t IntOr(llvm::StringRef name, int64_t otherwise) const;
  double FloatOr(llvm::StringRef name, double otherwise) const;

  // Regions of if and loop ops.
  const std::vector<std::unique_ptr<Block>>& regions() const {
    return regions_;
  }
  Block* AddRegion();

  const Location& location() const { return location_; }
  void set_location(Location location) { location_ = std::move(location); }

  ~Op();

 private:
  std::string name_;
  llvm::SmallVector<Value*, 4> operands_;
  llvm::SmallVector<OperandSlot, 4> slots_;
  llvm::SmallVector<std::unique_ptr<Value>, 1> results_;
  std::vector<NamedAttribute> attributes_;
  std::vector<std::unique_ptr<Block>> regions_;
  Location location_;
};

using OpList = std::list<std::unique_ptr<Op>>;

// A list of ops with arguments and the values it yields.
class Block {
 public:
  Value* AddArgument(TensorType type);
  const std::vector<std::unique_ptr<Value>>& arguments() const {
    return arguments_;
  }
  // Removes an argument without uses and renumbers the rest.
  void RemoveArgument(int index);

  OpList& ops() { return ops_; }
  const OpList& ops() const { return ops_; }
  Op* Append(std::unique_ptr<Op> op);
  // Inserts before `position`.
  Op* Insert(OpList::iterator position, std::unique_ptr<Op> op);

  // What the block returns (of a function) or yields (of a region).
  llvm::SmallVector<Value*, 4>& results() { return results_; }
  llvm::ArrayRef<Value*> results() const { return results_; }

 private:
  std::vector<std::unique_ptr<Value>> arguments_;
  OpList ops_;
  llvm::SmallVector<Value*, 4> results_;
};

// Whether running the op does more than give results: it may end the run
// (tp.raise), or an op of its regions may.
bool HasEffects(const Op& op);

// Calls `visit` for every op of the block in program order, an op before those
// of its regions.
template <typename Visit>
void ForEachOp(const Block& block, const Visit& visit) {
  for (const std::unique_ptr<Op>& op : block.ops()) {
    visit(*op);
    for (const std::unique_ptr<Block>& region : op->regions())
      ForEachOp(*region, visit);
  }
}

// Replaces every use of `from` in the block, nested regions and results.
void ReplaceAllUses(Block& block, Value* from, Value* to);
// Many at once, in one walk. Replacements are not themselves replaced.
void ReplaceAllUses(Block& block,
                    const llvm::DenseMap<Value*, Value*>& replacements);
// Erases ops whose results nobody uses; one with effects, or that is no region
// op and has no results, stays. Returns how many went.
int EraseDeadOps(Block& block);

}  // namespace tp

#endif  // TP_IR_VALUE_H_
