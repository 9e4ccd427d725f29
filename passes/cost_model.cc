#include "passes/cost_model.h"

#include <algorithm>
#include <limits>

#include "ir/op_def.h"

namespace tp {
namespace {

double HintOf(const SymExpr& expr, const Assumptions& assumptions) {
  absl::StatusOr<int64_t> value = assumptions.Hint(expr);
  return value.ok() ? static_cast<double>(*value) : 1.0;
}

double Elements(const TensorType& type, const Assumptions& assumptions) {
  double elements = 1;
  for (const SymExpr& dim : type.dims) elements *= HintOf(dim, assumptions);
  return elements;
}

// Multiply-adds times two: the product of all factor sizes for ops that sum
// over a factor, one per result element for all others.
double Flops(const Op& op, const Assumptions& assumptions) {
  double results = 0;
  for (int i = 0; i < op.num_results(); ++i)
    results += Elements(op.result(i)->type(), assumptions);
  const auto operand_dim = [&](int operand, int from_end) {
    const Value* value = op.operand_or_null(operand);
    if (value == nullptr || value->type().ndim() < from_end) return 1.0;
    return HintOf(value->type().dims[value->type().ndim() - from_end],
                  assumptions);
  };
  if (op.Is("aten.linear") || op.Is("aten.mm") || op.Is("aten.bmm") ||
      op.Is("aten.matmul"))
    return 2 * results * operand_dim(0, 1);
  if (op.Is("aten.scaled_dot_product_attention"))
    return 4 * results * operand_dim(1, 2);
  if (op.Is("aten.convolution") && op.operand_or_null(1) != nullptr) {
    const Value* weight = op.operand(1);
    double per_output = Elements(weight->type(), assumptions) /
                        std::max(1.0, HintOf(weight->type().dims[0],
                                             assumptions));
    return 2 * results * per_output;
  }
  return results;
}

}  // namespace

double HintBytes(const TensorType& type, const Assumptions& assumptions) {
  return Elements(type, assumptions) *
         static_cast<double>(ByteSize(type.dtype));
}

double LargestShare(const SymExpr& factor_size, int64_t axis_size,
                    const Assumptions& assumptions) {
  double size = HintOf(factor_size, assumptions);
  if (size < 1) return 1.0;
  auto whole = static_cast<int64_t>(size);
  return static_cast<double>((whole + axis_size - 1) / axis_size) / size;
}

double ReshardMicroseconds(const CostModel& model, const TensorType& type,
                           const Placement& from, const Placement& to,
                           int64_t axis_size,
                           const Assumptions& assumptions) {
  CollectiveKind kind = Transition(from, to, axis_size);
  if (kind == CollectiveKind::kNone) return 0;
  if (kind == CollectiveKind::kImpossible)
    return std::numeric_limits<double>::infinity();
  double bytes = HintBytes(type, assumptions);
  double own_part = 2 * bytes / static_cast<double>(axis_size);
  if (!Communicates(kind)) return own_part / model.memory_bytes_per_us;
  // All but an all_reduce also repack the tensor on the way.
  const double repacked =
      kind == CollectiveKind::kAllReduce ? 0 : 2 * bytes;
  return model.link_latency_us +
         BytesMoved(kind, bytes, axis_size) / model.link_bytes_per_us +
         repacked / model.memory_bytes_per_us;
}

double OpMicroseconds(const CostModel& model, const Op& op, double share,
                      double bytes, const Assumptions& assumptions) {
  const OpDef* def = FindOpDef(op);
  if (def != nullptr && (def->traits & kView)) return 0;
  return model.kernel_us +
         std::max(share * Flops(op, assumptions) / model.flops_per_us,
                  bytes / model.memory_bytes_per_us);
}

}  // namespace tp
