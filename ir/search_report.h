// What the search for a plan says of its answer.
#ifndef TP_IR_SEARCH_REPORT_H_
#define TP_IR_SEARCH_REPORT_H_

#include <optional>

#include "llvm/Support/JSON.h"

namespace tp {

struct SearchReport {
  bool optimal = false;  // proven, for the search's objective
  double gap = 0;        // at most so much (1 is all) is left to gain
  // How long it took; not kept in packages, which are the same each time.
  std::optional<double> seconds;

  llvm::json::Object ToJson() const {
    llvm::json::Object object{{"optimal", optimal}, {"gap", gap}};
    if (seconds) object["seconds"] = *seconds;
    return object;
  }
  static std::optional<SearchReport> FromJson(
      const llvm::json::Object* object) {
    if (object == nullptr) return std::nullopt;
    SearchReport report;
    report.optimal = object->getBoolean("optimal").value_or(false);
    report.gap = object->getNumber("gap").value_or(0);
    return report;
  }
};

}  // namespace tp

#endif  // TP_IR_SEARCH_REPORT_H_
