#include "runtime/train/batches.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/json_nesting.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "runtime/counter_hash.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kIgnoredLabel = -100;
constexpr int kMaxNesting = 8;

// Counters are near to each other; this takes them apart first.
uint64_t RandomOf(uint64_t counter) {
  return Scramble(counter + 0x9e3779b97f4a7c15);
}

int64_t RoundUp(int64_t size, int64_t multiple) {
  return multiple > 1 ? (size + multiple - 1) / multiple * multiple : size;
}

// One field of all rows of a batch.
struct Field {
  std::vector<std::vector<int64_t>> rows;  // lists
  std::vector<double> numbers;             // single numbers
  bool whole = true;                       // all numbers are integers
};

absl::Status AddValue(const llvm::json::Value& value, Field& field) {
  if (const llvm::json::Array* list = value.getAsArray()) {
    std::vector<int64_t> row;
    for (const llvm::json::Value& item : *list) {
      const auto number = item.getAsInteger();
      if (!number) {
        return absl::InvalidArgumentError("a list of other than integers");
      }
      row.push_back(*number);
    }
    field.rows.push_back(std::move(row));
    return absl::OkStatus();
  }
  if (const auto number = value.getAsNumber()) {
    field.numbers.push_back(*number);
    field.whole = field.whole && value.getAsInteger().has_value();
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("neither a number nor a list of integers");
}

at::Tensor Padded(const Field& field, int64_t width, int64_t filler) {
  const auto rows = static_cast<int64_t>(field.rows.size());
  at::Tensor tensor = at::full({rows, width}, filler, at::kLong);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int64_t>& values = field.rows[row];
    std::copy(values.begin(), values.end(),
              tensor.mutable_data_ptr<int64_t>() + row * width);
  }
  return tensor;
}

at::Tensor MaskOf(const Field& field, int64_t width) {
  Field ones;
  for (const auto& row : field.rows) ones.rows.emplace_back(row.size(), 1);
  return Padded(ones, width, 0);
}

int64_t Longest(const Field& field) {
  size_t longest = 0;
  for (const auto& row : field.rows) longest = std::max(longest, row.size());
  return static_cast<int64_t>(longest);
}

}  // namespace

Batches::~Batches() = default;

absl::StatusOr<std::unique_ptr<Batches>> Batches::Open(
    const BatchOptions& options) {
  if (options.batch_size < 1 || options.pad_to_multiple < 1 ||
      options.epochs < 0) {
    return absl::InvalidArgumentError(
        "a batch has a row or more, and lengths a multiple of 1 or more");
  }
  std::unique_ptr<Batches> batches(new Batches(options));
  TP_RETURN_IF_ERROR(batches->FindFiles());
  if (batches->is_json_) TP_RETURN_IF_ERROR(batches->IndexLines());
  return batches;
}

absl::Status Batches::FindFiles() {
  bool other = false;
  const auto add = [&](const fs::path& path) {
    const bool json = path.extension() == ".jsonl";
    if (json || path.extension() == ".safetensors") {
      is_json_ = is_json_ || json;
      other = other || !json;
      files_.push_back(path.string());
      return true;
    }
    return false;
  };
  for (const std::string& path : options_.paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      std::vector<fs::path> found;
      for (const auto& entry : fs::directory_iterator(path, error)) {
        found.push_back(entry.path());
      }
      std::sort(found.begin(), found.end());
      for (const fs::path& file : found) add(file);
    } else if (!fs::exists(path, error)) {
      return absl::NotFoundError(
          absl::StrCat("--data ", path, ": there is no such file or folder"));
    } else if (!add(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--data ", path, ": neither .safetensors nor .jsonl"));
    }
  }
  if (files_.empty()) {
    return absl::InvalidArgumentError(
        "--data: no .safetensors or .jsonl file is there");
  }
  if (is_json_ && other) {
    return absl::InvalidArgumentError(
        "--data: give .safetensors or .jsonl files, not both");
  }
  return absl::OkStatus();
}

absl::Status Batches::IndexLines() {
  for (size_t file = 0; file < files_.size(); ++file) {
    std::ifstream stream(files_[file], std::ios::binary);
    std::stringstream content;
    content << stream.rdbuf();
    if (!stream) {
      return absl::NotFoundError(
          absl::StrCat(files_[file], ": cannot be read"));
    }
    text_.push_back(content.str());
    const std::string& text = text_.back();
    int64_t number = 0;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = text.find('\n', begin);
      if (end == std::string::npos) end = text.size();
      ++number;
      if (text.find_first_not_of(" \t\r", begin) < end) {
        lines_.push_back({file, begin, end - begin, number});
      }
      begin = end + 1;
    }
  }
  if (lines_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files_[0], ": holds no example"));
  }
  return absl::OkStatus();
}

int64_t Batches::size() const {
  if (!is_json_) return static_cast<int64_t>(files_.size());
  return (static_cast<int64_t>(lines_.size()) + options_.batch_size - 1) /
         options_.batch_size;
}

void Batches::Seek(int64_t epoch, int64_t position) {
  epoch_ = epoch;
  position_ = position;
}

// Fisher and Yates, with random numbers of (seed, epoch, counter).
void Batches::Shuffle() {
  if (shuffled_epoch_ == epoch_) return;
  shuffled_epoch_ = epoch_;
  order_.resize(is_json_ ? lines_.size() : files_.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  const uint64_t key =
      RandomOf(RandomOf(options_.seed) + static_cast<uint64_t>(epoch_));
  for (size_t i = order_.size(); i > 1; --i) {
    std::swap(order_[i - 1], order_[RandomOf(key + i) % i]);
  }
}

absl::StatusOr<std::optional<NamedTensors>> Batches::Next() {
  if (position_ >= size()) Seek(epoch_ + 1, 0);
  if (options_.epochs > 0 && epoch_ >= options_.epochs) return std::nullopt;
  Shuffle();
  const int64_t batch = position_++;
  if (is_json_) {
    TP_ASSIGN_OR_RETURN(NamedTensors tensors, FromLines(batch));
    return tensors;
  }
  TP_ASSIGN_OR_RETURN(NamedTensors tensors, ReadTensors(files_[order_[batch]]));
  return tensors;
}

absl::StatusOr<NamedTensors> Batches::FromLines(int64_t batch) const {
  const int64_t begin = batch * options_.batch_size;
  const int64_t end = std::min(begin + options_.batch_size,
                               static_cast<int64_t>(lines_.size()));
  std::map<std::string, Field> fields;
  for (int64_t row = begin; row < end; ++row) {
    const Line& line = lines_[order_[row]];
    const auto where = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat(files_[line.file], ":", line.number, ": ", what));
    };
    const llvm::StringRef text =
        llvm::StringRef(text_[line.file]).substr(line.begin, line.size);
    if (NestedTooDeep(text, kMaxNesting)) return where("nested too deeply");
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
    if (!value) return where(llvm::toString(value.takeError()));
    const llvm::json::Object* object = value->getAsObject();
    if (object == nullptr) return where("not an object");
    for (const auto& [key, item] : *object) {
      const std::string name = llvm::StringRef(key).str();
      Field& field = fields[name];
      if (absl::Status status = AddValue(item, field); !status.ok()) {
        return where(absl::StrCat("\"", name, "\": ", status.message()));
      }
      const size_t count = std::max(field.rows.size(), field.numbers.size());
      if (count != static_cast<size_t>(row - begin + 1) ||
          (!field.rows.empty() && !field.numbers.empty())) {
        return where(
            absl::StrCat("\"", name, "\" is not like in the lines before"));
      }
    }
    for (const auto& [name, field] : fields) {
      if (std::max(field.rows.size(), field.numbers.size()) <=
          static_cast<size_t>(row - begin)) {
        return where(absl::StrCat("\"", name, "\" is missing"));
      }
    }
  }
  NamedTensors tensors;
  for (const auto& [name, field] : fields) {
    if (field.rows.empty()) {
      at::Tensor numbers = at::tensor(field.numbers, at::kDouble);
      tensors.emplace_back(name,
                           numbers.to(field.whole ? at::kLong : at::kFloat));
      continue;
    }
    const int64_t width = RoundUp(Longest(field), options_.pad_to_multiple);
    const int64_t filler = name == "labels"           ? kIgnoredLabel
                           : name == "attention_mask" ? 0
                                                      : options_.pad_id;
    tensors.emplace_back(name, Padded(field, width, filler));
    if (name == "input_ids" && fields.count("attention_mask") == 0 &&
        llvm::is_contained(options_.inputs, "attention_mask")) {
      tensors.emplace_back("attention_mask", MaskOf(field, width));
    }
  }
  return tensors;
}

}  // namespace tp
