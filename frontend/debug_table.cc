#include "frontend/debug_table.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/DenseMap.h"

namespace tp {
namespace {

using Kind = PickleValue::Kind;

constexpr char kStringTableFormat[] = "FORMAT_WITH_STRING_TABLE";
// Text of one source, which LibTorch joins to show a line of it.
constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

bool IsTuple(const PickleValue& value, size_t size) {
  return value.kind == Kind::kTuple && value.items.size() == size;
}

class Checker {
 public:
  // `strings` is the tuple of the table's strings, or null in the old format,
  // where each source holds its text.
  explicit Checker(const PickleValue* strings) : strings_(strings) {}

  // Item: (offset in the code, range, tag); range: (source, start, end).
  bool Item(const PickleValue& item) {
    if (item.kind != Kind::kTuple || item.items.size() < 2) return false;
    if (item.items[0]->kind != Kind::kInt || !IsTuple(*item.items[1], 3))
      return false;
    const PickleValue& start = *item.items[1]->items[1];
    const PickleValue& end = *item.items[1]->items[2];
    if (start.kind != Kind::kInt || end.kind != Kind::kInt) return false;
    const int64_t size = TextBytes(*item.items[1]->items[0]);
    // Some true ranges end behind their text; LibTorch cuts those.
    return 0 <= start.integer && start.integer <= size &&
           start.integer <= end.integer && end.integer <= kMaxTextBytes;
  }

 private:
  bool IsString(const PickleValue& index) const {
    return index.kind == Kind::kInt && index.integer >= 0 &&
           static_cast<uint64_t>(index.integer) < strings_->items.size();
  }

  // Bytes of a source's text, or -1 if it is malformed. Sources are shared by
  // many ranges, so each is looked at once.
  int64_t TextBytes(const PickleValue& source) {
    auto [it, is_new] = known_.try_emplace(&source, -1);
    if (is_new) it->second = Measure(source);
    return it->second;
  }

  // Source: (text, file name, first line), text and name as indices of
  // strings.
  int64_t Measure(const PickleValue& source) const {
    if (!IsTuple(source, 3) || source.items[2]->kind != Kind::kInt) return -1;
    const PickleValue& text = *source.items[0];
    const PickleValue& file = *source.items[1];
    if (strings_ == nullptr) {
      if (file.kind != Kind::kString && file.kind != Kind::kNone) return -1;
      return text.kind == Kind::kString ? static_cast<int64_t>(text.text.size())
                                        : -1;
    }
    if (text.kind != Kind::kList || !IsString(file)) return -1;
    int64_t total = 0;
    for (const PickleValue* piece : text.items) {
      if (!IsString(*piece)) return -1;
      total += static_cast<int64_t>(
          strings_->items[static_cast<size_t>(piece->integer)]->text.size());
      if (total > kMaxTextBytes) return -1;
    }
    return total;
  }

  const PickleValue* strings_;
  llvm::DenseMap<const PickleValue*, int64_t> known_;
};

bool IsSound(const PickleValue& root) {
  const PickleValue* strings = nullptr;
  const PickleValue* ranges = &root;
  if (IsTuple(root, 3) && root.items[0]->kind == Kind::kString) {
    if (root.items[0]->text != kStringTableFormat) return false;
    strings = root.items[1];
    ranges = root.items[2];
    if (strings->kind != Kind::kTuple) return false;
    for (const PickleValue* text : strings->items)
      if (text->kind != Kind::kString) return false;
  }
  if (ranges->kind != Kind::kTuple) return false;
  Checker checker(strings);
  for (const PickleValue* item : ranges->items)
    if (!checker.Item(*item)) return false;
  return true;
}

}  // namespace

absl::Status CheckDebugTable(const PickleValue& root, llvm::StringRef name) {
  if (IsSound(root)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name.str(),
                   ": the table of source lines is malformed; "
                   "save the model anew with torch.jit.save"));
}

}  // namespace tp
