#include "passes/plan_json.h"

#include "ir/status.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace tp {

std::string PlanJson(const PlanSummary& summary, const Mesh& mesh,
                     const std::optional<SearchReport>& search) {
  llvm::Expected<llvm::json::Value> json =
      llvm::json::parse(SummaryJson(summary));
  TP_CHECK(static_cast<bool>(json), "the summary is no JSON");
  llvm::json::Object& root = *json->getAsObject();
  llvm::json::Object axes;
  for (const MeshAxis& axis : mesh.axes()) axes[axis.name] = axis.size;
  root["mesh"] = std::move(axes);
  if (search) root["search"] = search->ToJson();
  return llvm::formatv("{0:2}", *json).str() + "\n";
}

}  // namespace tp
