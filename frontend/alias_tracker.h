// Turns tensors that are written in place into SSA values.
//
// Every tensor is a storage and a chain of views of it. Reading a view whose
// storage was written since derives it again; writing to a view writes its
// storage through the inverse of each view:
//
//     k = q.chunk(3, -1)[1]     k: slice(q, -1, C, 2C)
//     t = k[:, 1:]              t: slice(k, 1, 1)
//     t += 1                    %t1 = add(%t0, 1)
//                               %k1 = slice_scatter(%k0, %t1, 1, 1)
//                               %q1 = slice_scatter(%q0, %k1, -1, C, 2C)
//
// and whoever reads q, k or any other view of q from here on sees %q1.
#ifndef TP_FRONTEND_ALIAS_TRACKER_H_
#define TP_FRONTEND_ALIAS_TRACKER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/branch_log.h"
#include "ir/builder.h"

namespace tp {

// The memory that tensors share.
struct TensorStorage {
  enum class Owner { kTemporary, kInput, kWeight };
  Owner owner = Owner::kTemporary;
  std::string name;  // of an input or weight
  // Why an input or weight cannot be written; empty: it can.
  std::string fixed;
  // Grows from storage to storage.
  int64_t serial = 0;
  // Of the last write, never the same twice; 0: not written. Views remember the
  // one they were derived at.
  int64_t version = 0;
  // Set once a write happened elsewhere that may or may not have changed
  // this: where, for the error when it is read.
  std::string tainted;
  // Storages that may share memory, decided by strides at run time, have a
  // common group; -1 for none.
  int group = -1;
};

// A view op, applied to the parent.
struct ViewStep {
  std::string op;  // "" for the parent itself
  std::vector<NamedAttribute> attributes;
  std::vector<Value*> operands = {};  // after the parent: an index
};

// One way of looking at a storage. Nodes never change except for the cache.
struct ViewNode : std::enable_shared_from_this<ViewNode> {
  std::shared_ptr<TensorStorage> storage;
  std::shared_ptr<ViewNode> parent;  // null: the whole storage
  ViewStep step;
  TensorType type;
  // The content as of `version`, null while `scalar` was not needed as a
  // tensor.
  Value* value = nullptr;
  int64_t version = 0;
  // The content of a 0-dim tensor where it is known (an int, float or bool).
  std::optional<Attribute> scalar;
  // Whether it is known to lie in memory in the order of its dims, without
  // gaps, whatever the sizes: what LibTorch calls contiguous.
  bool contiguous = false;
};

// What a variable of the program holds. In-place ops that change the shape
// (squeeze_) put another node in.
struct TensorHandle {
  std::shared_ptr<ViewNode> node;

  const TensorType& type() const { return node->type; }
};
using TensorRef = std::shared_ptr<TensorHandle>;

class AliasTracker {
 public:
  AliasTracker(Builder& builder, BranchLog& log)
      : builder_(builder), log_(log) {}

  // A tensor with memory of its own.
  TensorRef NewTensor(Value* value);
  // A 0-dim tensor with memory of its own and known content.
  TensorRef NewScalar(Attribute scalar, DType dtype);
  // An input or weight; `scalar` is its content where that is known, which
  // then cannot be written.
  TensorRef NewOwned(Value* argument, TensorStorage::Owner owner,
                     std::string name,
                     std::optional<Attribute> scalar = std::nullopt);
  // A view of `base`, whose content now is `value`.
  TensorRef NewView(const TensorRef& base, ViewStep step, Value* value);
  // Another variable for the same memory and shape.
  TensorRef NewAlias(const TensorRef& base);
  // A tensor that may share memory with `base`, or may be a copy.
  TensorRef NewMaybeAlias(const TensorRef& base, Value* value);

  // The content now. kUnimplemented if a write may or may not have changed
  // it.
  absl::StatusOr<Value*> Read(const TensorRef& tensor);
  // The content of a 0-dim tensor, if known.
  std::optional<Attribute> Scalar(const TensorRef& tensor) const;

  // Replaces the content by `value`, of the same type. kUnimplemented for
  // what cannot be written (TensorStorage::fixed) and for views without an
  // inverse.
  absl::Status Write(const TensorRef& tensor, Value* value);
  // Whether Write would be refused.
  absl::Status CheckWritable(const TensorRef& tensor) const;
  // The whole storage that the tensor is a view of.
  static std::shared_ptr<ViewNode> Whole(const TensorRef& tensor);
  absl::StatusOr<Value*> ReadWhole(const std::shared_ptr<ViewNode>& whole);
  // What control flow left in a storage, on whichever way it went.
  absl::Status SetWhole(const std::shared_ptr<ViewNode>& whole, Value* value);
  // Writes to one of them may show in the other.
  void Join(const TensorRef& a, const TensorRef& b);
  void Taint(const std::shared_ptr<TensorStorage>& storage,
             const std::string& where);
  // The number of the next storage.
  int64_t next_serial() const { return next_serial_; }

  // In-place op on the shape: `tensor` becomes a view of what it was.
  void Rebind(const TensorRef& tensor, ViewStep step, Value* value);

  // Inputs and weights that were written: the argument and its content now.
  struct Written {
    Value* argument;
    Value* content;
  };
  absl::StatusOr<std::vector<Written>> WrittenArguments();

 private:
  using NodeRef = std::shared_ptr<ViewNode>;
  absl::StatusOr<Value*> ReadNode(ViewNode& node);
  absl::Status WriteNode(ViewNode& node, Value* value);
  absl::StatusOr<Value*> Materialize(const ViewNode& node);
  absl::StatusOr<Value*> Apply(const ViewStep& step, Value* operand);
  // The parent's content with the part that `node` shows replaced.
  absl::StatusOr<Value*> Invert(const ViewNode& node, Value* parent,
                                Value* value);

  std::shared_ptr<TensorStorage> NewStorage();
  int GroupOf(const std::shared_ptr<TensorStorage>& storage);
  // Before a node's cache changes.
  void Log(ViewNode& node);

  Builder& builder_;
  BranchLog& log_;
  int64_t next_serial_ = 0;
  int64_t last_version_ = 0;
  std::vector<std::vector<std::shared_ptr<TensorStorage>>> groups_;
  std::vector<std::pair<Value*, NodeRef>> owned_;  // arguments
};

}  // namespace tp

#endif  // TP_FRONTEND_ALIAS_TRACKER_H_
