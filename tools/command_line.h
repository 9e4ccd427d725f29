// Flags of the tools: --name value, --name=value, --switch, and positional
// arguments, in any order; "--" ends the flags; and what every tool does with
// them first. Header-only, because every tool is one file.
#ifndef TP_TOOLS_COMMAND_LINE_H_
#define TP_TOOLS_COMMAND_LINE_H_

#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "ir/status.h"

namespace tp {

// What every tool understands, and its one positional argument.
struct CommonOptions {
  bool help = false;
  bool version = false;
  std::string positional;  // "" if it is not given

  // Whether the tool only has to say something about itself.
  bool answers() const { return help || version; }
};

// What a tool says of itself.
struct ToolText {
  const char* name;
  const char* usage;
  const char* version;
};

class CommandLine {
 public:
  // Each flag writes to its target when it is given.
  void Switch(const std::string& name, bool* target) {
    flags_[name] = {false, [target](const std::string&) {
                      *target = true;
                      return true;
                    }};
  }
  void String(const std::string& name, std::string* target) {
    Value(name, [target](const std::string& text) {
      *target = text;
      return true;
    });
  }
  // A value that may be left out: only a word with that ending is one.
  void OptionalString(const std::string& name, const std::string& ending,
                      bool* given, std::string* target) {
    flags_[name] = {true,
                    [given, target](const std::string& text) {
                      *given = true;
                      *target = text;
                      return true;
                    },
                    ending};
  }
  // May be given several times.
  void Strings(const std::string& name, std::vector<std::string>* target) {
    Value(name, [target](const std::string& text) {
      target->push_back(text);
      return true;
    });
  }
  void Int(const std::string& name, int* target) {
    Value(name, [target](const std::string& text) {
      return absl::SimpleAtoi(text, target);
    });
  }
  void Double(const std::string& name, double* target) {
    Value(name, [target](const std::string& text) {
      return absl::SimpleAtod(text, target);
    });
  }
  // "60s", "1m30s"; a bare number is seconds.
  void Duration(const std::string& name, absl::Duration* target) {
    Value(name, [target](const std::string& text) {
      double seconds = 0;
      if (absl::SimpleAtod(text, &seconds)) {
        *target = absl::Seconds(seconds);
        return seconds > 0;
      }
      return absl::ParseDuration(text, target) &&
             *target > absl::ZeroDuration();
    });
  }

  // An error is a usage error and names the flag.
  absl::Status Parse(int argc, char** argv,
                     std::vector<std::string>& positional) const {
    bool flags = true;
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (flags && argument == "--") {
        flags = false;
        continue;
      }
      if (!flags || argument.size() < 2 || argument[0] != '-') {
        positional.push_back(argument);
        continue;
      }
      const size_t equal = argument.find('=');
      const std::string name = argument.substr(0, equal);
      auto flag = flags_.find(name);
      if (flag == flags_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("unknown flag ", name, "; see --help"));
      }
      std::string value;
      if (flag->second.takes_value) {
        if (equal != std::string::npos) {
          value = argument.substr(equal + 1);
        } else if (!flag->second.ending.empty() &&
                   (i + 1 == argc ||
                    !absl::EndsWith(argv[i + 1], flag->second.ending))) {
          // left out
        } else if (i + 1 < argc) {
          value = argv[++i];
        } else {
          return absl::InvalidArgumentError(
              absl::StrCat(name, " needs a value"));
        }
      } else if (equal != std::string::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, " takes no value"));
      }
      if (!flag->second.set(value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", value, "' is no value for ", name));
      }
    }
    return absl::OkStatus();
  }

  // As Parse, with --help and --version, for a tool that takes one positional
  // argument, which errors call `what`. It has to be there if it is
  // `required` and the tool does not just answer.
  absl::Status ParseCommon(int argc, char** argv, const std::string& what,
                           bool required, CommonOptions& common) {
    Switch("--help", &common.help);
    Switch("--version", &common.version);
    std::vector<std::string> positional;
    TP_RETURN_IF_ERROR(Parse(argc, argv, positional));
    if (common.answers()) return absl::OkStatus();
    if (positional.size() > 1 || (required && positional.empty()))
      return absl::InvalidArgumentError(absl::StrCat(
          "give exactly one ", what, positional.empty() ? "" : ", not ",
          absl::StrJoin(positional, " and ")));
    if (!positional.empty()) common.positional = positional[0];
    return absl::OkStatus();
  }

 private:
  struct Flag {
    bool takes_value = true;
    std::function<bool(const std::string&)> set;
    std::string ending = {};  // of a value that may be left out
  };
  void Value(const std::string& name,
             std::function<bool(const std::string&)> set) {
    flags_[name] = {true, std::move(set)};
  }

  std::map<std::string, Flag> flags_;
};

inline int Fail(const ToolText& tool, const absl::Status& status) {
  std::cerr << tool.name << ": " << status.message() << "\n";
  return static_cast<int>(ExitCodeOf(status));
}

inline int UsageError(const ToolText& tool, const absl::Status& status) {
  std::cerr << tool.name << ": " << status.message() << "\nTry " << tool.name
            << " --help.\n";
  return static_cast<int>(ExitCode::kUsage);
}

// The exit code of a tool whose command line is wrong (`status`), or asks for
// its usage or version; nothing where it has work to do.
inline std::optional<int> AnswerCommon(const ToolText& tool,
                                       const absl::Status& status,
                                       const CommonOptions& common) {
  if (!status.ok()) return UsageError(tool, status);
  if (common.help) std::cout << tool.usage;
  if (common.version && !common.help)
    std::cout << tool.name << " " << tool.version << "\n";
  if (!common.answers()) return std::nullopt;
  return 0;
}

}  // namespace tp

#endif  // TP_TOOLS_COMMAND_LINE_H_
