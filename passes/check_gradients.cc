// Proves that gradients lie as they must: what goes into a segment's
// derivative lies like the values that left the segment, what comes out like
// those that entered it (one term per rank behind tp.copy), and what
// @reduce_gradients returns like the parameters. With check_placements, which
// allows only steps of the reshard table between them, every term is summed
// exactly once.
#include <map>

#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "ir/text.h"
#include "passes/gradients.h"
#include "passes/pass.h"

namespace tp {
namespace {

class GradientChecker {
 public:
  explicit GradientChecker(const Module& module) : module_(module) {}

  absl::Status Run(const Function& forward, const Function& backward,
                   const Function& reduce) {
    for (const auto& op : forward.body().ops()) {
      if (op->Is("tp.enter")) enters_[SegmentOf(*op)] = op.get();
      if (op->Is("tp.leave")) leaves_[SegmentOf(*op)] = op.get();
    }
    for (const auto& op : backward.body().ops())
      if (op->Is("tp.segment_grad")) TP_RETURN_IF_ERROR(CheckSegment(*op));
    return CheckParameters(forward, backward, reduce);
  }

 private:
  static int64_t SegmentOf(const Op& op) {
    return *op.attribute("segment")->AsConstantInt();
  }

  absl::Status CheckSegment(const Op& op) const {
    auto enter = enters_.find(SegmentOf(op));
    auto leave = leaves_.find(SegmentOf(op));
    if (enter == enters_.end() || leave == leaves_.end() ||
        enter->second->num_operands() != op.num_results() ||
        leave->second->num_operands() != op.num_operands())
      return absl::InternalError(
          absl::StrCat("no segment of @forward fits ", Print(op)));
    const int ndim = module_.mesh().ndim();
    for (int i = 0; i < op.num_operands(); ++i) {
      if (op.operand(i) == nullptr) continue;
      TP_RETURN_IF_ERROR(CheckSpec(
          *op.operand(i), GradientSpec(*leave->second->result(i), ndim), op));
    }
    for (int i = 0; i < op.num_results(); ++i)
      TP_RETURN_IF_ERROR(
          CheckSpec(*op.result(i),
                    TermSpec(*enter->second->operand(i), module_.mesh()), op));
    return absl::OkStatus();
  }

  absl::Status CheckParameters(const Function& forward,
                               const Function& backward,
                               const Function& reduce) const {
    const auto terms = backward.body().results();
    const auto sums = reduce.body().results();
    if (terms.size() != reduce.arguments().size() ||
        sums.size() != terms.size())
      return absl::InternalError(
          "@backward and @reduce_gradients have different parameters");
    std::map<std::string, const Value*> parameters;
    for (size_t i = 0; i < forward.arguments().size(); ++i)
      if (forward.arguments()[i].is_trainable())
        parameters[forward.arguments()[i].name] =
            forward.body().arguments()[i].get();
    for (size_t i = 0; i < terms.size(); ++i) {
      const std::string& name = reduce.arguments()[i].name;
      auto parameter = parameters.find(name);
      if (parameter == parameters.end())
        return absl::InternalError(absl::StrCat(
            "@reduce_gradients names ", name, ", no trainable parameter"));
      if (!SameSpec(*terms[i], reduce.body().arguments()[i]->spec()) ||
          !SameSpec(*sums[i],
                    GradientSpec(*parameter->second, module_.mesh().ndim())))
        return absl::InternalError(absl::StrCat(
            "the gradient of ", name, " does not lie like the parameter"));
    }
    return absl::OkStatus();
  }

  bool SameSpec(const Value& value, llvm::ArrayRef<Placement> wanted) const {
    for (int axis = 0; axis < module_.mesh().ndim(); ++axis)
      if (!SameLayout(AxisPlacement(value, axis), wanted[axis],
                      module_.mesh().axis(axis).size))
        return false;
    return true;
  }

  absl::Status CheckSpec(const Value& value, llvm::ArrayRef<Placement> wanted,
                         const Op& op) const {
    if (SameSpec(value, wanted)) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("a gradient lies as ", ToString(value.spec()),
                     " but must lie as ", ToString(wanted), ": ", Print(op)));
  }

  const Module& module_;
  std::map<int64_t, const Op*> enters_;
  std::map<int64_t, const Op*> leaves_;
};

}  // namespace

absl::Status CheckGradients(Module& module, const PassContext&) {
  const Function* forward = module.function("forward");
  const Function* backward = module.function("backward");
  const Function* reduce = module.function("reduce_gradients");
  if (forward == nullptr || backward == nullptr || reduce == nullptr)
    return absl::InvalidArgumentError(
        "a training module has @forward, @backward and @reduce_gradients");
  return GradientChecker(module).Run(*forward, *backward, *reduce);
}

}  // namespace tp
