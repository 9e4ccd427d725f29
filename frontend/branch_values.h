// Values at the end of a branch, and what they are after the branches meet.
#ifndef TP_FRONTEND_BRANCH_VALUES_H_
#define TP_FRONTEND_BRANCH_VALUES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"

namespace tp {

// A value with the content that it and all that it holds have at one place of
// the program. Contents change with the state of the import; this does not.
struct Frozen {
  AbstractValue value;
  // Of a tensor, a number that depends on data, a list of unknown length.
  Value* content = nullptr;
  std::string unreadable;           // why a tensor has no content
  std::vector<AbstractValue> keys;  // of a dict
  std::vector<std::string> names;   // of an object
  std::vector<Frozen> items;        // of containers
};

// Reads the value here; ops that this takes are made where the builder is.
absl::StatusOr<Frozen> Freeze(const AbstractValue& value,
                              ImportContext& context);

// The same of a container that changed; of a module, too, whose attributes are
// not looked at otherwise.
absl::StatusOr<Frozen> FreezeContainer(const AbstractValue& container,
                                       ImportContext& context);
// The frozen object with the attributes of `like` only: a module's are there
// once they were read. Others as they are.
Frozen AlignedTo(const Frozen& like, const Frozen& object);

// The type of something that is `a` or `b`: sizes that differ become one that
// depends on data. Nothing where dtypes or numbers of dims differ.
std::optional<TensorType> CommonType(const TensorType& a, const TensorType& b,
                                     ImportContext& context);

// Whether both are the same whichever way the program went: equal scalars, the
// same tensor, the same container.
bool SameValue(const Frozen& a, const Frozen& b);

// A tensor of zeros, made where the builder is.
absl::StatusOr<Value*> Zeros(const TensorType& type, ImportContext& context);

// Joins the values of the two branches of a tp.if, which become its results.
class BranchMerger {
 public:
  // `op` has its two regions and is not in a block yet.
  BranchMerger(Op& op, Value* condition, ImportContext& context)
      : op_(op), condition_(condition), context_(context) {}

  // What the value is after the op. What cannot be joined is unknown.
  absl::StatusOr<AbstractValue> Merge(const Frozen& yes, const Frozen& no);
  // What a container that both branches share holds after the op.
  absl::Status MergeInto(const AbstractValue& container, const Frozen& yes,
                         const Frozen& no);
  // A result for contents of the two branches.
  Value* Result(Value* yes, Value* no, TensorType type);
  absl::StatusOr<Value*> MergeContents(Value* yes, Value* no);

 private:
  absl::StatusOr<AbstractValue> MergeNumbers(const Frozen& yes,
                                             const Frozen& no);
  absl::StatusOr<AbstractValue> MergeTensors(const Frozen& yes,
                                             const Frozen& no);
  absl::StatusOr<AbstractValue> MergeLists(const Frozen& yes, const Frozen& no);
  absl::StatusOr<std::vector<AbstractValue>> MergeItems(const Frozen& yes,
                                                        const Frozen& no);
  absl::StatusOr<std::shared_ptr<ListValue>> MergeGrown(const Frozen& yes,
                                                        const Frozen& no);
  // What stands for a value that `branch` never sets.
  absl::StatusOr<Frozen> Fill(const Frozen& like, int branch);
  AbstractValue Unknown(const std::string& why) const;
  // Runs `make` with the builder at the end of a region.
  template <typename Make>
  auto In(int branch, const Make& make);

  Op& op_;
  Value* const condition_;
  ImportContext& context_;
  std::map<std::pair<Value*, Value*>, Value*> results_;
  std::map<std::pair<const void*, const void*>, AbstractValue> merged_;
};

}  // namespace tp

#endif  // TP_FRONTEND_BRANCH_VALUES_H_
