// Sharding rules: what may be split, as factors.
//
// A rule names the index spaces (factors) of an op and says which factors
// make up each dim of each operand and result:
//
//     m k+, k+ n -> m n             a matrix product; k is summed away
//     ... k+, n k+ -> ... n         `...`: leading dims, broadcast as in ATen
//     b s (h d) -> b s h d          a view that splits heads
//     ... s^ -> ... s^              a softmax: s must stay whole
//     v+ h, ... -> ... h            an embedding; `_` is an absent operand
//
// In full: dims are separated by blanks, operands and results by commas; `1` is
// a dim without factors; a marker behind `(h d)` or `...` is for all of them;
// `k+max` and `k+min` reduce with max and min; one size of a compound dim may
// be unknown. Present operands beyond those listed are an error, and so are
// fewer than those: what may be left out is `none` in the op.
//
// A dim of constant size 1 holds no factor (it is never split), so `...`
// covers broadcasting. Splitting a factor on a mesh axis splits every tensor
// that holds it; a tensor that does not hold it is replicated; after a split
// of a `+` factor the results are Partial.
//
// Worked example: `b s (h d) -> b s h d` with h=8, d=12 on an axis of 2.
// Operand placement S(2:[8]x12) is factor h, whole (within = 1x[8]x1); the
// result is then S(2). Operand S(2:2x[4]x12) refines h (within = 2x[4]x1);
// the result is S(2:2x[4]). Operand S(2) of 96 splits evenly in blocks of 48
// = 4 heads, so it is the same bytes as S(2:[8]x12) and also factor h. Over 3
// ranks 96 splits 32, 32, 32, which cuts heads: no factor.
#ifndef TP_IR_SHARDING_RULE_H_
#define TP_IR_SHARDING_RULE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/placement.h"
#include "ir/value.h"

namespace tp {

enum class FactorKind : uint8_t {
  kPass,    // independent indices
  kReduce,  // split operands give results that are Partial(reduce)
  kWhole,   // must not be split
};

struct Factor {
  std::string name;
  SymExpr size;
  FactorKind kind = FactorKind::kPass;
  ReduceKind reduce = ReduceKind::kSum;
  // A rank must hold one range of it: boxes within it have left = 1.
  bool one_range = false;
};

// The factors of each dim of one tensor, major to minor; none for a dim of
// size 1 (or one created by broadcasting on the operand's side).
using TensorFactors = llvm::SmallVector<llvm::SmallVector<int, 2>, 4>;

struct OpRule {
  std::vector<Factor> factors;
  // One per flattened operand (empty for absent ones) and per result.
  std::vector<TensorFactors> operands;
  std::vector<TensorFactors> results;
  // Sets of operands (flattened indices) that may be Partial(sum) together,
  // all others whole; every result is then Partial(sum).
  std::vector<llvm::SmallVector<int, 2>> partial;

  // "m k+, k+ n -> m n {k=16, m=64, n=32} partial 0|1"
  std::string ToString() const;
};

// A split of an op on one axis: a factor, and the box within it.
// within.left * within.size * within.right == factors[factor].size.
struct FactorSharding {
  int factor = 0;
  DimFactor within;
  friend bool operator==(const FactorSharding&,
                         const FactorSharding&) = default;
};

// The factor sharding that a Shard placement of a tensor means, if its box
// falls inside one factor (exactly, or in the same bytes on an axis of that
// size). Nothing for whole factors and dims.
std::optional<FactorSharding> ToFactorSharding(const OpRule& rule,
                                               const TensorFactors& tensor,
                                               const Placement& placement,
                                               int64_t axis_size);

// The placement of a tensor when the op is split so: Shard where the tensor
// holds the factor, else Replicate (for a result of a reduced factor:
// Partial, see ResultPlacement).
Placement OperandPlacement(const OpRule& rule, const TensorFactors& tensor,
                           const FactorSharding& sharding);
Placement ResultPlacement(const OpRule& rule, const TensorFactors& tensor,
                          const FactorSharding& sharding);

// Parses the notation for the given op: sizes come from its operands' and
// results' types. `partial` is the Partial column: "-" none, "0|1" either,
// "0&1" both together, "*" all operands together.
absl::StatusOr<OpRule> ParseRule(llvm::StringRef notation,
                                 llvm::StringRef partial, const Op& op);

// Elementwise with broadcasting over all operands.
absl::StatusOr<OpRule> PointwiseRule(llvm::StringRef partial, const Op& op);

// Every dim whole: the op can only be replicated.
OpRule ReplicateRule(const Op& op);

// For rules computed in code: factors are added, then dims described.
class RuleBuilder {
 public:
  explicit RuleBuilder(const Op& op);
  int AddFactor(std::string name, SymExpr size,
                FactorKind kind = FactorKind::kPass,
                ReduceKind reduce = ReduceKind::kSum);
  // For a factor that turns out not to be splittable.
  void MakeWhole(int factor);
  // Appends `factor` to the given dim (negative dims count from the end).
  // A no-op where that dim has constant size 1.
  void Operand(int operand, int dim, int factor);
  void Result(int result, int dim, int factor);
  void Partial(llvm::StringRef column);
  // Drops factors of size 1 and unused ones. A factor that an operand holds
  // but some result does not (and is not summed away), or that is summed away
  // and still in a result, becomes whole.
  OpRule Build() &&;

 private:
  const Op& op_;
  OpRule rule_;
};

// Factors a view from dims `from` to dims `to` into groups (the classic
// reshape factorization, on symbolic sizes): on success gives for each side
// the factors of every dim. [b,s,96] -> [b,s,8,12] gives b | s | (h d) and
// b | s | h | d. A group that cannot be factored has whole factors.
struct ViewFactors {
  std::vector<Factor> factors;
  TensorFactors from;
  TensorFactors to;
};
ViewFactors FactorView(llvm::ArrayRef<SymExpr> from,
                       llvm::ArrayRef<SymExpr> to);

}  // namespace tp

#endif  // TP_IR_SHARDING_RULE_H_
