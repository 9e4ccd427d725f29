// What decides which way control flow goes, and that it comes from one rank.
#ifndef TP_PASSES_DECIDERS_H_
#define TP_PASSES_DECIDERS_H_

#include <string>
#include <vector>

#include "ir/value.h"

namespace tp {

// The condition of a tp.if; the limit, the first condition and the condition
// yielded of a tp.loop, as far as it has them. Empty for any other op.
std::vector<const Value*> DecidersOf(const Op& op);

// Whether all ranks of the axis are bound to hold the same bits: a broadcast,
// or a number that sizes and the program's text alone say.
bool IsDecided(const Value* value, const std::string& axis);

}  // namespace tp

#endif  // TP_PASSES_DECIDERS_H_
