// The user's rules: a partial plan, as the config reader produced it.
#ifndef TP_IR_USER_RULES_H_
#define TP_IR_USER_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/search_report.h"

namespace tp {

// A chunk as large as the program knows any of the dim: a head, or all heads
// that share keys and values.
inline constexpr int64_t kAutoChunk = 0;

// How a tensor is to lie on one axis.
struct RuleState {
  // kZero3, of weights: computed with whole on every rank, as kReplicate, but
  // sharded at rest when training.
  enum class Action { kReplicate, kSplit, kZero3 };

  Action action = Action::kReplicate;
  int dim = 0;        // kSplit; negative counts from the end
  int64_t chunk = 1;  // whole chunks of so many indices move; kAutoChunk: heads
  int64_t groups = 1;  // the dim holds so many blocks, each split alike
};

// One rule states how what it names is to lie. It can change speed and memory,
// never a result. Of several that match a name the first counts.
struct UserRule : RuleState {
  enum class Of {
    kWeight,    // at rest
    kInput,     // of the modules it names, as they see it
    kOutput,    // of the modules it names, as others see it
    kValue,     // as all its users see it
    kProduced,  // as the op itself leaves it: a line of a plan
  };
  struct AxisState {
    std::string axis;
    RuleState state;
  };

  // What the name is compared with: a regular expression that is searched for,
  // or a whole name (`exact`), or a whole name in which * stands for one
  // component of it and ** for any number (`glob`).
  std::string pattern;
  bool exact = false;
  bool glob = false;
  Of of = Of::kWeight;
  // Of kInput and kOutput: which one, counted from 0; -1: all.
  int position = -1;

  // States by axis; the axes not named replicate. Empty: the state of the rule
  // itself is that of the axis that splits weights.
  std::vector<AxisState> axes;
  // Of kProduced: the spec as plans print it, "<S(1)>".
  std::string placement;
  // The type that a plan was made for; "": any.
  std::string type;
  // Whether matching nothing is fine.
  bool optional = false;
  std::string source;  // "plan.yaml:12", for messages
};

// Rules in order, and what a plan that tp-compile wrote was made for.
class UserRules : public std::vector<UserRule> {
 public:
  using std::vector<UserRule>::vector;

  std::string fingerprint;  // see PlanFingerprint; "" in a user's own file
  std::string mesh;         // "[tp: 2]"
  std::string file;
  std::optional<SearchReport> search;  // of a plan
};

}  // namespace tp

#endif  // TP_IR_USER_RULES_H_
