// Lists whose length depends on data, as one tensor of their stacked elements.
#ifndef TP_FRONTEND_GROWN_LIST_H_
#define TP_FRONTEND_GROWN_LIST_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// What the elements of a list have in common.
struct ElementType {
  TensorType type;
  bool numbers = false;
  friend bool operator==(const ElementType&, const ElementType&) = default;
};

// The element type, if the value may be an element.
std::optional<ElementType> ElementTypeOf(const AbstractValue& element);
// That of all elements; nothing where they differ or there are none.
std::optional<ElementType> ElementTypeOf(const ListValue& list);

// The content of the list as one tensor, made where the builder is; an empty
// list of `element`s.
absl::StatusOr<Value*> StackElements(const ListValue& list,
                                     const ElementType& element,
                                     ImportContext& context);

// An index that depends on data as an i64[1] that counts from the start.
absl::StatusOr<Value*> WrappedIndex(const AbstractValue& index,
                                    const SymExpr& size,
                                    ImportContext& context);

// Whether the list or an element of a list or tuple in it is grown.
bool HoldsGrownList(const AbstractValue& value);

// Ops on such lists, and on others by a number that depends on data: append,
// len, indexing, slicing, stack and cat. Nothing for an op that stores lists;
// kUnimplemented for one that would have to look at the elements.
absl::StatusOr<std::optional<std::vector<AbstractValue>>> EvaluateGrownListOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context);

}  // namespace tp

#endif  // TP_FRONTEND_GROWN_LIST_H_
