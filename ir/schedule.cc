#include "ir/schedule.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

namespace tp {
namespace {

absl::Status Malformed(const Op& op, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      op.name(), " ", what, " (", ToString(op.location()), "): ", Print(op)));
}

absl::StatusOr<std::string> StringAttribute(const Op& op,
                                            llvm::StringRef name) {
  const Attribute* attribute = op.attribute(name);
  if (attribute == nullptr || !attribute->is_string()) {
    return Malformed(
        op, absl::StrCat("needs a string attribute '", name.str(), "'"));
  }
  return attribute->as_string();
}

absl::StatusOr<int> DimAttribute(const Op& op, llvm::StringRef name, int ndim) {
  const Attribute* attribute = op.attribute(name);
  std::optional<int64_t> dim =
      attribute ? attribute->AsConstantInt() : std::nullopt;
  if (!dim || *dim < 0 || *dim >= ndim) {
    return Malformed(
        op, absl::StrCat("needs '", name.str(), "', a dim of its operand"));
  }
  return static_cast<int>(*dim);
}

absl::StatusOr<DimFactor> FactorAttribute(const Op& op, llvm::StringRef name) {
  const Attribute* attribute = op.attribute(name);
  auto sizes = attribute ? attribute->AsInts() : std::nullopt;
  if (!sizes || sizes->size() != 3) {
    return Malformed(
        op, absl::StrCat("needs '", name.str(), "' = [left, size, right]"));
  }
  return DimFactor{(*sizes)[0], (*sizes)[1], (*sizes)[2]};
}

std::string FactorText(const DimFactor& factor) {
  return absl::StrCat(factor.left.ToString(), "x[", factor.size.ToString(),
                      "]x", factor.right.ToString());
}

absl::StatusOr<CollectiveCall> CallOf(const Op& op, CollectiveKind kind) {
  if (op.num_operands() != 1 || op.operand(0) == nullptr ||
      op.num_results() != 1) {
    return Malformed(op, "needs one operand and one result");
  }
  CollectiveCall call;
  call.kind = kind;
  call.op = &op;
  const TensorType& from = op.operand(0)->type();
  call.dtype = from.dtype;
  call.dims = from.dims;
  TP_ASSIGN_OR_RETURN(call.axis, StringAttribute(op, "axis"));
  if (kind == CollectiveKind::kAllReduce ||
      kind == CollectiveKind::kReduceScatter) {
    TP_ASSIGN_OR_RETURN(call.reduce, StringAttribute(op, "reduce"));
  }
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast)
    return call;
  TP_ASSIGN_OR_RETURN(call.dim, DimAttribute(op, "dim", from.ndim()));
  TP_ASSIGN_OR_RETURN(call.factor, FactorAttribute(op, "factor"));
  // The operand of a gather is a part, of another size on every rank.
  call.dims[call.dim] = call.factor.dim_size();
  if (kind == CollectiveKind::kAllToAll) {
    TP_ASSIGN_OR_RETURN(call.to_dim, DimAttribute(op, "to_dim", from.ndim()));
    TP_ASSIGN_OR_RETURN(call.to_factor, FactorAttribute(op, "to_factor"));
  }
  return call;
}

// What a loop's limit says about how often it runs.
std::string CountOf(const Op& loop) {
  std::string count = "data";
  const Value* limit = loop.operand_or_null(0);
  if (limit != nullptr && limit->op() != nullptr && limit->op()->Is("tp.sym")) {
    const Attribute* value = limit->op()->attribute("value");
    if (value != nullptr) count = value->ToString();
  }
  if (loop.operand_or_null(1) != nullptr) count += "?";
  return count;
}

absl::Status Walk(const Block& block, Schedule& steps) {
  for (const std::unique_ptr<Op>& op : block.ops()) {
    const CollectiveKind kind = KindOf(*op);
    ScheduleStep step;
    if (Communicates(kind)) {
      TP_ASSIGN_OR_RETURN(step.call, CallOf(*op, kind));
      steps.push_back(std::move(step));
    }
    if (op->regions().empty()) continue;
    step.kind =
        op->Is("tp.loop") ? ScheduleStep::Kind::kLoop : ScheduleStep::Kind::kIf;
    if (step.kind == ScheduleStep::Kind::kLoop) step.count = CountOf(*op);
    bool communicates = false;
    for (const std::unique_ptr<Block>& region : op->regions()) {
      step.branches.emplace_back();
      TP_RETURN_IF_ERROR(Walk(*region, step.branches.back()));
      communicates = communicates || !step.branches.back().empty();
    }
    if (communicates) steps.push_back(std::move(step));
  }
  return absl::OkStatus();
}

}  // namespace

CollectiveKind KindOf(const Op& op) {
  for (CollectiveKind kind :
       {CollectiveKind::kSlice, CollectiveKind::kAllReduce,
        CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
        CollectiveKind::kAllToAll, CollectiveKind::kBroadcast}) {
    if (op.name() == OpNameOf(kind)) return kind;
  }
  return CollectiveKind::kNone;
}

std::string CollectiveCall::ToString() const {
  std::string text = absl::StrCat(OpNameOf(kind), " ", axis, " ",
                                  tp::ToString(TensorType{dtype, dims}));
  if (!reduce.empty()) absl::StrAppend(&text, " ", reduce);
  if (dim >= 0) {
    absl::StrAppend(&text, " dim ", dim, " ", FactorText(factor));
  }
  if (to_dim >= 0) {
    absl::StrAppend(&text, " to dim ", to_dim, " ", FactorText(to_factor));
  }
  return text;
}

bool SameCall(const CollectiveCall& a, const CollectiveCall& b) {
  return a.kind == b.kind && a.axis == b.axis && a.reduce == b.reduce &&
         a.dtype == b.dtype && a.dims == b.dims && a.dim == b.dim &&
         a.factor == b.factor && a.to_dim == b.to_dim &&
         a.to_factor == b.to_factor;
}

std::string ScheduleStep::ToString(int indent) const {
  const std::string blank(indent, ' ');
  if (kind == Kind::kCall) return absl::StrCat(blank, call.ToString(), "\n");
  std::string text =
      kind == Kind::kIf ? blank + "if" : absl::StrCat(blank, "loop ", count);
  for (const std::vector<ScheduleStep>& branch : branches) {
    text += " {\n";
    for (const ScheduleStep& step : branch) text += step.ToString(indent + 2);
    absl::StrAppend(&text, blank, "}");
  }
  return text + "\n";
}

absl::StatusOr<Schedule> ScheduleOf(const Function& function) {
  Schedule steps;
  TP_RETURN_IF_ERROR(Walk(function.body(), steps));
  return steps;
}

bool SameSchedule(const Schedule& a, const Schedule& b, llvm::StringRef axis) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].kind != b[i].kind || a[i].count != b[i].count ||
        a[i].branches.size() != b[i].branches.size())
      return false;
    const CollectiveCall& mine = a[i].call;
    const CollectiveCall& theirs = b[i].call;
    if (mine.kind != theirs.kind || mine.axis != theirs.axis) return false;
    if (a[i].kind == ScheduleStep::Kind::kCall && axis == mine.axis &&
        !SameCall(mine, theirs))
      return false;
    for (size_t k = 0; k < a[i].branches.size(); ++k)
      if (!SameSchedule(a[i].branches[k], b[i].branches[k], axis)) return false;
  }
  return true;
}

int64_t CountCalls(const Schedule& schedule) {
  int64_t count = 0;
  for (const ScheduleStep& step : schedule) {
    count += step.kind == ScheduleStep::Kind::kCall ? 1 : 0;
    for (const Schedule& branch : step.branches) count += CountCalls(branch);
  }
  return count;
}

absl::StatusOr<std::string> HashSchedules(
    llvm::ArrayRef<const Module*> rank_modules) {
  llvm::SHA256 hash;
  for (size_t rank = 0; rank < rank_modules.size(); ++rank) {
    for (const auto& function : rank_modules[rank]->functions()) {
      hash.update(absl::StrCat("rank ", rank, " @", function->name(), "\n"));
      TP_ASSIGN_OR_RETURN(Schedule steps, ScheduleOf(*function));
      for (const ScheduleStep& step : steps) hash.update(step.ToString());
    }
  }
  const auto digest = hash.final();
  return llvm::toHex(digest, /*LowerCase=*/true);
}

}  // namespace tp
