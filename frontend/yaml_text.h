// What readers of YAML share: errors with file, line, column and a caret.
#ifndef TP_FRONTEND_YAML_TEXT_H_
#define TP_FRONTEND_YAML_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

namespace tp {

// A stream over a text. The first error is kept; later ones follow from it.
class YamlText {
 public:
  YamlText(llvm::StringRef text, std::string file);

  const std::string& file() const { return file_; }
  llvm::yaml::Stream& stream() { return stream_; }
  bool ok() const { return error_.empty(); }
  // kInvalidArgument with the first error, if there is one.
  absl::Status status();

  void Fail(llvm::yaml::Node* node, const std::string& message);
  // The text of a scalar; fails and gives "" for anything else.
  std::string Scalar(llvm::yaml::Node* node);
  int LineOf(llvm::yaml::Node* node);

 private:
  void Keep(const llvm::SMDiagnostic& diagnostic);

  std::string file_;
  std::string error_;
  llvm::SourceMgr sources_;
  llvm::yaml::Stream stream_;
};

}  // namespace tp

#endif  // TP_FRONTEND_YAML_TEXT_H_
