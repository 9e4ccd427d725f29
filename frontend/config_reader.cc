#include "frontend/config_reader.h"

#include "absl/strings/str_cat.h"
#include "ir/file_digest.h"
#include "ir/status.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include "llvm/Support/raw_ostream.h"

namespace tp {
namespace {

namespace yaml = llvm::yaml;

constexpr size_t kMaxShownLine = 200;

class ConfigParser {
 public:
  ConfigParser(llvm::StringRef text, std::string file)
      : file_(std::move(file)), stream_(text, sources_) {
    sources_.setDiagHandler(
        [](const llvm::SMDiagnostic& diagnostic, void* self) {
          static_cast<ConfigParser*>(self)->Keep(diagnostic);
        },
        this);
  }

  absl::StatusOr<UserRules> Parse() {
    auto document = stream_.begin();
    if (document == stream_.end()) return Finish();
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
        ReadRules(entry.getValue());
      } else if (key == "values" || key == "mesh" || key == "tp_plan") {
        entry.skip();
      } else if (ok()) {
        Fail(entry.getKey(),
             absl::StrCat("unknown key \"", key,
                          "\"; known are rules, weights, values, mesh"));
      }
      if (!ok()) break;
    }
    return Finish();
  }

 private:
  bool ok() const { return error_.empty(); }

  void Keep(const llvm::SMDiagnostic& diagnostic) {
    if (!ok()) return;
    llvm::raw_string_ostream out(error_);
    // A line longer than a screen would hide the message.
    const bool shown = diagnostic.getLineContents().size() <= kMaxShownLine;
    llvm::SMDiagnostic named(*diagnostic.getSourceMgr(), diagnostic.getLoc(),
                             file_, diagnostic.getLineNo(),
                             diagnostic.getColumnNo(), diagnostic.getKind(),
                             diagnostic.getMessage(),
                             shown ? diagnostic.getLineContents() : "", {});
    named.print(nullptr, out, /*ShowColors=*/false);
  }

  void Fail(yaml::Node* node, const std::string& message) {
    if (ok()) stream_.printError(node, message);
  }

  absl::StatusOr<UserRules> Finish() {
    if (!ok()) return absl::InvalidArgumentError(error_);
    if (stream_.failed())
      return absl::InvalidArgumentError(file_ + ": not valid YAML");
    return std::move(rules_);
  }

  std::string Text(yaml::Node* node) {
    auto* scalar = llvm::dyn_cast_or_null<yaml::ScalarNode>(node);
    if (scalar == nullptr) {
      if (node != nullptr) Fail(node, "expected a single value");
      return "";
    }
    llvm::SmallString<64> storage;
    return scalar->getValue(storage).str();
  }

  void ReadRules(yaml::Node* node) {
    if (llvm::isa_and_nonnull<yaml::NullNode>(node)) return;
    auto* list = llvm::dyn_cast_or_null<yaml::SequenceNode>(node);
    if (list == nullptr) {
      if (node != nullptr) Fail(node, "expected a list of rules");
      return;
    }
    for (yaml::Node& item : *list) {
      ReadRule(&item);
      if (!ok()) return;
    }
  }

  int LineOf(yaml::Node* node) {
    return static_cast<int>(
        sources_.getLineAndColumn(node->getSourceRange().Start).first);
  }

  void ReadRule(yaml::Node* node) {
    auto* map = llvm::dyn_cast<yaml::MappingNode>(node);
    if (map == nullptr) return Fail(node, "a rule is a mapping");
    UserRule rule;
    rule.source = absl::StrCat(file_, ":", LineOf(node));
    bool has_name = false;
    bool has_state = false;
    for (yaml::KeyValueNode& entry : *map) {
      const std::string key = Text(entry.getKey());
      yaml::Node* value_node = entry.getValue();
      const std::string value = Text(value_node);
      if (!ok()) return;
      if (key == "search" || key == "name") {
        if (has_name) Fail(entry.getKey(), "a rule has one search or name");
        has_name = true;
        rule.pattern = value;
        rule.exact = key == "name";
      } else if (key == "state") {
        has_state = true;
        ReadState(value_node, value, rule);
      } else if (key == "optional") {
        if (value != "true" && value != "false")
          Fail(value_node, "expected true or false");
        rule.optional = value == "true";
      } else if (key != "type" && key != "why") {
        Fail(entry.getKey(),
             absl::StrCat("unknown key \"", key,
                          "\"; a rule has search or name, state, optional"));
      }
      if (!ok()) return;
    }
    if (!has_name) return Fail(node, "a rule needs \"search\" or \"name\"");
    if (!has_state)
      return Fail(node, "a rule needs \"state\": split D, split D chunk=K, "
                        "split D groups=G chunk=K, or replicate");
    rules_.push_back(std::move(rule));
  }

  void ReadState(yaml::Node* node, llvm::StringRef state, UserRule& rule) {
    llvm::SmallVector<llvm::StringRef, 4> words;
    state.split(words, ' ', -1, /*KeepEmpty=*/false);
    const auto fail = [&] {
      Fail(node, absl::StrCat("\"", state.str(),
                              "\" is no state; write split D, split D "
                              "chunk=K, split D groups=G chunk=K, or "
                              "replicate"));
    };
    if (words.empty()) return fail();
    if (words[0] == "replicate" && words.size() == 1) return;
    rule.action = UserRule::Action::kSplit;
    if (words[0] != "split" || words.size() < 2 ||
        words[1].getAsInteger(10, rule.dim))
      return fail();
    for (llvm::StringRef word : llvm::ArrayRef(words).drop_front(2)) {
      auto [key, number] = word.split('=');
      int64_t* target = key == "chunk"    ? &rule.chunk
                        : key == "groups" ? &rule.groups
                                          : nullptr;
      if (target == nullptr || number.getAsInteger(10, *target) ||
          *target < 1)
        return fail();
    }
  }

  std::string file_;
  std::string error_;
  llvm::SourceMgr sources_;
  yaml::Stream stream_;
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
