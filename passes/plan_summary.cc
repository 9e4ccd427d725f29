#include "passes/plan_summary.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/op_def.h"
#include "ir/schedule.h"
#include "ir/shard_extent.h"
#include "ir/status.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "passes/gradients.h"
#include "passes/strategy.h"

namespace tp {
namespace {

int64_t HintOf(const SymExpr& expr, const Module& module) {
  absl::StatusOr<int64_t> value = module.assumptions().Hint(expr);
  return value.ok() ? *value : 1;
}

std::string PlainSource(const Location& location) {
  if (location.file.empty()) return "";
  return absl::StrCat(location.file, ":", location.line);
}

// Bytes of the part of a value that a rank holds, by the example sizes.
int64_t LocalBytes(const Value& value, const Module& module, int64_t rank) {
  int64_t bytes = ByteSize(value.type().dtype);
  for (const SymExpr& dim : value.type().dims) bytes *= HintOf(dim, module);
  const auto coordinates = module.mesh().Coordinates(rank);
  for (int axis = 0; axis < module.mesh().ndim(); ++axis) {
    const Placement placement = AxisPlacement(value, axis);
    if (!placement.is_shard()) continue;
    const SymExpr& size = placement.factor().size;
    const int64_t whole = HintOf(size, module);
    const int64_t part = HintOf(
        ShardExtentOf(size, module.mesh().axis(axis).size, coordinates[axis])
            .extent,
        module);
    bytes = whole == 0 ? 0 : bytes / whole * part;
  }
  return bytes;
}

// Weights that the busiest rank holds more of than an even part say why, if
// the excess is worth a word (half a percent of all weights).
std::string ImbalanceOf(const WeightSummary& weight, const Value& value,
                        const Module& module, int64_t total_bytes) {
  const auto ranks = static_cast<double>(module.mesh().num_ranks());
  const int64_t largest =
      *std::max_element(weight.local_bytes.begin(), weight.local_bytes.end());
  const double excess =
      static_cast<double>(largest) * ranks - static_cast<double>(weight.bytes);
  if (excess <= 0.15 * static_cast<double>(weight.bytes) ||
      excess <= 0.005 * static_cast<double>(total_bytes))
    return "";
  for (int axis = 0; axis < module.mesh().ndim(); ++axis) {
    const Placement placement = AxisPlacement(value, axis);
    const int64_t size = module.mesh().axis(axis).size;
    if (!placement.is_shard()) continue;
    if (HintOf(placement.factor().size, module) % size == 0) continue;
    return absl::StrCat("its factor of ", placement.factor().size.ToString(),
                        " does not divide by ", size, " ranks");
  }
  for (int axis = 0; axis < module.mesh().ndim(); ++axis)
    if (AxisPlacement(value, axis).is_shard())
      return "each copy of the model holds it";
  return "held whole: no use of it splits without more communication";
}

WeightSummary SummarizeWeight(const Module& module, const ArgumentInfo& info,
                              const Value& value) {
  WeightSummary weight;
  weight.name = info.name;
  weight.aliases = info.aliases;
  weight.dtype = std::string(Name(value.type().dtype));
  weight.bytes = ByteSize(value.type().dtype);
  for (const SymExpr& dim : value.type().dims) {
    weight.shape.push_back(HintOf(dim, module));
    weight.bytes *= weight.shape.back();
  }
  weight.placement = ToString(value.spec());
  for (int64_t rank = 0; rank < module.mesh().num_ranks(); ++rank)
    weight.local_bytes.push_back(LocalBytes(value, module, rank));
  return weight;
}

// Values that the derivative of an op keeps, by its row.
std::vector<const Value*> SavedBy(const Op& op, const OpDef& def) {
  std::vector<const Value*> saved;
  llvm::SmallVector<llvm::StringRef, 4> words;
  llvm::StringRef(def.saves).split(words, ',');
  for (llvm::StringRef word : words) {
    word = word.trim();
    int operand = 0;
    if (word == "result" && op.num_results() > 0)
      saved.push_back(op.result());
    else if (!word.getAsInteger(10, operand) &&
             op.operand_or_null(operand) != nullptr)
      saved.push_back(op.operand(operand));
  }
  return saved;
}

// Peak bytes of live results, with values freed at their last use and views
// counted with what they show. With `keep_saved`, what derivatives need lives
// to the end.
// A region counts with its own peak where its op stands; what it reads of
// outside lives until then.
int64_t PeakActivations(const Block& body, const Module& module, int64_t rank,
                        const llvm::DenseSet<const Value*>* differentiated) {
  llvm::DenseMap<const Value*, const Value*> owner;
  llvm::DenseMap<const Value*, int> last_use;
  const auto owner_of = [&](const Value* value) {
    auto it = owner.find(value);
    return it == owner.end() ? value : it->second;
  };
  int index = 0;
  for (const auto& op : body.ops()) {
    const OpDef* def = FindOpDef(*op);
    const bool view = def != nullptr && (def->traits & kView);
    const bool boundary = def != nullptr && (def->traits & kBoundary) &&
                          op->num_operands() == op->num_results();
    for (const Value* operand : op->operands())
      if (operand != nullptr) last_use[owner_of(operand)] = index;
    for (const auto& region : op->regions()) {
      const auto use = [&](const Value* value) {
        if (value != nullptr && last_use.count(owner_of(value)) > 0)
          last_use[owner_of(value)] = index;
      };
      for (const Value* result : region->results()) use(result);
      ForEachOp(*region, [&](const Op& nested) {
        for (const Value* operand : nested.operands()) use(operand);
      });
    }
    for (int i = 0; i < op->num_results(); ++i) {
      const Value* shown = view       ? op->operand_or_null(0)
                           : boundary ? op->operand_or_null(i)
                                      : nullptr;
      if (shown != nullptr)
        owner[op->result(i)] = owner_of(shown);
      else
        last_use[op->result(i)] = index;
    }
    ++index;
  }
  for (const Value* result : body.results()) last_use[owner_of(result)] = index;
  if (differentiated != nullptr) {
    for (const auto& op : body.ops()) {
      const OpDef* def = FindOpDef(*op);
      if (def == nullptr || op->num_results() == 0 ||
          !differentiated->contains(op->result()))
        continue;
      for (const Value* value : SavedBy(*op, *def))
        last_use[owner_of(value)] = index;
    }
  }

  std::map<int, int64_t> freed;
  int64_t live = 0;
  int64_t peak = 0;
  index = 0;
  for (const auto& op : body.ops()) {
    for (int i = 0; i < op->num_results(); ++i) {
      const Value* result = op->result(i);
      if (owner_of(result) != result) continue;
      const int64_t bytes = LocalBytes(*result, module, rank);
      live += bytes;
      freed[last_use[result]] += bytes;
    }
    int64_t inside = 0;
    for (const auto& region : op->regions())
      inside =
          std::max(inside, PeakActivations(*region, module, rank, nullptr));
    peak = std::max(peak, live + inside);
    live -= freed[index];
    ++index;
  }
  return peak;
}

void AddCollective(const Op& op, const std::string& phase, const Module& module,
                   PlanSummary& summary) {
  CollectiveSummary collective;
  collective.phase = phase;
  collective.kind = op.name().substr(sizeof("tp.") - 1);
  if (const Attribute* axis = op.attribute("axis"))
    collective.axis = axis->as_string();
  collective.bytes = static_cast<int64_t>(
      HintBytes(op.result()->type(), module.assumptions()));
  const Op* producer = op.operand(0)->op();
  collective.op = producer != nullptr ? producer->name() : "argument";
  const Location& location =
      producer != nullptr ? producer->location() : op.location();
  collective.module = location.module_path;
  collective.source = PlainSource(location);
  summary.collectives.push_back(std::move(collective));
}

// Of the op on the busiest rank, all axes together.
absl::StatusOr<double> OpTime(const Op& op, const Module& module,
                              const CostModel& cost) {
  TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(op));
  double share = 1;
  for (int axis = 0; axis < module.mesh().ndim(); ++axis) {
    TP_ASSIGN_OR_RETURN(Strategy strategy,
                        DeriveStrategy(op, rule, module, axis, cost));
    if (strategy.kind == Strategy::Kind::kSplit)
      share *=
          LargestShare(strategy.split.within.size,
                       module.mesh().axis(axis).size, module.assumptions());
  }
  double bytes = 0;
  for (const Value* operand : op.operands())
    if (operand != nullptr)
      bytes += static_cast<double>(LocalBytes(*operand, module, 0));
  for (int i = 0; i < op.num_results(); ++i)
    bytes += static_cast<double>(LocalBytes(*op.result(i), module, 0));
  return OpMicroseconds(cost, op, share, bytes, module.assumptions());
}

// Branches and bodies of loops count once.
absl::Status AddTimes(const Block& block, const Module& module,
                      const CostModel& cost, PlanSummary& summary) {
  for (const auto& op : block.ops()) {
    for (const auto& region : op->regions())
      TP_RETURN_IF_ERROR(AddTimes(*region, module, cost, summary));
    const CollectiveKind kind = KindOf(*op);
    if (kind == CollectiveKind::kBroadcast) {
      summary.communicate_us += cost.link_latency_us;
      continue;
    }
    if (Communicates(kind)) {
      for (int axis = 0; axis < module.mesh().ndim(); ++axis)
        if (module.mesh().axis(axis).name == op->attribute("axis")->as_string())
          summary.communicate_us += ReshardMicroseconds(
              cost, op->result()->type(), AxisPlacement(*op->operand(0), axis),
              AxisPlacement(*op->result(), axis), module.mesh().axis(axis).size,
              module.assumptions());
      continue;
    }
    if (HasTrait(*op, kBoundary | kCollective | kRegions) ||
        module.mesh().ndim() == 0)
      continue;
    TP_ASSIGN_OR_RETURN(double microseconds, OpTime(*op, module, cost));
    summary.compute_us += microseconds;
  }
  return absl::OkStatus();
}

std::string Bytes(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", bytes)
                   : absl::StrFormat("%.2f %s", bytes, units[unit]);
}

std::string ShapeText(const WeightSummary& weight) {
  return absl::StrCat(weight.dtype, "[", absl::StrJoin(weight.shape, ","), "]");
}

std::string CollectivesText(const PlanSummary& summary) {
  std::map<std::string, std::pair<int, int64_t>> by_kind;
  for (const CollectiveSummary& collective : summary.collectives) {
    ++by_kind[collective.kind].first;
    by_kind[collective.kind].second += collective.bytes;
  }
  if (by_kind.empty()) return "none";
  return absl::StrJoin(by_kind, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second.first, " ", entry.first, " (",
                    Bytes(static_cast<double>(entry.second.second)), ")");
  });
}

}  // namespace

int64_t PlanSummary::total_weight_bytes() const {
  int64_t sum = 0;
  for (const WeightSummary& weight : weights) sum += weight.bytes;
  return sum;
}

int64_t PlanSummary::split_weight_bytes() const {
  int64_t sum = 0;
  for (const WeightSummary& weight : weights)
    if (*std::max_element(weight.local_bytes.begin(),
                          weight.local_bytes.end()) < weight.bytes)
      sum += weight.bytes;
  return sum;
}

int64_t PlanSummary::largest_rank_bytes() const {
  int64_t largest = 0;
  for (const MemorySummary& rank : memory)
    largest = std::max(largest, rank.weights);
  return largest;
}

absl::StatusOr<PlanSummary> Summarize(const Module& planned,
                                      const CostModel& cost) {
  PlanSummary summary;
  summary.mesh = planned.mesh().ToString();
  summary.memory.resize(planned.mesh().num_ranks());
  const bool train = planned.function("backward") != nullptr;
  std::set<std::string> weights;     // seen so far
  std::vector<const Value*> values;  // of summary.weights
  for (const auto& function : planned.functions()) {
    const bool first = function == planned.functions().front();
    for (size_t i = 0; i < function->arguments().size(); ++i) {
      const ArgumentInfo& info = function->arguments()[i];
      // Functions share weights.
      if (!info.is_weight() || !weights.insert(info.name).second) continue;
      values.push_back(function->body().arguments()[i].get());
      summary.weights.push_back(
          SummarizeWeight(planned, info, *function->body().arguments()[i]));
      for (size_t rank = 0; rank < summary.memory.size(); ++rank) {
        const int64_t bytes = summary.weights.back().local_bytes[rank];
        summary.memory[rank].weights += bytes;
        if (train && info.is_trainable())
          summary.memory[rank].gradients += bytes;
      }
    }
    const std::string phase = train && !first ? "backward" : function->name();
    ForEachOp(function->body(), [&](const Op& op) {
      if (Communicates(KindOf(op))) AddCollective(op, phase, planned, summary);
    });
    llvm::DenseSet<const Value*> differentiated;
    if (first && train) differentiated = ValuesWithGradients(*function);
    for (size_t rank = 0; rank < summary.memory.size(); ++rank)
      summary.memory[rank].activations = std::max(
          summary.memory[rank].activations,
          PeakActivations(function->body(), planned, static_cast<int64_t>(rank),
                          first && train ? &differentiated : nullptr));
    TP_RETURN_IF_ERROR(AddTimes(function->body(), planned, cost, summary));
    // The derivatives of segments take twice what the segments take.
    if (first && train) summary.compute_us *= 3;
  }
  for (size_t i = 0; i < summary.weights.size(); ++i)
    summary.weights[i].imbalance = ImbalanceOf(
        summary.weights[i], *values[i], planned, summary.total_weight_bytes());
  for (MemorySummary& rank : summary.memory)
    rank.peak = rank.weights + rank.gradients + rank.activations;
  return summary;
}

std::string SummaryText(const PlanSummary& summary, bool all_weights) {
  const auto total = static_cast<double>(summary.total_weight_bytes());
  std::string text = absl::StrFormat(
      "mesh         %s\nweights      %s in all, %.1f%% split\n", summary.mesh,
      Bytes(total),
      total == 0
          ? 0.0
          : 100.0 * static_cast<double>(summary.split_weight_bytes()) / total);
  for (size_t rank = 0; rank < summary.memory.size(); ++rank)
    absl::StrAppend(
        &text, absl::StrFormat(
                   "rank %-7d weights %s, activations %s, peak %s\n", rank,
                   Bytes(static_cast<double>(summary.memory[rank].weights)),
                   Bytes(static_cast<double>(summary.memory[rank].activations)),
                   Bytes(static_cast<double>(summary.memory[rank].peak))));
  absl::StrAppend(&text, "collectives  ", CollectivesText(summary), "\n");
  absl::StrAppend(&text,
                  absl::StrFormat("predicted    compute %.0f us, communicate "
                                  "%.0f us per step\n",
                                  summary.compute_us, summary.communicate_us));
  size_t width = 6;
  for (const WeightSummary& weight : summary.weights)
    width = std::max(width, weight.name.size());
  for (const WeightSummary& weight : summary.weights) {
    if (!all_weights && weight.imbalance.empty()) continue;
    absl::StrAppend(
        &text,
        absl::StrFormat("  %-*s %-18s %-18s", static_cast<int>(width),
                        weight.name, ShapeText(weight), weight.placement));
    if (!weight.aliases.empty())
      absl::StrAppend(&text, " = ", absl::StrJoin(weight.aliases, ", "));
    if (!weight.imbalance.empty())
      absl::StrAppend(&text, " (", weight.imbalance, ")");
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string SummaryJson(const PlanSummary& summary) {
  using llvm::json::Array;
  using llvm::json::Object;
  Array weights;
  for (const WeightSummary& weight : summary.weights) {
    Object entry{{"name", weight.name},
                 {"aliases", Array(weight.aliases)},
                 {"shape", Array(weight.shape)},
                 {"dtype", weight.dtype},
                 {"bytes", weight.bytes},
                 {"placement", weight.placement},
                 {"local_bytes", Array(weight.local_bytes)}};
    if (!weight.imbalance.empty()) entry["imbalance"] = weight.imbalance;
    weights.push_back(std::move(entry));
  }
  Array collectives;
  for (const CollectiveSummary& collective : summary.collectives)
    collectives.push_back(Object{{"kind", collective.kind},
                                 {"axis", collective.axis},
                                 {"bytes", collective.bytes},
                                 {"phase", collective.phase},
                                 {"op", collective.op},
                                 {"module", collective.module},
                                 {"source", collective.source}});
  Array memory;
  for (const MemorySummary& rank : summary.memory)
    memory.push_back(Object{{"weights", rank.weights},
                            {"gradients", rank.gradients},
                            {"optimizer", 0},
                            {"activations", rank.activations},
                            {"buffers", 0},
                            {"peak", rank.peak}});
  Object root{{"version", 1},
              {"mesh", summary.mesh},
              {"weights", std::move(weights)},
              {"collectives", std::move(collectives)},
              {"memory", std::move(memory)},
              {"predicted",
               Object{{"step_us", summary.compute_us + summary.communicate_us},
                      {"compute_us", summary.compute_us},
                      {"communicate_us", summary.communicate_us}}}};
  return llvm::formatv("{0:2}", llvm::json::Value(std::move(root))).str() +
         "\n";
}

namespace {

void AddOpsText(const Block& block, int depth, std::string& text) {
  for (const auto& op : block.ops()) {
    std::vector<std::string> operands;
    for (const Value* operand : op->operands())
      operands.push_back(operand == nullptr ? "none"
                                            : ToString(operand->spec()));
    const std::string result =
        op->num_results() == 0
            ? ""
            : absl::StrCat(ToString(op->result()->type()), " ",
                           ToString(op->result()->spec()));
    absl::StrAppend(&text, std::string(2 * depth, ' '),
                    absl::StrFormat("%-28s %-36s (%s) -> %s  %s\n",
                                    op->location().module_path, op->name(),
                                    absl::StrJoin(operands, ", "), result,
                                    PlainSource(op->location())));
    for (const auto& region : op->regions()) {
      absl::StrAppend(&text, std::string(2 * depth, ' '), "{\n");
      AddOpsText(*region, depth + 1, text);
      absl::StrAppend(&text, std::string(2 * depth, ' '), "}\n");
    }
  }
}

}  // namespace

std::string OpsText(const Module& planned) {
  std::string text;
  for (const auto& function : planned.functions()) {
    absl::StrAppend(&text, "@", function->name(), "\n");
    AddOpsText(function->body(), 0, text);
  }
  return text;
}

}  // namespace tp
