#include "frontend/config_reader.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "frontend/yaml_text.h"
#include "ir/file_digest.h"
#include "ir/status.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/YAMLParser.h"

namespace tp {
namespace {

namespace yaml = llvm::yaml;

constexpr char kStates[] =
    "split D, split D chunk=K, split D groups=G chunk=K (K may be auto), "
    "replicate, or (of a weight, when training) zero3";

class ConfigParser {
 public:
  ConfigParser(llvm::StringRef text, const std::string& file)
      : text_(text, file) {
    rules_.file = file;
  }

  absl::StatusOr<UserRules> Parse() {
    auto document = text_.stream().begin();
    if (document == text_.stream().end()) return Finish();
    yaml::Node* root = document->getRoot();
    if (root == nullptr || llvm::isa<yaml::NullNode>(root)) return Finish();
    auto* map = llvm::dyn_cast<yaml::MappingNode>(root);
    if (map == nullptr) {
      Fail(root, "a plan is a mapping with \"rules\" or \"weights\"");
      return Finish();
    }
    for (yaml::KeyValueNode& entry : *map) {
      const std::string key = Text(entry.getKey());
      if (key == "rules" || key == "weights") {
        ReadRules(entry.getValue(), &ConfigParser::ReadRule);
      } else if (key == "values") {
        ReadRules(entry.getValue(), &ConfigParser::ReadValue);
      } else if (key == "mesh") {
        rules_.mesh = Text(entry.getValue());
      } else if (key == "search") {
        ReadSearch(entry.getValue());
      } else if (key == "fingerprint") {
        rules_.fingerprint = Text(entry.getValue());
      } else if (key == "tp_plan") {
        if (const std::string version = Text(entry.getValue());
            ok() && version != "2")
          Fail(entry.getValue(),
               absl::StrCat("a plan of version ", version,
                            "; this tp-compile reads version 2: compile the "
                            "model again, or take out tp_plan and values"));
      } else if (ok()) {
        Fail(entry.getKey(),
             absl::StrCat("unknown key \"", key,
                          "\"; known are rules, weights, values, mesh, "
                          "fingerprint"));
      }
      if (!ok()) break;
    }
    return Finish();
  }

 private:
  bool ok() const { return text_.ok(); }
  void Fail(yaml::Node* node, const std::string& message) {
    text_.Fail(node, message);
  }
  std::string Text(yaml::Node* node) { return text_.Scalar(node); }
  std::string SourceOf(yaml::Node* node) {
    return absl::StrCat(text_.file(), ":", text_.LineOf(node));
  }

  absl::StatusOr<UserRules> Finish() {
    TP_RETURN_IF_ERROR(text_.status());
    return std::move(rules_);
  }

  using ReadOne = void (ConfigParser::*)(yaml::Node*);

  void ReadRules(yaml::Node* node, ReadOne read) {
    if (llvm::isa_and_nonnull<yaml::NullNode>(node)) return;
    auto* list = llvm::dyn_cast_or_null<yaml::SequenceNode>(node);
    if (list == nullptr) {
      if (node != nullptr) Fail(node, "expected a list of rules");
      return;
    }
    for (yaml::Node& item : *list) {
      (this->*read)(&item);
      if (!ok()) return;
    }
  }

  // search: {optimal: true, gap: 0}
  void ReadSearch(yaml::Node* node) {
    auto* map = llvm::dyn_cast_or_null<yaml::MappingNode>(node);
    if (map == nullptr)
      return Fail(node, "expected {optimal: true or false, gap: G}");
    SearchReport report;
    for (yaml::KeyValueNode& entry : *map) {
      const std::string key = Text(entry.getKey());
      const std::string value = Text(entry.getValue());
      if (!ok()) return;
      if (key == "optimal")
        report.optimal = value == "true";
      else if (key != "gap" || !absl::SimpleAtod(value, &report.gap))
        Fail(entry.getKey(), "expected optimal and gap, a number");
    }
    rules_.search = report;
  }

  // A line of a plan: how an op leaves its result.
  void ReadValue(yaml::Node* node) {
    auto* map = llvm::dyn_cast<yaml::MappingNode>(node);
    if (map == nullptr) return Fail(node, "a value is a mapping");
    UserRule rule;
    rule.source = SourceOf(node);
    rule.of = UserRule::Of::kProduced;
    rule.exact = true;
    for (yaml::KeyValueNode& entry : *map) {
      const std::string key = Text(entry.getKey());
      const std::string value = Text(entry.getValue());
      if (!ok()) return;
      if (key == "name") {
        rule.pattern = value;
      } else if (key == "placement") {
        rule.placement = value;
      } else if (key == "type") {
        rule.type = value;
      } else if (key != "where") {
        Fail(entry.getKey(),
             absl::StrCat("unknown key \"", key,
                          "\"; a value has name, placement, type, where"));
      }
      if (!ok()) return;
    }
    if (rule.pattern.empty() || rule.placement.empty())
      return Fail(node, "a value needs \"name\" and \"placement\"");
    rules_.push_back(std::move(rule));
  }

  void ReadRule(yaml::Node* node) {
    auto* map = llvm::dyn_cast<yaml::MappingNode>(node);
    if (map == nullptr) return Fail(node, "a rule is a mapping");
    UserRule rule;
    rule.source = SourceOf(node);
    bool has_name = false;
    bool has_state = false;
    for (yaml::KeyValueNode& entry : *map) {
      const std::string key = Text(entry.getKey());
      yaml::Node* value_node = entry.getValue();
      if (key == "state") {
        has_state = true;
        if (auto* axes = llvm::dyn_cast_or_null<yaml::MappingNode>(value_node))
          ReadAxes(axes, rule);
        else
          ReadState(value_node, Text(value_node), rule);
        if (!ok()) return;
        continue;
      }
      const std::string value = Text(value_node);
      if (!ok()) return;
      if (key == "search" || key == "name" || key == "glob") {
        if (has_name)
          Fail(entry.getKey(), "a rule has one of search, name, glob");
        has_name = true;
        rule.pattern = value;
        rule.exact = key == "name";
        rule.glob = key == "glob";
      } else if (key == "of") {
        ReadOf(value_node, value, rule);
      } else if (key == "position") {
        if (llvm::StringRef(value).getAsInteger(10, rule.position) ||
            rule.position < 0)
          Fail(value_node, "expected a position, counted from 0");
      } else if (key == "optional") {
        if (value != "true" && value != "false")
          Fail(value_node, "expected true or false");
        rule.optional = value == "true";
      } else if (key == "type") {
        rule.type = value;
      } else if (key != "why") {
        Fail(entry.getKey(),
             absl::StrCat("unknown key \"", key,
                          "\"; a rule has search, name or glob, of, position, "
                          "state, optional"));
      }
      if (!ok()) return;
    }
    if (!has_name)
      return Fail(node, "a rule needs \"search\", \"name\" or \"glob\"");
    if (!has_state)
      return Fail(node, absl::StrCat("a rule needs \"state\": ", kStates));
    if (rule.of != UserRule::Of::kWeight &&
        rule.action == UserRule::Action::kZero3)
      return Fail(node, "zero3 is a state of weights");
    if (rule.position >= 0 && rule.of != UserRule::Of::kInput &&
        rule.of != UserRule::Of::kOutput)
      return Fail(node, "\"position\" is for rules of: input or output");
    rules_.push_back(std::move(rule));
  }

  void ReadOf(yaml::Node* node, const std::string& text, UserRule& rule) {
    if (text == "weight") {
      rule.of = UserRule::Of::kWeight;
    } else if (text == "input") {
      rule.of = UserRule::Of::kInput;
    } else if (text == "output") {
      rule.of = UserRule::Of::kOutput;
    } else if (text == "value") {
      rule.of = UserRule::Of::kValue;
    } else {
      Fail(node, absl::StrCat("\"", text,
                              "\" is not what a rule is of; write weight, "
                              "input, output or value"));
    }
  }

  // state: {dp: replicate, tp: split 1}
  void ReadAxes(yaml::MappingNode* axes, UserRule& rule) {
    for (yaml::KeyValueNode& entry : *axes) {
      UserRule::AxisState axis;
      axis.axis = Text(entry.getKey());
      for (const UserRule::AxisState& other : rule.axes)
        if (other.axis == axis.axis)
          Fail(entry.getKey(),
               absl::StrCat("axis \"", axis.axis, "\" has a state already"));
      const std::string text = Text(entry.getValue());
      if (!ok()) return;
      ReadState(entry.getValue(), text, axis.state);
      if (axis.state.action == UserRule::Action::kZero3)
        Fail(entry.getValue(),
             "zero3 is the state of a whole weight, not of one axis");
      if (!ok()) return;
      rule.axes.push_back(std::move(axis));
    }
    if (rule.axes.empty()) Fail(axes, "expected axis: state");
  }

  void ReadState(yaml::Node* node, llvm::StringRef text, RuleState& state) {
    llvm::SmallVector<llvm::StringRef, 4> words;
    text.split(words, ' ', -1, /*KeepEmpty=*/false);
    const auto fail = [&] {
      Fail(node,
           absl::StrCat("\"", text.str(), "\" is no state; write ", kStates));
    };
    if (words.empty()) return fail();
    if (words[0] == "replicate" && words.size() == 1) return;
    if (words[0] == "zero3" && words.size() == 1) {
      state.action = UserRule::Action::kZero3;
      return;
    }
    state.action = UserRule::Action::kSplit;
    if (words[0] != "split" || words.size() < 2 ||
        words[1].getAsInteger(10, state.dim))
      return fail();
    for (llvm::StringRef word : llvm::ArrayRef(words).drop_front(2)) {
      auto [key, number] = word.split('=');
      int64_t* target = key == "chunk"    ? &state.chunk
                        : key == "groups" ? &state.groups
                                          : nullptr;
      if (key == "chunk" && number == "auto") {
        state.chunk = kAutoChunk;
        continue;
      }
      if (target == nullptr || number.getAsInteger(10, *target) || *target < 1)
        return fail();
    }
  }

  YamlText text_;
  UserRules rules_;
};

}  // namespace

absl::StatusOr<UserRules> ParseConfig(llvm::StringRef text,
                                      const std::string& file) {
  return ConfigParser(text, file).Parse();
}

absl::StatusOr<UserRules> ReadConfig(const std::string& path) {
  TP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  return ParseConfig(text, path);
}

}  // namespace tp
