#include "frontend/yaml_text.h"

#include <utility>

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/raw_ostream.h"

namespace tp {
namespace {

constexpr size_t kMaxShownLine = 200;

}  // namespace

YamlText::YamlText(llvm::StringRef text, std::string file)
    : file_(std::move(file)), stream_(text, sources_) {
  sources_.setDiagHandler(
      [](const llvm::SMDiagnostic& diagnostic, void* self) {
        static_cast<YamlText*>(self)->Keep(diagnostic);
      },
      this);
}

absl::Status YamlText::status() {
  if (!ok()) return absl::InvalidArgumentError(error_);
  if (stream_.failed())
    return absl::InvalidArgumentError(file_ + ": not valid YAML");
  return absl::OkStatus();
}

void YamlText::Fail(llvm::yaml::Node* node, const std::string& message) {
  if (ok()) stream_.printError(node, message);
}

std::string YamlText::Scalar(llvm::yaml::Node* node) {
  auto* scalar = llvm::dyn_cast_or_null<llvm::yaml::ScalarNode>(node);
  if (scalar == nullptr) {
    if (node != nullptr) Fail(node, "expected a single value");
    return "";
  }
  llvm::SmallString<64> storage;
  return scalar->getValue(storage).str();
}

int YamlText::LineOf(llvm::yaml::Node* node) {
  return static_cast<int>(
      sources_.getLineAndColumn(node->getSourceRange().Start).first);
}

void YamlText::Keep(const llvm::SMDiagnostic& diagnostic) {
  if (!ok()) return;
  llvm::raw_string_ostream out(error_);
  // A line longer than a screen would hide the message.
  const bool shown = diagnostic.getLineContents().size() <= kMaxShownLine;
  llvm::SMDiagnostic named(
      *diagnostic.getSourceMgr(), diagnostic.getLoc(), file_,
      diagnostic.getLineNo(), diagnostic.getColumnNo(), diagnostic.getKind(),
      diagnostic.getMessage(), shown ? diagnostic.getLineContents() : "", {});
  named.print(nullptr, out, /*ShowColors=*/false);
}

}  // namespace tp
