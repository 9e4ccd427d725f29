#include "ir/checkpoint.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "ir/file_digest.h"
#include "ir/json_nesting.h"
#include "ir/shard_block.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace tp {
namespace {

namespace json = llvm::json;

constexpr int64_t kMaxRanks = 1024;
constexpr int kMaxNesting = 8;
constexpr char kHashField[] = "\"sha256_of_all_above\"";

struct KindName {
  CheckpointTensor::Kind kind;
  llvm::StringRef name;
};

constexpr KindName kKindNames[] = {
    {CheckpointTensor::Kind::kParameter, "parameter"},
    {CheckpointTensor::Kind::kBuffer, "buffer"},
    {CheckpointTensor::Kind::kState, "state"},
};

absl::Status TensorError(const CheckpointTensor& tensor,
                         const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor \"", tensor.key(), "\": ", why));
}

absl::Status CheckTensor(const CheckpointTensor& tensor, const Mesh& mesh) {
  int64_t bytes = ByteSize(tensor.dtype);
  for (int64_t size : tensor.sizes)
    if (size < 0 || llvm::MulOverflow(bytes, std::max<int64_t>(size, 1), bytes))
      return TensorError(tensor, "its sizes overflow");
  if (static_cast<int>(tensor.spec.size()) != mesh.ndim())
    return TensorError(tensor, "it needs a placement per mesh axis");
  for (const Placement& placement : tensor.spec)
    if (placement.is_partial() && tensor.kind != CheckpointTensor::Kind::kState)
      return TensorError(tensor, "only a state may differ between ranks");
  // Every rank has the same dims and boxes.
  const auto block = BlockOf(tensor.sizes, tensor.spec, mesh, 0);
  if (!block.ok())
    return TensorError(tensor, std::string(block.status().message()));
  return absl::OkStatus();
}

void WriteTensor(json::OStream& out, const CheckpointTensor& tensor) {
  out.object([&] {
    out.attribute("name", tensor.name);
    if (!tensor.aliases.empty())
      out.attributeArray("aliases", [&] {
        for (const std::string& alias : tensor.aliases) out.value(alias);
      });
    out.attribute("kind", kKindNames[static_cast<int>(tensor.kind)].name);
    if (!tensor.state.empty()) out.attribute("state", tensor.state);
    out.attribute("dtype", llvm::StringRef(Name(tensor.dtype)));
    out.attributeArray("sizes", [&] {
      for (int64_t size : tensor.sizes) out.value(size);
    });
    out.attributeArray("placement", [&] {
      for (const Placement& placement : tensor.spec)
        out.value(placement.ToString());
    });
  });
}

void WriteFields(json::OStream& out, const Checkpoint& checkpoint) {
  out.attribute("format_version", kCheckpointFormatVersion);
  out.attribute("tool_version", checkpoint.tool_version);
  out.attribute("step", checkpoint.step);
  out.attribute("epoch", checkpoint.epoch);
  out.attribute("position", checkpoint.position);
  out.attribute("seed", checkpoint.seed);
  out.attributeObject("optimizer", [&] {
    out.attribute("name", checkpoint.optimizer);
    out.attribute("options", checkpoint.optimizer_options);
  });
  out.attributeObject("extra", [&] {
    for (const auto& [key, value] : checkpoint.extra) out.attribute(key, value);
  });
  out.attributeArray("mesh", [&] {
    for (const MeshAxis& axis : checkpoint.mesh.axes())
      out.value(json::Object{{"name", axis.name}, {"size", axis.size}});
  });
  out.attributeArray("tensors", [&] {
    for (const CheckpointTensor& tensor : checkpoint.tensors)
      WriteTensor(out, tensor);
  });
  out.attributeObject("files", [&] {
    for (const auto& [name, file] : checkpoint.files)
      out.attribute(
          name, json::Object{{"bytes", file.bytes}, {"sha256", file.sha256}});
  });
}

// The end of the file, after everything else.
std::string HashLine(llvm::StringRef above) {
  return absl::StrCat(kHashField, ": \"", Sha256Hex(above), "\"\n}\n");
}

// Reads fields of a JSON object; the first one that is missing or of another
// type is remembered.
class Fields {
 public:
  Fields(const json::Value& value, std::string where)
      : object_(value.getAsObject()), where_(std::move(where)) {
    if (object_ == nullptr) Fail("is no object");
  }

  std::string String(llvm::StringRef name) {
    const json::Value* value = Get(name);
    const auto text = value ? value->getAsString() : std::nullopt;
    if (!text) return Fail(name, "text"), "";
    return text->str();
  }
  int64_t Count(llvm::StringRef name) {
    const json::Value* value = Get(name);
    const auto number = value ? value->getAsInteger() : std::nullopt;
    if (!number || *number < 0) return Fail(name, "a count"), 0;
    return *number;
  }
  uint64_t Unsigned(llvm::StringRef name) {
    const json::Value* value = Get(name);
    const auto number = value ? value->getAsUINT64() : std::nullopt;
    if (!number) return Fail(name, "a number"), 0;
    return *number;
  }
  const json::Value* Object(llvm::StringRef name) {
    const json::Value* value = Get(name);
    if (value == nullptr || value->getAsObject() == nullptr)
      return Fail(name, "an object"), nullptr;
    return value;
  }
  const json::Array* Array(llvm::StringRef name) {
    const json::Value* value = Get(name);
    const json::Array* array = value ? value->getAsArray() : nullptr;
    if (array == nullptr) Fail(name, "a list");
    return array;
  }
  bool Has(llvm::StringRef name) const { return Get(name) != nullptr; }
  const json::Object* object() const { return object_; }
  void Fail(const std::string& why) {
    if (status_.ok())
      status_ = absl::InvalidArgumentError(absl::StrCat(where_, " ", why));
  }
  const absl::Status& status() const { return status_; }

 private:
  const json::Value* Get(llvm::StringRef name) const {
    return object_ ? object_->get(name) : nullptr;
  }
  void Fail(llvm::StringRef name, const char* what) {
    Fail(absl::StrCat("needs '", name.str(), "', ", what));
  }

  const json::Object* object_;
  std::string where_;
  absl::Status status_;
};

absl::StatusOr<CheckpointTensor> ParseTensor(const json::Value& value) {
  Fields fields(value, "an entry of 'tensors'");
  CheckpointTensor tensor;
  tensor.name = fields.String("name");
  if (fields.Has("aliases"))
    if (const json::Array* aliases = fields.Array("aliases"))
      for (const json::Value& alias : *aliases)
        tensor.aliases.push_back(alias.getAsString().value_or("").str());
  const std::string kind = fields.String("kind");
  const std::string dtype = fields.String("dtype");
  const json::Array* sizes = fields.Array("sizes");
  const json::Array* placements = fields.Array("placement");
  if (kind == "state") tensor.state = fields.String("state");
  TP_RETURN_IF_ERROR(fields.status());
  const auto* row = llvm::find_if(
      kKindNames, [&](const KindName& known) { return known.name == kind; });
  const std::optional<DType> known = ParseDType(dtype);
  if (row == std::end(kKindNames) || !known)
    return TensorError(tensor, "an unknown kind or dtype");
  tensor.kind = row->kind;
  tensor.dtype = *known;
  llvm::SmallVector<SymExpr, 4> dims;
  for (const json::Value& size : *sizes) {
    tensor.sizes.push_back(size.getAsInteger().value_or(-1));
    if (tensor.sizes.back() < 0)
      return TensorError(tensor, "a size that is no count");
    dims.push_back(tensor.sizes.back());
  }
  for (const json::Value& placement : *placements) {
    absl::StatusOr<Placement> parsed =
        ParsePlacement(placement.getAsString().value_or(""), dims);
    if (!parsed.ok())
      return TensorError(tensor, std::string(parsed.status().message()));
    tensor.spec.push_back(*std::move(parsed));
  }
  return tensor;
}

absl::StatusOr<Mesh> ParseMesh(const json::Array& axes) {
  std::vector<MeshAxis> list;
  int64_t ranks = 1;
  for (const json::Value& value : axes) {
    Fields fields(value, "an axis of 'mesh'");
    MeshAxis axis;
    axis.name = fields.String("name");
    axis.size = fields.Count("size");
    TP_RETURN_IF_ERROR(fields.status());
    if (axis.size < 1 || axis.size > kMaxRanks ||
        (ranks *= axis.size) > kMaxRanks)
      return absl::InvalidArgumentError(
          absl::StrCat("'mesh' must have 1 to ", kMaxRanks, " ranks"));
    list.push_back(std::move(axis));
  }
  if (list.empty()) return absl::InvalidArgumentError("'mesh' has no axis");
  return Mesh(std::move(list));
}

absl::StatusOr<Checkpoint> ParseFields(const json::Value& value) {
  Fields fields(value, "the file");
  const int64_t version = fields.Count("format_version");
  TP_RETURN_IF_ERROR(fields.status());
  if (version != kCheckpointFormatVersion)
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint format ", version, "; this program (",
                     TP_VERSION, ") reads format ", kCheckpointFormatVersion));
  Checkpoint checkpoint;
  checkpoint.tool_version = fields.String("tool_version");
  checkpoint.step = fields.Count("step");
  checkpoint.epoch = fields.Count("epoch");
  checkpoint.position = fields.Count("position");
  checkpoint.seed = fields.Unsigned("seed");
  const json::Value* optimizer = fields.Object("optimizer");
  const json::Value* extra = fields.Object("extra");
  const json::Array* mesh = fields.Array("mesh");
  const json::Array* tensors = fields.Array("tensors");
  const json::Value* files = fields.Object("files");
  TP_RETURN_IF_ERROR(fields.status());
  Fields of_optimizer(*optimizer, "'optimizer'");
  checkpoint.optimizer = of_optimizer.String("name");
  checkpoint.optimizer_options = of_optimizer.String("options");
  TP_RETURN_IF_ERROR(of_optimizer.status());
  for (const auto& [key, text] : *extra->getAsObject())
    checkpoint.extra[llvm::StringRef(key).str()] =
        text.getAsString().value_or("").str();
  TP_ASSIGN_OR_RETURN(checkpoint.mesh, ParseMesh(*mesh));
  for (const json::Value& tensor : *tensors) {
    TP_ASSIGN_OR_RETURN(CheckpointTensor parsed, ParseTensor(tensor));
    checkpoint.tensors.push_back(std::move(parsed));
  }
  for (const auto& [name, entry] : *files->getAsObject()) {
    Fields file(entry, "an entry of 'files'");
    checkpoint.files[llvm::StringRef(name).str()] = {file.String("sha256"),
                                                     file.Unsigned("bytes")};
    TP_RETURN_IF_ERROR(file.status());
  }
  for (int64_t rank = 0; rank < checkpoint.mesh.num_ranks(); ++rank)
    if (checkpoint.files.count(RankFileName(rank)) == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("'files' has no ", RankFileName(rank)));
  TP_RETURN_IF_ERROR(CheckCheckpoint(checkpoint));
  return checkpoint;
}

// The parameter's dim that each dim of a state is, or nothing.
std::optional<llvm::SmallVector<int, 4>> DimsOfState(
    llvm::ArrayRef<int64_t> parameter, llvm::StringRef state,
    llvm::ArrayRef<int64_t> sizes) {
  const int ndim = static_cast<int>(parameter.size());
  const auto without =
      [&](int gone) -> std::optional<llvm::SmallVector<int, 4>> {
    if (gone < 0 || sizes.size() + 1 != parameter.size()) return std::nullopt;
    llvm::SmallVector<int, 4> dims;
    for (int d = 0; d < ndim; ++d) {
      if (d == gone) continue;
      if (sizes[dims.size()] != parameter[d]) return std::nullopt;
      dims.push_back(d);
    }
    return dims;
  };
  if (sizes == parameter) {
    llvm::SmallVector<int, 4> dims;
    for (int d = 0; d < ndim; ++d) dims.push_back(d);
    return dims;
  }
  const auto row = without(ndim - 1);
  const auto col = without(ndim - 2);
  // The sizes of a square matrix do not tell.
  if (row && col) {
    if (state.ends_with("row")) return row;
    if (state.ends_with("col")) return col;
    return std::nullopt;
  }
  return row ? row : col;
}

}  // namespace

std::string CheckpointTensor::key() const {
  return kind == Kind::kState ? absl::StrCat(name, "#", state) : name;
}

std::string RankFileName(int64_t rank) {
  return absl::StrCat("rank", rank, ".safetensors");
}

absl::Status CheckCheckpoint(const Checkpoint& checkpoint) {
  if (checkpoint.mesh.ndim() == 0 || checkpoint.mesh.num_ranks() > kMaxRanks)
    return absl::InvalidArgumentError(
        absl::StrCat("a checkpoint has 1 to ", kMaxRanks, " ranks"));
  std::vector<llvm::StringRef> texts = {checkpoint.optimizer,
                                        checkpoint.optimizer_options};
  for (const auto& [key, value] : checkpoint.extra) {
    texts.push_back(key);
    texts.push_back(value);
  }
  for (const CheckpointTensor& tensor : checkpoint.tensors) {
    texts.push_back(tensor.name);
    texts.push_back(tensor.state);
    texts.insert(texts.end(), tensor.aliases.begin(), tensor.aliases.end());
  }
  for (llvm::StringRef text : texts)
    if (!json::isUTF8(text))
      return absl::InvalidArgumentError("a name or an option is not UTF-8");
  llvm::StringSet<> keys;
  for (const CheckpointTensor& tensor : checkpoint.tensors) {
    TP_RETURN_IF_ERROR(CheckTensor(tensor, checkpoint.mesh));
    if (!keys.insert(tensor.key()).second)
      return TensorError(tensor, "two tensors have this name");
  }
  return absl::OkStatus();
}

std::string CheckpointJson(const Checkpoint& checkpoint) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, /*IndentSize=*/1);
  out.object([&] { WriteFields(out, checkpoint); });
  stream.flush();
  // "...\n}" becomes "...,\n <hash>\n}".
  text.resize(text.rfind('\n'));
  absl::StrAppend(&text, ",\n ");
  return text + HashLine(text);
}

absl::StatusOr<Checkpoint> ParseCheckpointJson(llvm::StringRef text) {
  const size_t end = text.rfind(kHashField);
  if (end == llvm::StringRef::npos)
    return absl::DataLossError("it is cut short");
  if (text.drop_front(end) != HashLine(text.take_front(end)))
    return absl::DataLossError("it was edited or damaged: its hash differs");
  if (NestedTooDeep(text, kMaxNesting))
    return absl::InvalidArgumentError("its JSON is nested too deeply");
  llvm::Expected<json::Value> parsed = json::parse(text);
  if (!parsed)
    return absl::InvalidArgumentError(
        absl::StrCat("it is no JSON: ", llvm::toString(parsed.takeError())));
  return ParseFields(*parsed);
}

ShardingSpec StateSpec(llvm::ArrayRef<int64_t> parameter_sizes,
                       llvm::ArrayRef<Placement> parameter_spec,
                       llvm::StringRef state,
                       llvm::ArrayRef<int64_t> state_sizes) {
  const auto dims = DimsOfState(parameter_sizes, state, state_sizes);
  ShardingSpec spec;
  for (const Placement& placement : parameter_spec) {
    spec.push_back(Placement::Replicate());
    if (!placement.is_shard() || !dims) continue;
    const auto* kept = llvm::find(*dims, placement.dim());
    if (kept != dims->end())
      spec.back() = Placement::Shard(static_cast<int>(kept - dims->begin()),
                                     placement.factor());
  }
  return spec;
}

}  // namespace tp
