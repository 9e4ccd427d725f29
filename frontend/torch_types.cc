#include "frontend/torch_types.h"

#include <torch/csrc/jit/frontend/source_range.h>

#include <tuple>

#include "llvm/ADT/StringRef.h"

namespace tp {
namespace {

struct Pair {
  c10::ScalarType torch;
  DType ours;
};
constexpr Pair kPairs[] = {
    {c10::ScalarType::Float, DType::kF32},
    {c10::ScalarType::Double, DType::kF64},
    {c10::ScalarType::Half, DType::kF16},
    {c10::ScalarType::BFloat16, DType::kBF16},
    {c10::ScalarType::Long, DType::kI64},
    {c10::ScalarType::Int, DType::kI32},
    {c10::ScalarType::Short, DType::kI16},
    {c10::ScalarType::Char, DType::kI8},
    {c10::ScalarType::Byte, DType::kU8},
    {c10::ScalarType::Bool, DType::kBool},
};

// Where packages lie differs between machines; programs should not.
std::string ShortFileName(llvm::StringRef file) {
  for (llvm::StringRef folder : {"site-packages/", "dist-packages/"}) {
    const size_t at = file.rfind(folder);
    if (at != llvm::StringRef::npos)
      return file.substr(at + folder.size()).str();
  }
  const size_t slash = file.rfind('/');
  return file.substr(slash == llvm::StringRef::npos ? 0 : slash + 1).str();
}

// Tracing keeps the Python stack as the source's text, a "file(line): function"
// per frame, innermost first. The first frame of the user's own code says more
// than one of torch's wrappers.
struct Frame {
  std::string file;
  int line = 0;
};

bool IsTorchFile(llvm::StringRef file) {
  return file.contains("-packages/torch/");
}

std::optional<Frame> UserFrame(const torch::jit::SourceRange& range) {
  if (range.source() == nullptr) return std::nullopt;
  const std::string text = range.source()->text_str().str();
  llvm::StringRef rest = text;
  while (!rest.empty()) {
    auto [line, after] = rest.split('\n');
    rest = after;
    const size_t close = line.find("): ");
    const size_t open = line.rfind('(', close);
    int number = 0;
    if (close == llvm::StringRef::npos || open == llvm::StringRef::npos ||
        line.slice(open + 1, close).getAsInteger(10, number))
      return std::nullopt;
    const llvm::StringRef file = line.take_front(open);
    if (!IsTorchFile(file)) return Frame{file.str(), number};
  }
  return std::nullopt;
}

}  // namespace

std::optional<DType> FromScalarType(c10::ScalarType type) {
  for (const Pair& pair : kPairs)
    if (pair.torch == type) return pair.ours;
  return std::nullopt;
}

c10::ScalarType ToScalarType(DType dtype) {
  for (const Pair& pair : kPairs)
    if (pair.ours == dtype) return pair.torch;
  return c10::ScalarType::Undefined;
}

std::optional<DType> FromScalarTypeCode(int64_t code) {
  if (code < 0 || code >= static_cast<int64_t>(c10::ScalarType::NumOptions))
    return std::nullopt;
  return FromScalarType(static_cast<c10::ScalarType>(code));
}

int64_t ToScalarTypeCode(DType dtype) {
  return static_cast<int64_t>(ToScalarType(dtype));
}

Location LocationOf(const torch::jit::Node& node, std::string module_path) {
  Location location;
  location.module_path = std::move(module_path);
  torch::jit::SourceRange range = node.sourceRange();
  if (auto original = range.findSourceRangeThatGenerated()) range = *original;
  if (auto place = range.file_line_col()) {
    auto [file, line, column] = *place;
    if (IsTorchFile(file)) {
      if (std::optional<Frame> frame = UserFrame(range)) {
        file = frame->file;
        line = static_cast<size_t>(frame->line);
        column = 0;
      }
    }
    location.file = ShortFileName(file);
    if (!location.file.empty()) {
      location.line = static_cast<int>(line);
      location.column = static_cast<int>(column);
    }
  }
  return location;
}

}  // namespace tp
