// The user's rules: a partial plan, as the config reader produced it.
#ifndef TP_IR_USER_RULES_H_
#define TP_IR_USER_RULES_H_

#include <string>
#include <vector>

namespace tp {

// One rule pins the placement at rest of the weights it names. Of several
// that match one weight the first counts.
struct UserRule {
  enum class Action { kReplicate, kSplit };

  // A regular expression searched for in every name of a weight (dots are
  // not special when `exact`, which compares whole names).
  std::string pattern;
  bool exact = false;

  Action action = Action::kReplicate;
  int dim = 0;        // kSplit; negative counts from the end
  int64_t chunk = 1;  // whole chunks of so many indices move
  int64_t groups = 1; // the dim holds so many blocks, each split alike
  // Whether matching no weight is fine.
  bool optional = false;
  std::string source;  // "plan.yaml:12", for messages
};

using UserRules = std::vector<UserRule>;

}  // namespace tp

#endif  // TP_IR_USER_RULES_H_
