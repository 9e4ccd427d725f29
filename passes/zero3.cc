// ZeRO-3: a parameter that every rank would hold whole is sharded at rest,
// gathered where it is used, and its gradient is scattered.
//
//   %w: f32[2048] <R> param "norm.weight"
// becomes
//   %w: f32[2048] <S(0)> param "norm.weight"
//
// insert_reshards then gathers it before its first use. Changes memory, never
// results: the gather restores the same bytes. A rule of the user's decides
// about the parameters it names: "zero3" shards one that the flag would leave
// whole, "replicate" keeps one whole that the flag would shard.
#include "absl/strings/str_format.h"
#include "ir/status.h"
#include "passes/pass.h"
#include "passes/rule_match.h"
#include "passes/strategy.h"

namespace tp {
namespace {

// The first of the largest dims; -1 if nothing is to be split.
int DimToShard(const TensorType& type) {
  int best = -1;
  int64_t size = 1;
  for (int dim = 0; dim < type.ndim(); ++dim) {
    const std::optional<int64_t> extent = type.dims[dim].AsConstant();
    if (!extent || *extent <= size) continue;
    best = dim;
    size = *extent;
  }
  return best;
}

// Whether a parameter that the plan leaves whole is to be sharded at rest.
// Rules for several names of a tied one agree.
bool IsWanted(const ArgumentInfo& info, RuleMatcher& rules, bool otherwise) {
  const UserRule* rule = rules.First(info.name);
  for (const std::string& alias : info.aliases)
    if (rule == nullptr) rule = rules.First(alias);
  return rule == nullptr ? otherwise
                         : rule->action == UserRule::Action::kZero3;
}

}  // namespace

absl::Status ShardReplicated(Module& module, const PassContext& context) {
  if (!context.train) return absl::OkStatus();
  TP_ASSIGN_OR_RETURN(RuleMatcher rules,
                      RuleMatcher::Of(context.rules, UserRule::Of::kWeight));
  int64_t elements = 0;
  int64_t parameters = 0;
  for (const auto& function : module.functions()) {
    for (size_t i = 0; i < function->arguments().size(); ++i) {
      const ArgumentInfo& info = function->arguments()[i];
      Value* value = function->body().arguments()[i].get();
      if (info.kind != ArgumentKind::kParameter || value->spec().empty())
        continue;
      ShardingSpec spec(value->spec().begin(), value->spec().end());
      // On the last axis that has ranks to share it.
      int axis = -1;
      bool whole = true;
      for (int a = 0; a < module.mesh().ndim(); ++a) {
        whole &= spec[a].is_replicate();
        if (module.mesh().axis(a).size > 1) axis = a;
      }
      const int dim = DimToShard(value->type());
      if (!whole || axis < 0 || dim < 0) continue;
      if (!IsWanted(info, rules, context.zero3)) continue;
      spec[axis] = Placement::Shard(dim, value->type().dims[dim]);
      value->set_spec(std::move(spec));
      int64_t count = 1;
      for (const SymExpr& size : value->type().dims) count *= size.constant();
      elements += count;
      ++parameters;
      if (context.on_zero3) context.on_zero3(info.name);
    }
  }
  if (parameters > 0)
    context.Remark(absl::StrFormat("ZeRO-3 shards %d elements of %d parameters",
                                   elements, parameters));
  return absl::OkStatus();
}

}  // namespace tp
