// What the body of a loop changes from round to round.
//
// Before a loop whose end depends on data is known to change a value, that
// value counts as the same in every round: a known number stays known inside,
// a None stays None. The body is imported under this assumption; what it
// contradicts becomes a carried value of the loop, and the body is imported
// again, until nothing is contradicted.
//
//     n, h = 0, x                 round 1: n = 0, h = x
//     while n < limit:              after it n = 1, h = f(x): both are carried
//         n, h = n + 1, f(h)      round 2: n, h carried; nothing else changes
#ifndef TP_FRONTEND_LOOP_PLAN_H_
#define TP_FRONTEND_LOOP_PLAN_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/branch_values.h"

namespace tp {

// A value that changes. Values are named by paths: "0.2" is element 2 of what
// the loop carries first, "c1" the second container that its body changes.
struct LoopSlot {
  enum class Kind { kNumber, kTensor, kGrown, kUnknown };
  Kind kind = Kind::kTensor;
  TensorType type;
  std::vector<bool> fresh;  // dims that change from round to round
  bool numbers = false;     // elements of a grown list
  std::string reason;       // of kUnknown
};

struct LoopPlan {
  std::map<std::string, LoopSlot> slots;
  // Tuples and lists that are set in the loop only: what they look like.
  std::map<std::string, Frozen> shapes;
  std::vector<std::shared_ptr<ViewNode>> storages;  // written
  std::vector<AbstractValue> containers;            // changed
  std::vector<std::pair<std::shared_ptr<TensorStorage>, std::string>> tainted;
  // Tensors that a carried one may be after a round.
  std::vector<std::pair<std::string, TensorRef>> joins;

  bool HasBelow(const std::string& path) const;
};

// A container like the frozen one with other elements.
AbstractValue Rebuilt(const Frozen& like, std::vector<AbstractValue> items);

// One import of the body.
class LoopTrial {
 public:
  // `body` is the region of an op that is in no block yet.
  LoopTrial(LoopPlan& plan, Block& body, ImportContext& context)
      : plan_(plan),
        body_(body),
        context_(context),
        first_serial_(context.aliases.next_serial()) {}

  // What the value is in the body. Called with the builder outside of the
  // loop, in front of it.
  absl::StatusOr<AbstractValue> Enter(const std::string& path,
                                      const Frozen& before);
  // Compares with what a round makes of it; the builder is in the body.
  absl::Status Leave(const std::string& path, const Frozen& before,
                     const Frozen& after);
  // What the value is after the loop, once results are set.
  absl::StatusOr<AbstractValue> After(const std::string& path,
                                      const Frozen& before,
                                      const Frozen& after);

  // A storage that the body writes: carried under the path "".
  absl::Status EnterStorage(const std::shared_ptr<ViewNode>& storage);

  // A value that goes around.
  struct Carried {
    std::string path;  // "" for a storage
    Value* before = nullptr;
    Value* argument = nullptr;
    Value* next = nullptr;
    Value* result = nullptr;
    TensorRef tensor;  // in the body
    int64_t version = 0;
  };
  std::vector<Carried>& carried() { return carried_; }
  // Whether the plan has changed, so that the body is to be imported again.
  bool changed() const { return changed_; }
  void set_changed() { changed_ = true; }
  // The type of a carried value after the loop.
  TensorType ResultType(const Carried& carried);

 private:
  Carried* Find(const std::string& path);
  absl::Status LeaveSlot(const std::string& path, LoopSlot& slot,
                         const Frozen& after);
  absl::Status AddSlot(const std::string& path, const Frozen& before,
                       const Frozen& after);
  void AddUnknown(const std::string& path, const std::string& why);
  void AddTensorSlot(const std::string& path, LoopSlot slot,
                     const TensorType& before, const TensorType& after);
  void FitDims(LoopSlot& slot, const TensorType& given);
  void NoteJoin(const std::string& path, const Frozen& after);
  absl::StatusOr<Value*> ValueOf(const LoopSlot& slot, const Frozen& frozen);

  LoopPlan& plan_;
  Block& body_;
  ImportContext& context_;
  const int64_t first_serial_;  // of a storage made in the loop
  std::vector<Carried> carried_;
  bool changed_ = false;
};

}  // namespace tp

#endif  // TP_FRONTEND_LOOP_PLAN_H_
