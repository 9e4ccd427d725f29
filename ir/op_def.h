// The op table: one row per op, the only per-op knowledge of the compiler.
#ifndef TP_IR_OP_DEF_H_
#define TP_IR_OP_DEF_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/assumptions.h"
#include "ir/sharding_rule.h"
#include "ir/value.h"

namespace tp {

class Builder;

// Computes the result types of an op from its operands and attributes,
// recording what it assumed. Errors name what is wrong with the op.
using ShapeFn = absl::StatusOr<std::vector<TensorType>> (*)(
    const Op& op, Assumptions& assumptions);

// Computes the rule of an op whose attributes decide it. Types are final.
using RuleFn = absl::StatusOr<OpRule> (*)(const Op& op);

// What a localize hook is told: the op's chosen split on one axis.
struct LocalizeContext {
  const OpRule* rule = nullptr;
  FactorSharding sharding;
  std::string axis_name;
  int64_t axis_size = 1;
  int64_t coordinate = 0;  // of this rank on the axis
};

// Rewrites the local copy of an op whose meaning depends on the split (an
// embedding whose rows are split). `op` already has local operands, result
// types and sizes; the hook may set attributes or build extra ops before and
// after through the builder and return the value that replaces the result.
using LocalizeFn = absl::StatusOr<Value*> (*)(Op& op, const LocalizeContext&,
                                              Builder& builder);

enum OpTrait : uint32_t {
  kNoTraits = 0,
  kView = 1 << 0,        // the result aliases operand 0
  kRandom = 1 << 1,      // results depend on a random stream
  kCollective = 1 << 2,  // a step of a reshard (tp.slice included)
  kDecompose = 1 << 3,   // canonicalize rewrites it; never planned
  kRegions = 1 << 5,     // tp.if and tp.loop: control flow over regions
  kBoundary = 1 << 4,    // passes values on as they lie (passes/differentiate)
};

struct OpDef {
  // "aten.add" covers all overloads, "aten.add.Tensor" one.
  std::string name;
  // The notation, "pointwise", "replicate", or "" when rule_fn is set.
  std::string rule;
  // Where Partial(sum) may pass: "-", "0", "0|1", "0&1", "*".
  std::string partial = "-";
  // What the derivative keeps: "-", "0,1", "result", "0,result".
  std::string saves = "-";
  ShapeFn shape = nullptr;
  RuleFn rule_fn = nullptr;
  // The attribute (a list of integers) that repeats the result's dims, set
  // to local sizes by localize: "size" of view and expand, "" if none.
  std::string sizes_attribute;
  LocalizeFn localize = nullptr;
  uint32_t traits = kNoTraits;
};

// The row of an op: by full name, else by base name; null if there is none.
const OpDef* FindOpDef(const Op& op);
const OpDef* FindOpDef(llvm::StringRef name);
// Whether the op has a row with one of these traits.
bool HasTrait(const Op& op, uint32_t traits);
// All rows, sorted by name.
std::vector<const OpDef*> AllOpDefs();

// The rule of an op with final types (ReplicateRule without a row).
absl::StatusOr<OpRule> RuleOf(const Op& op);
// Result types by the row's shape function; kUnimplemented without a row.
absl::StatusOr<std::vector<TensorType>> InferTypes(const Op& op,
                                                   Assumptions& assumptions);

// One function per family (ir/ops/<family>.cc) adds its rows; the list of
// families is in op_def.cc. A duplicate name is fatal.
using OpRows = std::vector<OpDef>;

}  // namespace tp

#endif  // TP_IR_OP_DEF_H_
