#include "ir/checkpoint_convert.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/checkpoint_writer.h"
#include "ir/safetensors.h"
#include "ir/shard_block.h"
#include "ir/status.h"
#include "ir/system_error.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tp {
namespace {

std::string Shape(const CheckpointTensor& tensor) {
  return absl::StrCat(std::string(Name(tensor.dtype)), "[",
                      absl::StrJoin(tensor.sizes, ","), "]");
}

std::vector<std::string> NamesOf(const CheckpointTensor& tensor) {
  std::vector<std::string> names = {tensor.name};
  names.insert(names.end(), tensor.aliases.begin(), tensor.aliases.end());
  return names;
}

absl::StatusOr<const Function*> ForwardOf(const Module& planned) {
  const Function* forward = planned.function("forward");
  if (forward == nullptr)
    return absl::InvalidArgumentError("the plan has no @forward");
  return forward;
}

// Tensors by every name of theirs.
using ByName = llvm::StringMap<const CheckpointTensor*>;

ByName IndexByName(const std::vector<CheckpointTensor>& tensors) {
  ByName by_name;
  for (const CheckpointTensor& tensor : tensors) {
    if (tensor.kind == CheckpointTensor::Kind::kState) continue;
    for (const std::string& name : NamesOf(tensor)) by_name[name] = &tensor;
  }
  return by_name;
}

const CheckpointTensor* FindAny(const ByName& by_name,
                                const CheckpointTensor& tensor) {
  for (const std::string& name : NamesOf(tensor)) {
    auto it = by_name.find(name);
    if (it != by_name.end()) return it->second;
  }
  return nullptr;
}

// A tensor of the new checkpoint and where it comes from.
struct Moved {
  CheckpointTensor to;
  const CheckpointTensor* from = nullptr;
};

// The parameter first, then the states of the old one.
absl::StatusOr<std::vector<Moved>> PlanMoves(const Checkpoint& old,
                                             const Module& planned,
                                             const ReshardOptions& options) {
  TP_ASSIGN_OR_RETURN(std::vector<CheckpointTensor> weights,
                      PlannedWeights(planned));
  TP_ASSIGN_OR_RETURN(const Function* forward, ForwardOf(planned));
  llvm::StringSet<> trainable;
  for (const ArgumentInfo& info : forward->arguments())
    if (info.is_trainable()) trainable.insert(info.name);
  const ByName new_by_name = IndexByName(weights);
  const ByName old_by_name = IndexByName(old.tensors);
  std::vector<Moved> moves;
  for (const CheckpointTensor& from : old.tensors) {
    if (from.kind == CheckpointTensor::Kind::kState && options.weights_only)
      continue;
    // A state goes by its parameter's names.
    auto parameter = old_by_name.find(from.name);
    const CheckpointTensor* whose =
        parameter == old_by_name.end() ? nullptr : parameter->second;
    const CheckpointTensor* weight =
        whose ? FindAny(new_by_name, *whose) : nullptr;
    if (weight == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("the package has no weight named \"", from.name,
                       "\"; it is one of another model"));
    Moved move{from, &from};
    move.to.name = weight->name;
    move.to.aliases = weight->aliases;
    move.to.spec = weight->spec;
    if (from.kind == CheckpointTensor::Kind::kState) {
      move.to.aliases.clear();
      move.to.spec =
          StateSpec(whose->sizes, weight->spec, from.state, from.sizes);
      if (from.sharded().HasOwnValues())
        return absl::FailedPreconditionError(absl::StrCat(
            from.key(),
            ": every rank has a value of its own (per-shard "
            "Adafactor), which means nothing on another mesh; leave the "
            "optimizer's state out with --weights-only"));
    } else if (weight->dtype != from.dtype || weight->sizes != from.sizes) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", from.name, "\" is ", Shape(from),
                       ", in the package it is ", Shape(*weight)));
    }
    moves.push_back(std::move(move));
  }
  for (const CheckpointTensor& weight : weights)
    if (trainable.contains(weight.name) &&
        FindAny(old_by_name, weight) == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("the checkpoint lacks \"", weight.name,
                       "\", which the package trains"));
  return moves;
}

// Writes the ranks of a checkpoint, each tensor's block from `stream`.
absl::Status WriteAll(
    CheckpointWriter& writer,
    llvm::function_ref<absl::Status(const CheckpointTensor&,
                                    llvm::ArrayRef<DimIntervals> block,
                                    CheckpointWriter::Append)>
        stream) {
  const Mesh& mesh = writer.checkpoint().mesh;
  for (int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    TP_RETURN_IF_ERROR(writer.WriteRank(
        rank,
        [&](const CheckpointTensor& tensor,
            CheckpointWriter::Append append) -> absl::Status {
          TP_ASSIGN_OR_RETURN(std::vector<DimIntervals> block,
                              BlockOf(tensor.sizes, tensor.spec, mesh, rank));
          return stream(tensor, block, append);
        }));
  }
  return writer.Commit(/*keep=*/0);
}

}  // namespace

absl::StatusOr<std::vector<CheckpointTensor>> PlannedWeights(
    const Module& planned) {
  TP_ASSIGN_OR_RETURN(const Function* forward, ForwardOf(planned));
  std::vector<CheckpointTensor> tensors;
  for (size_t i = 0; i < forward->arguments().size(); ++i) {
    const ArgumentInfo& info = forward->arguments()[i];
    if (info.kind != ArgumentKind::kParameter &&
        info.kind != ArgumentKind::kBuffer)
      continue;
    const Value& value = *forward->body().arguments()[i];
    CheckpointTensor tensor;
    tensor.kind = info.kind == ArgumentKind::kParameter
                      ? CheckpointTensor::Kind::kParameter
                      : CheckpointTensor::Kind::kBuffer;
    tensor.name = info.name;
    tensor.aliases = info.aliases;
    tensor.dtype = value.type().dtype;
    TP_ASSIGN_OR_RETURN(tensor.sizes, WholeSizes(value));
    tensor.spec.assign(value.spec().begin(), value.spec().end());
    tensor.spec.resize(static_cast<size_t>(planned.mesh().ndim()));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status ExportCheckpoint(const CheckpointReader& checkpoint,
                              const PackageWeights* package,
                              const std::string& path) {
  struct Item {
    ShardedTensor tensor;
    const ShardedFiles* files;
    size_t times;
  };
  if (std::error_code error; std::filesystem::is_directory(path, error))
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a folder; give the path of a file"));
  const ByName held = IndexByName(checkpoint.checkpoint().tensors);
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  SafetensorsWriterOptions options;
  options.hash = false;
  // Loaders of transformers ask for this.
  options.metadata["format"] = "pt";
  TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                      SafetensorsWriter::Create(temporary, std::move(options)));
  std::vector<Item> items;
  const auto add = [&](const CheckpointTensor& tensor,
                       const ShardedFiles& files) -> absl::Status {
    if (tensor.kind == CheckpointTensor::Kind::kState) return absl::OkStatus();
    const std::vector<std::string> names = NamesOf(tensor);
    for (const std::string& name : names)
      TP_RETURN_IF_ERROR(writer->Declare(name, tensor.dtype, tensor.sizes));
    items.push_back({tensor.sharded(), &files, names.size()});
    return absl::OkStatus();
  };
  for (const CheckpointTensor& tensor : checkpoint.checkpoint().tensors)
    TP_RETURN_IF_ERROR(add(tensor, checkpoint.files()));
  if (package != nullptr)
    for (const CheckpointTensor& tensor : package->tensors)
      if (FindAny(held, tensor) == nullptr)
        TP_RETURN_IF_ERROR(add(tensor, package->files));
  for (const Item& item : items)
    for (size_t copy = 0; copy < item.times; ++copy)
      TP_RETURN_IF_ERROR(item.files->Stream(item.tensor,
                                            WholeBlock(item.tensor.sizes),
                                            [&](const void* data, size_t size) {
                                              return writer->Append(data, size);
                                            }));
  TP_RETURN_IF_ERROR(writer->Finish());
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    std::remove(temporary.c_str());
    return SystemError("write", path, reason);
  }
  return absl::OkStatus();
}

absl::Status ReshardCheckpoint(const CheckpointReader& checkpoint,
                               const Module& planned, const std::string& dir,
                               const ReshardOptions& options) {
  const Checkpoint& old = checkpoint.checkpoint();
  TP_ASSIGN_OR_RETURN(std::vector<Moved> moves,
                      PlanMoves(old, planned, options));
  Checkpoint moved = old;
  moved.mesh = planned.mesh();
  moved.tensors.clear();
  if (options.weights_only) {
    moved.optimizer.clear();
    moved.optimizer_options.clear();
  }
  llvm::StringMap<const CheckpointTensor*> sources;
  for (const Moved& move : moves) {
    moved.tensors.push_back(move.to);
    sources[move.to.key()] = move.from;
  }
  TP_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointWriter> writer,
                      CheckpointWriter::Create(dir, std::move(moved)));
  return WriteAll(*writer, [&](const CheckpointTensor& tensor,
                               llvm::ArrayRef<DimIntervals> block,
                               CheckpointWriter::Append append) {
    return checkpoint.files().Stream(sources.lookup(tensor.key())->sharded(),
                                     block, append);
  });
}

absl::Status ImportCheckpoint(const WeightSource& given, const Module& planned,
                              const std::string& dir,
                              const MatchOptions& options) {
  TP_ASSIGN_OR_RETURN(const Function* forward, ForwardOf(planned));
  TP_ASSIGN_OR_RETURN(MatchedWeights matched,
                      MatchWeights(*forward, given, options));
  TP_ASSIGN_OR_RETURN(std::vector<CheckpointTensor> weights,
                      PlannedWeights(planned));
  llvm::StringMap<const WeightInfo*> sources;
  for (size_t i = 0; i < matched.weights.size(); ++i)
    if (matched.weights[i] != nullptr)
      sources[forward->arguments()[i].name] = matched.weights[i];
  Checkpoint imported;
  imported.mesh = planned.mesh();
  for (CheckpointTensor& weight : weights)
    if (sources.count(weight.name) != 0)
      imported.tensors.push_back(std::move(weight));
  TP_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointWriter> writer,
                      CheckpointWriter::Create(dir, std::move(imported)));
  return WriteAll(
      *writer,
      [&](const CheckpointTensor& tensor, llvm::ArrayRef<DimIntervals> block,
          CheckpointWriter::Append append) -> absl::Status {
        const WeightInfo& source = *sources.lookup(tensor.name);
        TP_ASSIGN_OR_RETURN(Bytes storage, given.View(source));
        std::vector<char> buffer;
        constexpr int64_t kPieceBytes = int64_t{16} << 20;
        const int64_t item = ByteSize(source.dtype);
        for (const auto& piece : SplitBlock(block, kPieceBytes / item)) {
          buffer.resize(static_cast<size_t>(BlockElements(piece) * item));
          TP_RETURN_IF_ERROR(
              CopyBlock(source, storage, piece, buffer.data(), buffer.size()));
          TP_RETURN_IF_ERROR(append(buffer.data(), buffer.size()));
        }
        return absl::OkStatus();
      });
}

}  // namespace tp
