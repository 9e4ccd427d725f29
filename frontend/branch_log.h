// Remembers what the import of a branch changed, so that it can be taken back:
// the branches of an `if` that is decided at run time are both imported, each
// from the state before it, and the body of a loop as often as it takes to
// find out what it changes.
#ifndef TP_FRONTEND_BRANCH_LOG_H_
#define TP_FRONTEND_BRANCH_LOG_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/abstract_value.h"
#include "llvm/ADT/DenseSet.h"

namespace tp {

struct TensorStorage;  // frontend/alias_tracker.h
struct ViewNode;

// What one branch did to things that were there before it.
struct BranchTrace {
  // Storages of a smaller number were there before.
  int64_t first_serial = 0;
  // Lists, dicts and objects that were there before.
  llvm::DenseSet<const void*> existing;

  std::vector<std::shared_ptr<ViewNode>> written;  // whole storages, each once
  // Storages that may or may not have been written, and where.
  std::vector<std::pair<std::shared_ptr<TensorStorage>, std::string>> tainted;
  std::vector<AbstractValue> touched;  // containers, each once
};

class BranchLog {
 public:
  // Whether a branch is being imported.
  bool open() const { return !traces_.empty(); }
  void Begin(BranchTrace* trace) { traces_.push_back(trace); }
  // Ends the branch begun last and takes back all it changed.
  void RollBack(size_t mark);
  size_t mark() const { return undo_.size(); }

  // Before a change, while a branch is imported: how to take it back.
  void OnUndo(std::function<void()> undo);
  // Before the content of a list, dict or object changes.
  void Touch(const AbstractValue& container);
  void Wrote(const std::shared_ptr<ViewNode>& whole);
  void Tainted(const std::shared_ptr<TensorStorage>& storage,
               const std::string& where);

 private:
  std::vector<BranchTrace*> traces_;  // outermost first
  std::vector<std::function<void()>> undo_;
};

// Adds the lists, dicts and objects in the value to `found`.
void CollectContainers(const AbstractValue& value,
                       llvm::DenseSet<const void*>& found);

}  // namespace tp

#endif  // TP_FRONTEND_BRANCH_LOG_H_
