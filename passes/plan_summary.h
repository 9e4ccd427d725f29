// What a plan holds and costs, as numbers and as tables.
#ifndef TP_PASSES_PLAN_SUMMARY_H_
#define TP_PASSES_PLAN_SUMMARY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "passes/cost_model.h"

namespace tp {

struct WeightSummary {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<int64_t> shape;  // global
  std::string dtype;
  int64_t bytes = 0;  // of the whole
  std::string placement;
  std::vector<int64_t> local_bytes;  // per rank
  // Why a rank holds more than its part: "" if none does.
  std::string imbalance;
};

struct CollectiveSummary {
  std::string kind;  // "all_reduce", ...
  std::string axis;
  std::string phase;  // "forward" or "backward"
  int64_t bytes = 0;  // of the whole tensor, by the example sizes
  std::string op;     // the producer whose result is communicated
  std::string module;
  std::string source;  // "gpt2.py:12"
};

struct MemorySummary {  // bytes of one rank, by the example sizes
  int64_t weights = 0;
  int64_t gradients = 0;    // of trainable parameters, when training
  int64_t activations = 0;  // at the peak, by liveness
  int64_t peak = 0;
};

struct PlanSummary {
  std::string mesh;
  std::vector<WeightSummary> weights;
  std::vector<CollectiveSummary> collectives;
  std::vector<MemorySummary> memory;  // per rank
  double compute_us = 0;              // predicted
  double communicate_us = 0;

  int64_t total_weight_bytes() const;
  int64_t split_weight_bytes() const;   // of weights no rank holds whole
  int64_t largest_rank_bytes() const;   // weights of the fullest rank
};

// Of the functions of a module that PlanPipeline finished.
absl::StatusOr<PlanSummary> Summarize(const Module& planned,
                                      const CostModel& cost);

// A page of text: mesh, bytes per rank, collectives by kind, weights.
std::string SummaryText(const PlanSummary& summary, bool all_weights);
// The stable JSON of tp-inspect --json and tp-compile --plan-only --json.
std::string SummaryJson(const PlanSummary& summary);
// One line per op: module path, op, placements, collective, bytes, source.
std::string OpsText(const Module& planned);

}  // namespace tp

#endif  // TP_PASSES_PLAN_SUMMARY_H_
