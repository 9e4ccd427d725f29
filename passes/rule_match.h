// Which rule of a user's config is for a name, and the spec it asks for.
#ifndef TP_PASSES_RULE_MATCH_H_
#define TP_PASSES_RULE_MATCH_H_

#include <regex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/type.h"
#include "ir/user_rules.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

namespace tp {

// The rules of one kind, with their patterns compiled.
class RuleMatcher {
 public:
  // kInvalidArgument where a pattern is no regular expression. `rules` must
  // outlive the matcher.
  static absl::StatusOr<RuleMatcher> Of(const UserRules& rules,
                                        UserRule::Of of);

  bool empty() const { return exact_.empty() && patterns_.empty(); }
  // The first rule for the name; null if there is none. Which rules match and
  // are first is remembered.
  const UserRule* First(const std::string& name);
  // All rules for the name, none of which hides another.
  std::vector<const UserRule*> All(const std::string& name);
  // An error for the first rule that is not optional and matched nothing, or
  // never first: `what` it should name ("weight"), of which these are known.
  absl::Status CheckUsed(const std::string& what,
                         llvm::ArrayRef<std::string> known) const;

 private:
  struct Pattern {
    int rule;
    std::regex regex;
  };
  struct State {
    const UserRule* rule;
    bool matched = false;  // a name
    bool used = false;     // as the first
  };

  // Indices into states_, ascending; they have matched.
  std::vector<int> Find(const std::string& name);

  std::vector<State> states_;
  llvm::StringMap<std::vector<int>> exact_;
  std::vector<Pattern> patterns_;
};

// "plan.yaml:12: rule "wte": <what>", kInvalidArgument.
absl::Status RuleError(const UserRule& rule, const std::string& what);

// What the rule asks of a tensor of that name and type, an axis each. `known`:
// placements that the program suggests, for chunk=auto.
absl::StatusOr<ShardingSpec> SpecOf(const UserRule& rule,
                                    const std::string& name,
                                    const TensorType& type, const Mesh& mesh,
                                    llvm::ArrayRef<Placement> known = {});
// Whether a state of the rule has chunk=auto.
bool HasAutoChunk(const UserRule& rule);
// The axis that a state without one is for: "tp", else the last that does not
// split the batch.
int DefaultAxis(const Mesh& mesh);

// "<S(1)>", "<S(0), R>": a spec as plans print it.
absl::StatusOr<ShardingSpec> ParseSpecText(const std::string& text,
                                           const TensorType& type,
                                           const Mesh& mesh);

}  // namespace tp

#endif  // TP_PASSES_RULE_MATCH_H_
