// How often values are used.
#ifndef TP_IR_USES_H_
#define TP_IR_USES_H_

#include "ir/value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tp {

// Uses in a function's body: by ops, by what it returns and its regions yield,
// and by sizes. A size that depends on data is known by the value that has it
// as a dim, a result of a region op: an attribute with that size uses it.
class UseCounts {
 public:
  explicit UseCounts(const Block& body);

  bool IsUsed(const Value& value) const;
  // As an operand, returned or yielded.
  int Direct(const Value* value) const { return uses_.lookup(value); }
  // An op is going to be erased, with its regions.
  void Remove(const Op& op) { Add(op, -1); }

 private:
  void Add(const Op& op, int delta);
  void Add(const Block& block, int delta);
  void Add(const Attribute& attribute, int delta);

  llvm::DenseMap<const Value*, int> uses_;
  llvm::StringMap<int> sizes_;   // symbols in attributes
  llvm::StringSet<> arguments_;  // symbols that arguments have as dims
};

}  // namespace tp

#endif  // TP_IR_USES_H_
