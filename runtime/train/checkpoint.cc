#include "runtime/train/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/checkpoint_reader.h"
#include "ir/checkpoint_writer.h"
#include "ir/shard_block.h"
#include "ir/status.h"

namespace tp {
namespace {

constexpr char kLossScale[] = "loss_scale";
// What ParameterStore calls the f32 copy of a 16-bit parameter.
constexpr char kMasterState[] = "master";

// A tensor of the run as one rank holds it.
struct Entry {
  CheckpointTensor described;
  at::Tensor value;
};

CheckpointTensor Describe(const TrainableParameter& parameter) {
  CheckpointTensor tensor;
  tensor.name = parameter.name;
  tensor.aliases = parameter.aliases;
  tensor.dtype = parameter.type.dtype;
  for (const SymExpr& dim : parameter.type.dims) {
    tensor.sizes.push_back(dim.constant());
  }
  tensor.spec = parameter.spec;
  return tensor;
}

absl::StatusOr<std::vector<Entry>> EntriesOf(const RankTraining& training,
                                             const Optimizer& optimizer) {
  std::vector<Entry> entries;
  for (const TrainableParameter& parameter : training.parameters) {
    entries.push_back({Describe(parameter), parameter.value});
  }
  for (const TrainableParameter& buffer : training.buffers) {
    entries.push_back({Describe(buffer), buffer.value});
    entries.back().described.kind = CheckpointTensor::Kind::kBuffer;
  }
  for (const OptimizerState& state : optimizer.State()) {
    Entry entry{Describe(training.parameters[state.parameter]), state.value};
    entry.described.kind = CheckpointTensor::Kind::kState;
    entry.described.aliases.clear();
    entry.described.state = state.name;
    entry.described.sizes.assign(state.sizes.begin(), state.sizes.end());
    entry.described.spec = state.spec;
    const std::optional<DType> dtype = DTypeOf(state.value.scalar_type());
    if (!dtype) {
      return absl::InternalError(
          absl::StrCat("a state '", state.name, "' of no known dtype"));
    }
    entry.described.dtype = *dtype;
    entries.push_back(std::move(entry));
  }
  return entries;
}

// What must not change between a save and going on from it.
std::string OptionsText(const TrainerOptions& options) {
  const OptimizerOptions& o = options.optimizer;
  const std::string weighing =
      options.weigh_by_labels.empty()
          ? ""
          : absl::StrFormat("weigh_by_labels=%s/%d ", options.weigh_by_labels,
                            options.label_shift);
  return absl::StrCat(
      weighing,
      absl::StrFormat(
          "accumulate=%d beta1=%.17g beta2=%.17g clip_threshold=%.17g "
          "decay_rate=%.17g eps=%.17g eps1=%.17g lr=%.17g master_weights=%d "
          "max_grad_norm=%.17g momentum=%.17g nesterov=%d no_decay=%s "
          "per_shard=%d schedule=%s/%d/%d stochastic_rounding=%d "
          "weight_decay=%.17g",
          options.accumulate, o.beta1, o.beta2, o.clip_threshold, o.decay_rate,
          o.eps, o.eps1, options.lr, o.master_weights, options.max_grad_norm,
          o.momentum, o.nesterov, absl::StrJoin(o.no_decay, ","), o.per_shard,
          options.schedule.name, options.schedule.warmup,
          options.schedule.total, o.stochastic_rounding, o.weight_decay));
}

absl::Status ReadEntry(const CheckpointReader& reader, const Mesh& mesh,
                       int rank, Entry& entry) {
  const std::string key = entry.described.key();
  const CheckpointTensor* stored = reader.Find(key);
  if (stored == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        reader.folder(), " has no '", key, "', which this training needs"));
  }
  if (stored->dtype != entry.described.dtype ||
      stored->sizes != entry.described.sizes) {
    return absl::FailedPreconditionError(
        absl::StrCat(reader.folder(), ": '", key,
                     "' has another dtype or shape than in this package"));
  }
  at::Tensor value = at::empty_like(entry.value, at::MemoryFormat::Contiguous);
  if (stored->sharded().HasOwnValues()) {
    if (!(reader.checkpoint().mesh == mesh)) {
      return absl::FailedPreconditionError(
          absl::StrCat(reader.folder(), ": '", key,
                       "' is of each rank alone and fits no other mesh"));
    }
    TP_ASSIGN_OR_RETURN(Bytes bytes,
                        reader.files().ReadOwn(stored->sharded(), rank));
    if (bytes.size() != value.nbytes()) {
      return absl::DataLossError(
          absl::StrCat(reader.folder(), ": '", key, "' has another size"));
    }
    if (!bytes.empty()) {
      std::memcpy(value.data_ptr(), bytes.data(), bytes.size());
    }
  } else {
    TP_ASSIGN_OR_RETURN(
        std::vector<DimIntervals> block,
        BlockOf(entry.described.sizes, entry.described.spec, mesh, rank));
    TP_RETURN_IF_ERROR(reader.files().ReadBlock(
        stored->sharded(), block, value.data_ptr(), value.nbytes()));
  }
  entry.value.copy_(value);
  return absl::OkStatus();
}

// Trained weights that this training has not: the checkpoint is of another
// model, or of this one with more of it trained.
absl::Status CheckNoStrangers(const CheckpointReader& reader,
                              const RankTraining& training) {
  for (const CheckpointTensor& tensor : reader.checkpoint().tensors) {
    if (tensor.kind != CheckpointTensor::Kind::kState) continue;
    const bool known =
        std::any_of(training.parameters.begin(), training.parameters.end(),
                    [&](const TrainableParameter& each) {
                      return each.name == tensor.name;
                    });
    if (known) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(reader.folder(), " trains '", tensor.name,
                     "', which this package does not"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SaveCheckpoint(const std::string& dir, TrainSession& session,
                            const Trainer& trainer,
                            const DataPosition& position, int keep) {
  Checkpoint checkpoint;
  checkpoint.tool_version = TP_VERSION;
  checkpoint.step = trainer.steps_done();
  checkpoint.epoch = position.epoch;
  checkpoint.position = position.position;
  checkpoint.seed = trainer.options().seed;
  checkpoint.optimizer = trainer.options().optimizer.name;
  checkpoint.optimizer_options = OptionsText(trainer.options());
  checkpoint.mesh = session.mesh();
  checkpoint.extra[kLossScale] =
      absl::StrFormat("%.17g %d", trainer.loss_scale().scale(),
                      trainer.loss_scale().good_steps());
  TP_ASSIGN_OR_RETURN(std::vector<Entry> first,
                      EntriesOf(session.training(0), *trainer.optimizers()[0]));
  for (Entry& entry : first) {
    checkpoint.tensors.push_back(std::move(entry.described));
  }
  TP_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointWriter> writer,
                      CheckpointWriter::Create(dir, std::move(checkpoint)));
  TP_RETURN_IF_ERROR(
      session.OnRanks([&](int rank, RankTraining& training) -> absl::Status {
        TP_ASSIGN_OR_RETURN(std::vector<Entry> entries,
                            EntriesOf(training, *trainer.optimizers()[rank]));
        std::map<std::string, at::Tensor> by_key;
        for (const Entry& entry : entries) {
          by_key[entry.described.key()] = entry.value;
        }
        return writer->WriteRank(rank, [&](const CheckpointTensor& tensor,
                                           CheckpointWriter::Append append) {
          const at::Tensor value = by_key[tensor.key()].contiguous();
          return append(value.const_data_ptr(), value.nbytes());
        });
      }));
  return writer->Commit(keep);
}

absl::Status LoadCheckpoint(const std::string& path, TrainSession& session,
                            Trainer& trainer, DataPosition& position) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                      CheckpointReader::Open(path));
  const Checkpoint& checkpoint = reader->checkpoint();
  const TrainerOptions& options = trainer.options();
  if (!checkpoint.optimizer.empty() &&
      checkpoint.optimizer != options.optimizer.name) {
    return absl::FailedPreconditionError(
        absl::StrCat(reader->folder(), " is of the optimizer ",
                     checkpoint.optimizer, ", not ", options.optimizer.name));
  }
  if (!checkpoint.optimizer.empty() &&
      (checkpoint.optimizer_options != OptionsText(options) ||
       checkpoint.seed != options.seed)) {
    return absl::FailedPreconditionError(
        absl::StrCat(reader->folder(),
                     " was made with other options, so going on would not "
                     "be the same training: there seed=",
                     checkpoint.seed, " ", checkpoint.optimizer_options,
                     "; here seed=", options.seed, " ", OptionsText(options)));
  }
  TP_RETURN_IF_ERROR(CheckNoStrangers(*reader, session.training(0)));
  TP_RETURN_IF_ERROR(
      session.OnRanks([&](int rank, RankTraining& training) -> absl::Status {
        TP_ASSIGN_OR_RETURN(std::vector<Entry> entries,
                            EntriesOf(training, *trainer.optimizers()[rank]));
        std::map<std::string, at::Tensor> parameters;
        for (Entry& entry : entries) {
          const bool is_state =
              entry.described.kind == CheckpointTensor::Kind::kState;
          if (is_state && checkpoint.optimizer.empty()) {
            // Weights without a state start a new training; the f32 copies of
            // parameters, which come before states, follow them.
            if (entry.described.state == kMasterState) {
              entry.value.copy_(parameters[entry.described.name]);
            }
            continue;
          }
          TP_RETURN_IF_ERROR(ReadEntry(*reader, session.mesh(), rank, entry));
          if (!is_state) parameters[entry.described.name] = entry.value;
        }
        return absl::OkStatus();
      }));
  trainer.set_steps_done(checkpoint.step);
  double scale = 0;
  int good_steps = 0;
  auto kept = checkpoint.extra.find(kLossScale);
  if (kept != checkpoint.extra.end() &&
      std::sscanf(kept->second.c_str(), "%lf %d", &scale, &good_steps) == 2) {
    trainer.loss_scale().Restore(scale, good_steps);
  }
  position.epoch = checkpoint.epoch;
  position.position = checkpoint.position;
  return absl::OkStatus();
}

}  // namespace tp
