#include "passes/plan_diff.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ir/json_nesting.h"
#include "ir/status.h"
#include "ir/value_names.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace tp {
namespace {

constexpr int kMaxJsonDepth = 16;

std::string Row(const std::string& what, const std::string& a,
                const std::string& b) {
  return absl::StrFormat("%-26s %16s %16s\n", what, a, b);
}

std::string NumberRow(const std::string& what, double a, double b) {
  const auto text = [](double number) {
    return absl::StrFormat("%.*f", number == std::floor(number) ? 0 : 1,
                           number);
  };
  std::string row = Row(what, text(a), text(b));
  if (a == b || a == 0) return row;
  row.pop_back();
  return absl::StrCat(row, absl::StrFormat("  %+.1f %%\n", 100 * (b - a) / a));
}

// Count and bytes of collectives by phase, kind and axis.
std::map<std::string, std::pair<double, double>> ByKind(
    const PlanSummary& summary) {
  std::map<std::string, std::pair<double, double>> by_kind;
  for (const CollectiveSummary& collective : summary.collectives) {
    auto& entry = by_kind[absl::StrCat(collective.kind, " ", collective.axis,
                                       " ", collective.phase)];
    entry.first += 1;
    entry.second += static_cast<double>(collective.bytes);
  }
  return by_kind;
}

double LargestPeak(const PlanSummary& summary) {
  int64_t largest = 0;
  for (const MemorySummary& rank : summary.memory)
    largest = std::max(largest, rank.peak);
  return static_cast<double>(largest);
}

// Lines of names that lie otherwise, or that only one of the two has.
std::string Differences(const std::string& what,
                        const std::map<std::string, std::string>& a,
                        const std::map<std::string, std::string>& b) {
  std::string lines;
  int count = 0;
  const auto add = [&](const std::string& name, const std::string& first,
                       const std::string& second) {
    ++count;
    absl::StrAppend(&lines, "  ", name, ": ", first, " | ", second, "\n");
  };
  for (const auto& [name, spec] : a) {
    auto other = b.find(name);
    if (other == b.end())
      add(name, spec, "not there");
    else if (other->second != spec)
      add(name, spec, other->second);
  }
  for (const auto& [name, spec] : b)
    if (a.count(name) == 0) add(name, "not there", spec);
  if (count == 0) return "";
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s",
                      count == 1 ? " lies" : " lie", " otherwise:\n", lines);
}

std::map<std::string, std::string> WeightSpecs(const PlanSummary& summary) {
  std::map<std::string, std::string> specs;
  for (const WeightSummary& weight : summary.weights)
    specs[weight.name] = weight.placement;
  return specs;
}

std::map<std::string, std::string> ValueSpecs(const Module& module) {
  std::map<std::string, std::string> specs;
  for (const NamedValue& named : NamedValues(module))
    specs[named.name] = ToString(named.value->spec());
  return specs;
}

}  // namespace

std::string PlanDiffText(const PlanOfPackage& a, const PlanOfPackage& b) {
  const std::string weights =
      Differences("weight", WeightSpecs(a.summary), WeightSpecs(b.summary));
  const std::string values =
      Differences("value", ValueSpecs(a.planned), ValueSpecs(b.planned));
  const auto kinds_a = ByKind(a.summary);
  const auto kinds_b = ByKind(b.summary);
  const bool same = weights.empty() && values.empty() && kinds_a == kinds_b &&
                    a.planned.mesh() == b.planned.mesh() &&
                    a.summary.compute_us == b.summary.compute_us &&
                    a.summary.communicate_us == b.summary.communicate_us &&
                    LargestPeak(a.summary) == LargestPeak(b.summary);
  if (same) return "no difference\n";
  std::string text = Row("", "first", "second");
  absl::StrAppend(
      &text,
      Row("mesh", a.planned.mesh().ToString(), b.planned.mesh().ToString()),
      NumberRow("step us", a.summary.compute_us + a.summary.communicate_us,
                b.summary.compute_us + b.summary.communicate_us),
      NumberRow("compute us", a.summary.compute_us, b.summary.compute_us),
      NumberRow("communicate us", a.summary.communicate_us,
                b.summary.communicate_us),
      NumberRow("weights, fullest rank",
                static_cast<double>(a.summary.largest_rank_bytes()),
                static_cast<double>(b.summary.largest_rank_bytes())),
      NumberRow("peak, fullest rank", LargestPeak(a.summary),
                LargestPeak(b.summary)));
  std::map<std::string, std::pair<double, double>> all = kinds_a;
  all.insert(kinds_b.begin(), kinds_b.end());
  for (const auto& [kind, unused] : all) {
    const auto of = [&](const auto& kinds) {
      auto it = kinds.find(kind);
      return it == kinds.end() ? std::pair<double, double>() : it->second;
    };
    absl::StrAppend(
        &text, NumberRow(kind, of(kinds_a).first, of(kinds_b).first),
        NumberRow("  bytes", of(kinds_a).second, of(kinds_b).second));
  }
  return absl::StrCat(text, weights, values);
}

absl::StatusOr<std::string> MeasuredText(const PlanSummary& summary,
                                         llvm::StringRef record) {
  const auto bad = [](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a record of tp-run DIR --bench N --json: ", why));
  };
  if (NestedTooDeep(record, kMaxJsonDepth)) return bad("nested too deep");
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(record);
  if (!json) return bad(llvm::toString(json.takeError()));
  const llvm::json::Object* root = json->getAsObject();
  const llvm::json::Array* ranks =
      root == nullptr ? nullptr : root->getArray("ranks");
  if (ranks == nullptr) return bad("it has no \"ranks\"");
  if (ranks->size() != summary.memory.size())
    return absl::InvalidArgumentError(
        absl::StrCat("the record is of ", ranks->size(),
                     " ranks, the package of ", summary.memory.size()));
  // The slowest rank counts, as in predictions.
  const auto slowest = [&](const char* key) {
    double most = 0;
    for (const llvm::json::Value& rank : *ranks)
      if (const llvm::json::Object* entry = rank.getAsObject())
        most = std::max(most, entry->getNumber(key).value_or(0));
    return most;
  };
  int64_t bytes = 0;
  for (const CollectiveSummary& collective : summary.collectives)
    bytes += collective.bytes;
  const double step = summary.compute_us + summary.communicate_us;
  std::string text = Row("", "predicted", "measured");
  absl::StrAppend(
      &text,
      NumberRow("step us", step, root->getNumber("median_us").value_or(0)),
      NumberRow("compute us", summary.compute_us, slowest("compute_us")),
      NumberRow("communicate us", summary.communicate_us,
                slowest("communicate_us")),
      NumberRow("collectives", static_cast<double>(summary.collectives.size()),
                root->getNumber("collectives").value_or(0)),
      NumberRow("collective bytes", static_cast<double>(bytes),
                root->getNumber("collective_bytes").value_or(0)),
      NumberRow("weights, fullest rank",
                static_cast<double>(summary.largest_rank_bytes()),
                slowest("weight_bytes")));
  return text;
}

}  // namespace tp
