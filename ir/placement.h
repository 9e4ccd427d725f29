// How one value lies on the mesh: a placement per axis.
//
// A Shard names one factor of one dim. Seen from that factor, the dim is a
// box [left][size][right] in row-major order, and a rank holds its block of
// the middle index for every left and every right index. With [Q|K|V] of 8
// heads of width 12 along dim 2, splitting heads is left=3, size=8, right=12:
//
//     S(2:3x[8]x12)      rank 0 of 2 holds rows q0..q3, k0..k3, v0..v3
//     S(2:[8]x12)        heads of width 12; whole heads move
//     S(2)               plain: left = right = 1
//
// A gather of a factor with left != 1 is not a concatenation.
#ifndef TP_IR_PLACEMENT_H_
#define TP_IR_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/sym_expr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// The box [left][size][right] a dim is seen as when `size` is sharded.
struct DimFactor {
  SymExpr left = 1;
  SymExpr size = 1;
  SymExpr right = 1;

  SymExpr dim_size() const { return left * size * right; }
  friend bool operator==(const DimFactor&, const DimFactor&) = default;
};

enum class ReduceKind : uint8_t { kSum, kMax, kMin };
std::string_view Name(ReduceKind reduce);  // "sum", "max", "min"
std::optional<ReduceKind> ParseReduceKind(llvm::StringRef name);

class Placement {
 public:
  enum class Kind : uint8_t { kReplicate, kShard, kPartial };

  Placement() = default;  // Replicate
  static Placement Replicate() { return Placement(); }
  static Placement Shard(int dim, DimFactor factor);
  // The whole dim of that size is the factor.
  static Placement Shard(int dim, SymExpr dim_size);
  static Placement Partial(ReduceKind reduce = ReduceKind::kSum);

  Kind kind() const { return kind_; }
  bool is_replicate() const { return kind_ == Kind::kReplicate; }
  bool is_shard() const { return kind_ == Kind::kShard; }
  bool is_partial() const { return kind_ == Kind::kPartial; }
  // Of a Shard.
  int dim() const { return dim_; }
  const DimFactor& factor() const { return factor_; }
  // Of a Partial.
  ReduceKind reduce() const { return reduce_; }

  // R, S(1), S(2:3x[8]x12), P(sum)
  std::string ToString() const;
  // Structural; see SameLayout for "the same bytes on every rank".
  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  Kind kind_ = Kind::kReplicate;
  ReduceKind reduce_ = ReduceKind::kSum;
  int dim_ = 0;
  DimFactor factor_;
};

// Parses "R", "S(1)", "S(2:3x[8]x12)", "P", "P(sum)" for a tensor of these
// dims: they give S(1) its size, and the product of a box must be the size of
// its dim. Negative dims count from the end.
absl::StatusOr<Placement> ParsePlacement(llvm::StringRef text,
                                         llvm::ArrayRef<SymExpr> dims);

// True if both give every rank of an axis of that size the same elements in
// the same order: equal, or two shards of one dim whose factors both divide
// evenly and agree in `left` (S(0) of 96 and S(0:[8]x12) over 2 ranks).
bool SameLayout(const Placement& a, const Placement& b, int64_t axis_size);

// One placement per mesh axis, major axis first. Prints <S(0)>, and
// <dp: S(0), tp: R> on meshes of several axes.
using ShardingSpec = llvm::SmallVector<Placement, 1>;

std::string ToString(llvm::ArrayRef<Placement> spec);
std::ostream& operator<<(std::ostream& out, const Placement& placement);

}  // namespace tp

#endif  // TP_IR_PLACEMENT_H_
