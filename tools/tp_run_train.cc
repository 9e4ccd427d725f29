#include "tools/tp_run_train.h"

#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "ir/file_digest.h"
#include "ir/package_manifest.h"
#include "ir/status.h"
#include "runtime/train/batches.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/loss_plot.h"
#include "runtime/train/trainer.h"
#include "tools/command_line.h"
#include "tools/load_library.h"

namespace tp {
namespace {

constexpr char kUsage[] =
    R"(usage: tp-run train DIR --data FOLDER_OR_FILE [--data ...] [flags]

Trains the package DIR that tp-compile --train wrote, one thread per rank.

Data: a .safetensors file is one micro-batch, a .jsonl file holds one example
per line, {"input_ids": [...], "labels": [...]}; a folder stands for its files.
  --batch-size N         lines per micro-batch (default 8)
  --pad-to-multiple N    lengths of padded lines (default 8)
  --pad-id N             what ids are padded with (default 0; labels: -100)
  --no-shuffle           in the order given
  --epochs N             times through the data (default 1; 0: without end)
  --steps N              at most so many optimizer steps (default: all data)
  --accumulate N         micro-batches per step (default 1)
  --accumulate-by WHAT   batch (default): each of them counts the same; label:
                         by its labels that are not -100, so that a step (and
                         an evaluation) is the mean over all labels
  --labels NAME          the input with the labels (default labels), and
  --shift N              how many of the first ones the loss leaves out, 1
                         where it predicts the next token (default 0)

Optimizer:
  --optimizer NAME       adafactor, adamw (default) or sgd
  --lr RATE              at the top of the schedule (default 1e-3)
  --schedule NAME        constant (default), linear or cosine
  --warmup N             steps from 0 to the full rate
  --schedule-steps N     steps until the rate is 0 (default: --steps)
  --max-grad-norm X      clips the norm of all gradients (default 1; 0: off)
  --weight-decay X  --no-decay REGEX  --momentum X  --nesterov
  --betas B1,B2     --eps X
  --adafactor KIND       exact (default), or per-shard: statistics of each
                         rank's part alone
  --master-weights       f16 and bf16 parameters: updates an f32 copy
  --stochastic-rounding  bf16 parameters: rounds up or down by chance
  --seed N               of shuffling, dropout and rounding (default 42)

  --eval-data PATH       evaluates on it, --eval-every N steps and at the end
  --save DIR             a checkpoint at the end, and at Ctrl-C, which stops
                         after the step under way
  --save-every N         also every N steps;  --keep N: the newest (default 2)
  --resume PATH          goes on from a checkpoint, bit for bit
  --recompute            keeps less of the forward pass and computes it again
  --loss-scale X         for f16 parameters: dynamic (default there), a number
                         or off
  --weights PATH         starts from weights by original name: a safetensors
                         file, or a HuggingFace folder
  --export FILE          writes the trained parameters, whole, by original name
  --metrics FILE.jsonl   a line per step
  --plot FILE.svg        the losses of this run, drawn at the end
  --log-every N          steps between lines on the screen (default 1)
  --load-library FILE    operators that the package was compiled with
  --threads N  --timeout 60s  --no-verify-hash  -q  --help

Exit codes: 0 ok, 1 run error, 2 usage, 3 bad input, 4 unsupported, 6 rank
died, 7 timeout, 8 out of memory.
)";

struct Options {
  std::string package;
  TrainOptions session;
  TrainerOptions trainer;
  BatchOptions data;
  std::vector<std::string> eval_data;
  std::vector<std::string> libraries;
  std::string metrics;
  std::string plot;
  std::string export_to;
  std::string loss_scale = "auto";
  std::string save;
  std::string resume;
  int save_every = 0;
  int keep = 2;
  std::string betas;
  std::string adafactor = "exact";
  int steps = 0;
  int eval_every = 0;
  int log_every = 1;
  int seed = 42;
  int warmup = 0;
  int schedule_steps = 0;
  int pad_id = 0;
  std::string weigh = "batch";
  std::string labels = "labels";
  bool no_shuffle = false;
  bool no_verify_hash = false;
  bool quiet = false;
  CommonOptions common;
};

constexpr ToolText kTool = {"tp-run train", kUsage,
                            TP_VERSION " (LibTorch " TP_TORCH_VERSION ")"};

// Set by Ctrl-C: the step under way is finished first.
volatile std::sig_atomic_t stop_asked = 0;

absl::Status FinishOptions(Options& options) {
  if (options.data.paths.empty())
    return absl::InvalidArgumentError("say what to train on with --data");
  if (options.save.empty() && options.save_every > 0)
    return absl::InvalidArgumentError("--save-every needs --save DIR");
  if (options.steps < 0 || options.eval_every < 0 || options.save_every < 0 ||
      options.keep < 0 || options.log_every < 0 ||
      options.trainer.accumulate < 1 || options.seed < 0 ||
      options.trainer.max_grad_norm < 0 || options.trainer.lr < 0)
    return absl::InvalidArgumentError(
        "--steps, --eval-every, --log-every, --seed, --max-grad-norm and --lr "
        "cannot be negative, and --accumulate is 1 or more");
  if (options.weigh != "batch" && options.weigh != "label")
    return absl::InvalidArgumentError("--accumulate-by is batch or label");
  if (options.trainer.label_shift < 0)
    return absl::InvalidArgumentError("--shift cannot be negative");
  if (options.weigh == "label")
    options.trainer.weigh_by_labels = options.labels;
  OptimizerOptions& optimizer = options.trainer.optimizer;
  if (!options.betas.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(options.betas, ',');
    if (parts.size() != 2 || !absl::SimpleAtod(parts[0], &optimizer.beta1) ||
        !absl::SimpleAtod(parts[1], &optimizer.beta2))
      return absl::InvalidArgumentError("--betas is two numbers: 0.9,0.999");
  }
  if (options.adafactor != "exact" && options.adafactor != "per-shard")
    return absl::InvalidArgumentError("--adafactor is exact or per-shard");
  optimizer.per_shard = options.adafactor == "per-shard";
  LossScaleOptions& scale = options.trainer.loss_scale;
  if (options.loss_scale == "off") {
    scale.kind = LossScaleOptions::Kind::kOff;
  } else if (options.loss_scale == "dynamic") {
    scale.kind = LossScaleOptions::Kind::kDynamic;
  } else if (options.loss_scale != "auto") {
    scale.kind = LossScaleOptions::Kind::kFixed;
    if (!absl::SimpleAtod(options.loss_scale, &scale.initial) ||
        !(scale.initial > 0))
      return absl::InvalidArgumentError(
          "--loss-scale is dynamic, a positive number or off");
  }
  const auto seed = static_cast<uint64_t>(options.seed);
  optimizer.seed = options.trainer.seed = options.data.seed = seed;
  options.data.shuffle = !options.no_shuffle;
  options.data.pad_id = options.pad_id;
  if (options.steps > 0 && options.data.epochs == 1) options.data.epochs = 0;
  LrScheduleOptions& schedule = options.trainer.schedule;
  schedule.warmup = options.warmup;
  // A constant rate has no end, so a run may be resumed for longer.
  if (schedule.name != "constant")
    schedule.total =
        options.schedule_steps > 0 ? options.schedule_steps : options.steps;
  options.session.package.hash_weights = !options.no_verify_hash;
  return CheckLrSchedule(schedule);
}

absl::Status ParseOptions(int argc, char** argv, Options& options) {
  CommandLine line;
  line.Strings("--data", &options.data.paths);
  line.Int("--batch-size", &options.data.batch_size);
  line.Int("--pad-to-multiple", &options.data.pad_to_multiple);
  line.Int("--pad-id", &options.pad_id);
  line.Switch("--no-shuffle", &options.no_shuffle);
  line.Int("--epochs", &options.data.epochs);
  line.Int("--steps", &options.steps);
  line.Int("--accumulate", &options.trainer.accumulate);
  line.String("--accumulate-by", &options.weigh);
  line.String("--labels", &options.labels);
  line.Int("--shift", &options.trainer.label_shift);
  OptimizerOptions& optimizer = options.trainer.optimizer;
  line.String("--optimizer", &optimizer.name);
  line.Double("--lr", &options.trainer.lr);
  line.String("--schedule", &options.trainer.schedule.name);
  line.Int("--warmup", &options.warmup);
  line.Int("--schedule-steps", &options.schedule_steps);
  line.Double("--max-grad-norm", &options.trainer.max_grad_norm);
  line.Double("--weight-decay", &optimizer.weight_decay);
  line.Strings("--no-decay", &optimizer.no_decay);
  line.Double("--momentum", &optimizer.momentum);
  line.Switch("--nesterov", &optimizer.nesterov);
  line.String("--betas", &options.betas);
  line.Double("--eps", &optimizer.eps);
  line.String("--adafactor", &options.adafactor);
  line.Switch("--master-weights", &optimizer.master_weights);
  line.Switch("--stochastic-rounding", &optimizer.stochastic_rounding);
  line.Int("--seed", &options.seed);
  line.Strings("--eval-data", &options.eval_data);
  line.Int("--eval-every", &options.eval_every);
  line.String("--metrics", &options.metrics);
  line.String("--plot", &options.plot);
  line.String("--weights", &options.session.weights);
  line.Switch("--recompute", &options.session.recompute);
  line.String("--loss-scale", &options.loss_scale);
  line.String("--export", &options.export_to);
  line.String("--save", &options.save);
  line.Int("--save-every", &options.save_every);
  line.Int("--keep", &options.keep);
  line.String("--resume", &options.resume);
  line.Int("--log-every", &options.log_every);
  line.Int("--threads", &options.session.group.threads);
  line.Duration("--timeout", &options.session.group.timeout);
  line.Switch("--no-verify-hash", &options.no_verify_hash);
  line.Strings("--load-library", &options.libraries);
  line.Switch("-q", &options.quiet);
  TP_RETURN_IF_ERROR(line.ParseCommon(argc, argv, "package folder",
                                      /*required=*/true, options.common));
  if (options.common.answers()) return absl::OkStatus();
  options.package = options.common.positional;
  return FinishOptions(options);
}

// JSON has no word for what is no finite number.
std::string JsonNumber(double number) {
  return std::isfinite(number) ? absl::StrFormat("%.9g", number) : "null";
}

class Training {
 public:
  explicit Training(const Options& options) : options_(options) {}

  absl::Status Run() {
    TP_RETURN_IF_ERROR(LoadLibraries(options_.libraries));
    TP_ASSIGN_OR_RETURN(PackageManifest manifest,
                        PackageManifest::Read(options_.package));
    TP_RETURN_IF_ERROR(CheckOperators(manifest));
    TP_ASSIGN_OR_RETURN(session_,
                        TrainSession::Open(options_.package, options_.session));
    TP_ASSIGN_OR_RETURN(batches_, Batches::Open(DataOptions()));
    TP_ASSIGN_OR_RETURN(trainer_, Trainer::Create(*session_, options_.trainer));
    TP_RETURN_IF_ERROR(CheckSave());
    if (!options_.resume.empty()) {
      DataPosition position;
      TP_RETURN_IF_ERROR(
          LoadCheckpoint(options_.resume, *session_, *trainer_, position));
      batches_->Seek(position.epoch, position.position);
    }
    if (!options_.metrics.empty()) {
      metrics_.open(options_.metrics, options_.resume.empty()
                                          ? std::ios::binary
                                          : std::ios::binary | std::ios::app);
      if (!metrics_)
        return absl::InvalidArgumentError(absl::StrCat(
            "--metrics ", options_.metrics, ": cannot be written"));
    }
    TP_RETURN_IF_ERROR(Steps());
    if (!options_.save.empty() && saved_step_ != trainer_->steps_done())
      TP_RETURN_IF_ERROR(Save());
    if (!options_.eval_data.empty() &&
        evaluated_step_ != trainer_->steps_done())
      TP_RETURN_IF_ERROR(Evaluate());
    if (!options_.plot.empty())
      TP_RETURN_IF_ERROR(
          WriteTextFile(options_.plot, LossPlot(losses_, eval_losses_)));
    if (options_.export_to.empty()) return absl::OkStatus();
    TP_ASSIGN_OR_RETURN(NamedTensors parameters, session_->WholeParameters());
    return WriteTensors(options_.export_to, parameters);
  }

 private:
  BatchOptions DataOptions() const {
    BatchOptions data = options_.data;
    for (const ProgramArgument& input : session_->inputs())
      data.inputs.push_back(input.info.name);
    return data;
  }

  absl::Status Steps() {
    const NextBatch next = [this] { return batches_->Next(); };
    while (stop_asked == 0 &&
           (options_.steps == 0 || trainer_->steps_done() < options_.steps)) {
      TP_ASSIGN_OR_RETURN(std::optional<StepReport> report,
                          trainer_->Step(next));
      if (!report) break;
      TP_RETURN_IF_ERROR(Tell(*report));
      if (options_.eval_every > 0 && !options_.eval_data.empty() &&
          report->step % options_.eval_every == 0)
        TP_RETURN_IF_ERROR(Evaluate());
      if (options_.save_every > 0 && report->step % options_.save_every == 0)
        TP_RETURN_IF_ERROR(Save());
    }
    if (stop_asked != 0)
      std::cerr << "tp-run: stopped after step " << trainer_->steps_done()
                << "\n";
    if (trainer_->steps_done() == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("the data has fewer than ", options_.trainer.accumulate,
                       " micro-batches, which one step takes (--accumulate)"));
    return absl::OkStatus();
  }

  // Before hours of training rather than after them.
  absl::Status CheckSave() const {
    if (options_.save.empty()) return absl::OkStatus();
    std::error_code error;
    std::filesystem::create_directories(options_.save, error);
    if (!error && access(options_.save.c_str(), W_OK) == 0)
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--save ", options_.save, ": ",
                     error ? error.message() : "no permission to write there"));
  }

  absl::Status Save() {
    DataPosition position;
    position.epoch = batches_->epoch();
    position.position = batches_->position();
    TP_RETURN_IF_ERROR(SaveCheckpoint(options_.save, *session_, *trainer_,
                                      position, options_.keep));
    saved_step_ = trainer_->steps_done();
    if (!options_.quiet)
      std::cout << "step " << saved_step_ << "  saved to " << options_.save
                << std::endl;
    return absl::OkStatus();
  }

  absl::Status Tell(const StepReport& report) {
    if (!options_.plot.empty()) losses_.push_back({report.step, report.loss});
    if (metrics_.is_open()) {
      metrics_ << absl::StrFormat(
          "{\"step\": %d, \"loss\": %s, \"lr\": %.9g, \"grad_norm\": %s, "
          "\"tokens\": %d, \"seconds\": %.6f}\n",
          report.step, JsonNumber(report.loss), report.lr,
          JsonNumber(report.grad_norm), report.tokens, report.seconds);
      metrics_.flush();
      if (!metrics_)
        return absl::UnavailableError(
            absl::StrCat(options_.metrics, ": cannot be written"));
    }
    if (!options_.quiet && options_.log_every > 0 &&
        report.step % options_.log_every == 0)
      std::cout << absl::StrFormat(
                       "step %d  loss %.4f  lr %.3g  grad norm %.4f  %.0f "
                       "tokens/s%s",
                       report.step, report.loss, report.lr, report.grad_norm,
                       static_cast<double>(report.tokens) / report.seconds,
                       report.skipped ? "  skipped: a gradient overflowed" : "")
                << std::endl;
    return absl::OkStatus();
  }

  absl::Status Evaluate() {
    BatchOptions data = DataOptions();
    data.paths = options_.eval_data;
    data.shuffle = false;
    data.epochs = 1;
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Batches> batches, Batches::Open(data));
    TP_ASSIGN_OR_RETURN(double loss,
                        trainer_->Evaluate([&] { return batches->Next(); }));
    evaluated_step_ = trainer_->steps_done();
    if (!options_.plot.empty()) eval_losses_.push_back({evaluated_step_, loss});
    if (metrics_.is_open())
      metrics_ << absl::StrFormat("{\"step\": %d, \"eval_loss\": %s}\n",
                                  trainer_->steps_done(), JsonNumber(loss))
               << std::flush;
    if (!options_.quiet)
      std::cout << absl::StrFormat("step %d  evaluation loss %.4f",
                                   trainer_->steps_done(), loss)
                << std::endl;
    return absl::OkStatus();
  }

  const Options& options_;
  std::unique_ptr<TrainSession> session_;
  std::unique_ptr<Batches> batches_;
  std::unique_ptr<Trainer> trainer_;
  std::ofstream metrics_;
  LossCurve losses_;  // kept for --plot
  LossCurve eval_losses_;
  int64_t saved_step_ = -1;
  int64_t evaluated_step_ = -1;
};

}  // namespace

int TrainMain(int argc, char** argv) {
  Options options;
  const absl::Status parsed = ParseOptions(argc, argv, options);
  if (std::optional<int> answer = AnswerCommon(kTool, parsed, options.common))
    return *answer;
  for (int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int) { stop_asked = 1; });
  absl::Status status;
  try {
    status = Training(options).Run();
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  return status.ok() ? 0 : Fail(kTool, status);
}

}  // namespace tp
