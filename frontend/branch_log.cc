#include "frontend/branch_log.h"

#include <algorithm>

#include "frontend/alias_tracker.h"
#include "frontend/weight_table.h"

namespace tp {
namespace {

const void* Identity(const AbstractValue& container) {
  if (container.is_list()) return container.as_list().get();
  if (container.is_dict()) return container.as_dict().get();
  if (container.is_object()) return container.as_object().get();
  return nullptr;
}

}  // namespace

void BranchLog::RollBack(size_t mark) {
  traces_.pop_back();
  while (undo_.size() > mark) {
    undo_.back()();
    undo_.pop_back();
  }
}

void BranchLog::OnUndo(std::function<void()> undo) {
  if (open()) undo_.push_back(std::move(undo));
}

void BranchLog::Touch(const AbstractValue& container) {
  if (!open()) return;
  if (container.is_list()) {
    undo_.push_back([list = container.as_list(), saved = *container.as_list()] {
      *list = saved;
    });
  } else if (container.is_dict()) {
    undo_.push_back([dict = container.as_dict(), saved = *container.as_dict()] {
      *dict = saved;
    });
  } else if (container.is_object()) {
    undo_.push_back([object = container.as_object(),
                     saved = container.as_object()->attributes] {
      object->attributes = saved;
    });
  }
  for (BranchTrace* trace : traces_) {
    if (!trace->existing.contains(Identity(container))) continue;
    const bool known =
        std::any_of(trace->touched.begin(), trace->touched.end(),
                    [&](const AbstractValue& other) {
                      return Identity(other) == Identity(container);
                    });
    if (!known) trace->touched.push_back(container);
  }
}

void BranchLog::Wrote(const std::shared_ptr<ViewNode>& whole) {
  for (BranchTrace* trace : traces_) {
    if (whole->storage->serial >= trace->first_serial) continue;
    const bool known = std::any_of(
        trace->written.begin(), trace->written.end(),
        [&](const auto& other) { return other->storage == whole->storage; });
    if (!known) trace->written.push_back(whole);
  }
}

void BranchLog::Tainted(const std::shared_ptr<TensorStorage>& storage,
                        const std::string& where) {
  for (BranchTrace* trace : traces_) {
    if (storage->serial < trace->first_serial)
      trace->tainted.push_back({storage, where});
  }
}

void CollectContainers(const AbstractValue& value,
                       llvm::DenseSet<const void*>& found) {
  if (const void* identity = Identity(value)) {
    if (!found.insert(identity).second) return;
  }
  if (const auto* items = value.items()) {
    for (const AbstractValue& item : *items) CollectContainers(item, found);
  } else if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict()->entries)
      CollectContainers(item, found);
  } else if (value.is_object()) {
    for (const auto& [name, item] : value.as_object()->attributes)
      CollectContainers(item, found);
  }
}

}  // namespace tp
