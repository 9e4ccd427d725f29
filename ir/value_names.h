// Names by which people and plans call the values of a program.
//
// The result of an op is called by its module path and op, and numbered where
// a module holds several of that op; a second result of an op has its index
// behind a slash; of a package of several functions the function stands first:
//
//   h.0.mlp.c_fc:linear      h.0.attn:transpose.2      :topk/1
//   @step h.0.mlp:gelu       input:past
//
// Names do not depend on the plan: what the compiler inserts to carry it out
// (collectives, slices, the backward pass) has none and counts for nothing.
#ifndef TP_IR_VALUE_NAMES_H_
#define TP_IR_VALUE_NAMES_H_

#include <string>
#include <vector>

#include "ir/module.h"

namespace tp {

struct NamedValue {
  std::string name;
  Value* value;
  const Function* function;
};

// Inputs and results of ops, in program order.
std::vector<NamedValue> NamedValues(const Module& module);

// The attribute of an aten.alias that stands where a rule says how a value is
// to lie; the compiler removes it once it is obeyed.
inline constexpr char kPinAttribute[] = "pin";
bool IsPin(const Op& op);

// Whether a function is a model's own and not its gradients.
bool IsPlanned(const Module& module, const Function& function);

// SHA-256 in hex of the mesh and of the names and types of all weights and
// values: what a plan was made for.
std::string PlanFingerprint(const Module& module);

// Up to three of the names that are nearest to one that is none, quoted.
std::string NearNames(const std::string& name, std::vector<std::string> names);

}  // namespace tp

#endif  // TP_IR_VALUE_NAMES_H_
