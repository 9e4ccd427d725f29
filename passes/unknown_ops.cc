#include "passes/unknown_ops.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ir/op_def.h"

namespace tp {
namespace {

struct Use {
  int count = 0;
  Location first;
  int64_t whole = 0;     // bytes of operands and results
  int64_t gathered = 0;  // of those, bytes that a collective made whole
};

int64_t BytesOf(const Value& value, const Module& module) {
  int64_t bytes = ByteSize(value.type().dtype);
  for (const SymExpr& dim : value.type().dims) {
    absl::StatusOr<int64_t> size = module.assumptions().Hint(dim);
    bytes *= size.ok() ? *size : 1;
  }
  return bytes;
}

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.3f MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

std::vector<std::string> UnknownOpWarnings(const Module& planned) {
  std::map<std::string, Use> uses;
  std::vector<const Op*> ops;
  for (const auto& function : planned.functions()) {
    // The backward pass has no ops of the model's own.
    if (function->name() == "backward") break;
    ForEachOp(function->body(), [&](const Op& op) { ops.push_back(&op); });
  }
  for (const Op* op : ops) {
    if (FindOpDef(*op) != nullptr) continue;
    Use& use = uses[op->name()];
    if (use.count++ == 0) use.first = op->location();
    for (const Value* operand : op->operands()) {
      if (operand == nullptr) continue;
      const int64_t bytes = BytesOf(*operand, planned);
      use.whole += bytes;
      if (operand->op() != nullptr && HasTrait(*operand->op(), kCollective))
        use.gathered += bytes;
    }
    for (int i = 0; i < op->num_results(); ++i)
      use.whole += BytesOf(*op->result(i), planned);
  }
  std::vector<std::string> warnings;
  for (const auto& [name, use] : uses) {
    const std::string where = ToString(use.first);
    warnings.push_back(absl::StrCat(
        name, " has no row in the op table: every rank runs it whole (",
        use.count, use.count == 1 ? " use" : " uses",
        where.empty() ? "" : absl::StrCat(", first at ", where), "; ",
        Megabytes(use.whole), " of arguments and results on each rank, ",
        Megabytes(use.gathered),
        " of them communicated for it). --strict makes this an error"));
  }
  return warnings;
}

}  // namespace tp
