#include "frontend/tensor_parallel_config.h"

#include "absl/strings/str_cat.h"
#include "ir/file_digest.h"
#include "ir/json_nesting.h"
#include "ir/status.h"
#include "ir/value_names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace tp {
namespace {

using llvm::json::Object;

class Reader {
 public:
  Reader(const std::string& file, std::vector<std::string>& notes)
      : file_(file), notes_(notes) {}

  absl::StatusOr<UserRules> Read(llvm::StringRef text) {
    if (NestedTooDeep(text, /*limit=*/8))
      return Error("nested too deep for a config of tensor_parallel");
    llvm::Expected<llvm::json::Value> root = llvm::json::parse(text);
    if (!root) return Error(llvm::toString(root.takeError()));
    const Object* maps = root->getAsObject();
    if (maps == nullptr)
      return Error(
          "expected an object with state_rules, input_rules, "
          "output_rules");
    // Weights first, whatever the order of the text.
    for (const auto& [key, value] : *maps) {
      if (!llvm::is_contained(Keys(), key.str()))
        return Error(
            absl::StrCat("unknown key \"", key.str(),
                         "\"; near names: ", NearNames(key.str(), Keys())));
      if (value.getAsObject() == nullptr)
        return Error(absl::StrCat("\"", key.str(),
                                  "\" must be an object from regular "
                                  "expressions to actions"));
    }
    if (const Object* states = maps->getObject("state_rules"))
      TP_RETURN_IF_ERROR(ReadStates(*states, text));
    if (const Object* outputs = maps->getObject("output_rules"))
      TP_RETURN_IF_ERROR(ReadModules(*outputs, UserRule::Of::kOutput, text));
    if (const Object* inputs = maps->getObject("input_rules"))
      TP_RETURN_IF_ERROR(ReadModules(*inputs, UserRule::Of::kInput, text));
    if (const Object* attributes = maps->getObject("attr_rules"))
      if (!attributes->empty())
        notes_.push_back(absl::StrCat(
            file_,
            ": attr_rules are not needed: sizes in the program follow "
            "from how its values are split"));
    rules_.file = file_;
    return std::move(rules_);
  }

 private:
  static std::vector<std::string> Keys() {
    return {"state_rules", "input_rules", "output_rules", "attr_rules"};
  }

  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": ", what));
  }

  // Entries in the order of the text, which decides between rules; LLVM's
  // objects have none.
  static std::vector<std::pair<std::string, const llvm::json::Value*>> InOrder(
      const Object& object, llvm::StringRef text) {
    std::vector<std::pair<std::string, const llvm::json::Value*>> entries;
    for (const auto& [key, value] : object)
      entries.push_back({key.str(), &value});
    const auto place = [&](const std::string& key) {
      return text.find(llvm::formatv("{0}", llvm::json::Value(key)).str());
    };
    llvm::sort(entries, [&](const auto& a, const auto& b) {
      const size_t first = place(a.first);
      const size_t second = place(b.first);
      return first != second ? first < second : a.first < b.first;
    });
    return entries;
  }

  UserRule RuleFor(const std::string& pattern, UserRule::Of of) const {
    UserRule rule;
    rule.of = of;
    rule.pattern = pattern;
    rule.optional = true;
    rule.source = file_;
    return rule;
  }

  absl::Status NoAction(const std::string& pattern, const std::string& action) {
    return Error(absl::StrCat(
        "\"", pattern, "\": \"", action, "\" is no action here; near names: ",
        NearNames(action, {"split 0", "gather -1", "sum", "scale"}),
        ". Functions have no string form: write such rules for --config, "
        "which has chunk=K and groups=G"));
  }

  // Whether the action is a state of this compiler, and which. `scale` is
  // none, and is noted.
  absl::StatusOr<bool> ReadAction(const std::string& pattern,
                                  const llvm::json::Value& value,
                                  RuleState& state) {
    const auto text = value.getAsString();
    if (!text) return NoAction(pattern, llvm::formatv("{0}", value).str());
    const auto [verb, number] = text->trim().split(' ');
    if (verb == "sum" && number.empty()) return true;
    if (verb == "scale" && number.empty()) {
      notes_.push_back(absl::StrCat(file_, ": \"", pattern,
                                    "\": scale is dropped: a bias is added "
                                    "once, behind the sum"));
      return false;
    }
    int dim = -1;
    if (verb == "gather" && (number.empty() || !number.getAsInteger(10, dim)))
      return true;
    if (verb != "split" || number.getAsInteger(10, state.dim))
      return NoAction(pattern, text->str());
    state.action = RuleState::Action::kSplit;
    return true;
  }

  absl::Status ReadStates(const Object& states, llvm::StringRef text) {
    for (const auto& [pattern, action] : InOrder(states, text)) {
      UserRule rule = RuleFor(pattern, UserRule::Of::kWeight);
      TP_ASSIGN_OR_RETURN(const bool is_state,
                          ReadAction(pattern, *action, rule));
      if (is_state || llvm::StringRef(action->getAsString().value_or(""))
                          .starts_with("scale"))
        rules_.push_back(std::move(rule));  // of `scale`: whole
    }
    return absl::OkStatus();
  }

  absl::Status ReadModules(const Object& modules, UserRule::Of of,
                           llvm::StringRef text) {
    for (const auto& [pattern, value] : InOrder(modules, text)) {
      const Object* places = value->getAsObject();
      if (places == nullptr)
        return Error(absl::StrCat("\"", pattern,
                                  "\": expected positions and actions, as in "
                                  "{\"0\": \"sum\"}"));
      for (const auto& [place, action] : InOrder(*places, text)) {
        UserRule rule = RuleFor(pattern, of);
        if (llvm::StringRef(place).getAsInteger(10, rule.position) ||
            rule.position < 0) {
          notes_.push_back(absl::StrCat(
              file_, ": \"", pattern, "\": \"", place,
              "\" is left out: a program knows inputs and outputs of modules "
              "by position only"));
          continue;
        }
        TP_ASSIGN_OR_RETURN(const bool is_state,
                            ReadAction(pattern, *action, rule));
        if (is_state) rules_.push_back(std::move(rule));
      }
    }
    return absl::OkStatus();
  }

  const std::string& file_;
  std::vector<std::string>& notes_;
  UserRules rules_;
};

}  // namespace

absl::StatusOr<UserRules> ParseTensorParallelConfig(
    llvm::StringRef text, const std::string& file,
    std::vector<std::string>& notes) {
  return Reader(file, notes).Read(text);
}

absl::StatusOr<UserRules> ReadTensorParallelConfig(
    const std::string& path, std::vector<std::string>& notes) {
  TP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  return ParseTensorParallelConfig(text, path, notes);
}

}  // namespace tp
