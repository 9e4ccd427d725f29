// What ops without a row in the op table cost a plan.
#ifndef TP_PASSES_UNKNOWN_OPS_H_
#define TP_PASSES_UNKNOWN_OPS_H_

#include <string>
#include <vector>

#include "ir/module.h"

namespace tp {

// One line per op without a row in @forward: where it is used first, what it
// reads and gives whole on every rank, and how much was gathered for it.
std::vector<std::string> UnknownOpWarnings(const Module& planned);

}  // namespace tp

#endif  // TP_PASSES_UNKNOWN_OPS_H_
