#include "ir/generate_info.h"

#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/file_digest.h"
#include "ir/json_nesting.h"
#include "ir/status.h"

namespace tp {
namespace {

namespace json = llvm::json;

constexpr int64_t kVersion = 1;
constexpr int kMaxNesting = 8;

absl::Status Bad(llvm::StringRef what) {
  return absl::InvalidArgumentError(what.str());
}

// A token id or a length.
absl::StatusOr<int64_t> NumberOf(const json::Object& object,
                                 llvm::StringRef field) {
  const json::Value* value = object.get(field);
  if (value == nullptr || value->kind() == json::Value::Null) return -1;
  const std::optional<int64_t> number = value->getAsInteger();
  if (!number || *number < 0 || *number > std::numeric_limits<int32_t>::max())
    return Bad(absl::StrCat("'", field.str(), "' is no number from 0 on"));
  return *number;
}

// One number or a list of them.
absl::StatusOr<std::vector<int64_t>> NumbersOf(const json::Object& object,
                                               llvm::StringRef field) {
  std::vector<int64_t> numbers;
  const json::Value* value = object.get(field);
  if (value == nullptr || value->kind() == json::Value::Null) return numbers;
  const json::Array* list = value->getAsArray();
  const size_t count = list == nullptr ? 1 : list->size();
  for (size_t i = 0; i < count; ++i) {
    json::Object one{{"n", list == nullptr ? *value : (*list)[i]}};
    absl::StatusOr<int64_t> number = NumberOf(one, "n");
    if (!number.ok() || *number < 0)
      return Bad(absl::StrCat("'", field.str(), "' is no list of token ids"));
    numbers.push_back(*number);
  }
  return numbers;
}

absl::StatusOr<GenerateEntry> EntryOf(const json::Value& value) {
  const json::Object* object = value.getAsObject();
  GenerateEntry entry;
  if (object != nullptr) {
    entry.name = object->getString("name").value_or("").str();
    entry.file = object->getString("file").value_or("").str();
    if (const json::Array* inputs = object->getArray("inputs"))
      for (const json::Value& input : *inputs)
        entry.inputs.push_back(input.getAsString().value_or("").str());
  }
  if (entry.name.empty() || entry.file.empty() || entry.inputs.empty())
    return Bad("an entry of 'entries' needs 'name', 'file' and 'inputs'");
  return entry;
}

}  // namespace

json::Object GenerateInfo::ToJson() const {
  json::Object root{{"tp_generate", kVersion}, {"model", model}};
  const auto number = [&](const char* field, int64_t value) {
    if (value >= 0) root[field] = value;
  };
  number("bos", bos);
  number("pad", pad);
  number("max_length", max_length);
  root["eos"] = json::Array(eos);
  root["decoder_start"] = json::Array(decoder_start);
  return root;
}

absl::StatusOr<GenerateInfo> ParseGenerateInfo(const json::Object& object) {
  if (object.getInteger("tp_generate") != std::optional<int64_t>(kVersion))
    return Bad(absl::StrCat("'tp_generate' is not ", kVersion,
                            ": not a file that tp_export.py --generate of "
                            "this version writes"));
  GenerateInfo info;
  info.model = object.getString("model").value_or("").str();
  if (const json::Array* entries = object.getArray("entries")) {
    for (const json::Value& value : *entries) {
      TP_ASSIGN_OR_RETURN(GenerateEntry entry, EntryOf(value));
      info.entries.push_back(std::move(entry));
    }
  }
  if (const json::Array* caches = object.getArray("caches")) {
    for (const json::Value& value : *caches) {
      TP_ASSIGN_OR_RETURN(CacheLink link,
                          ParseCacheLink(value.getAsString().value_or(""), ""));
      info.caches.push_back(std::move(link));
    }
  }
  TP_ASSIGN_OR_RETURN(info.bos, NumberOf(object, "bos"));
  TP_ASSIGN_OR_RETURN(info.pad, NumberOf(object, "pad"));
  TP_ASSIGN_OR_RETURN(info.max_length, NumberOf(object, "max_length"));
  TP_ASSIGN_OR_RETURN(info.eos, NumbersOf(object, "eos"));
  TP_ASSIGN_OR_RETURN(info.decoder_start, NumbersOf(object, "decoder_start"));
  return info;
}

absl::StatusOr<GenerateInfo> ReadGenerateInfo(const std::string& path) {
  TP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  if (NestedTooDeep(text, kMaxNesting))
    return Bad(absl::StrCat(path, ": its JSON is nested too deeply"));
  llvm::Expected<json::Value> parsed = json::parse(text);
  if (!parsed)
    return Bad(absl::StrCat(
        path, ": not valid JSON: ", llvm::toString(parsed.takeError())));
  const json::Object* object = parsed->getAsObject();
  if (object == nullptr) return Bad(absl::StrCat(path, ": not a JSON object"));
  absl::StatusOr<GenerateInfo> info = ParseGenerateInfo(*object);
  if (!info.ok()) return Annotate(info.status(), path);
  const auto beside = [&](std::string& name) {
    name = (std::filesystem::path(path).parent_path() / name).string();
  };
  for (GenerateEntry& entry : info->entries) {
    beside(entry.file);
    for (std::string& input : entry.inputs) beside(input);
  }
  if (info->entries.empty()) return Bad(absl::StrCat(path, ": no 'entries'"));
  return info;
}

}  // namespace tp
