// Ops that draw random numbers: the same ones on every rank, whatever the
// number of ranks is.
#ifndef TP_RUNTIME_RANDOM_OP_H_
#define TP_RUNTIME_RANDOM_OP_H_

#include "runtime/binding.h"

namespace tp {

// Runs an ATen instruction with LibTorch's generator set to a state that
// follows from the generator's seed (at::manual_seed), which of the program's
// random ops this is, and the frame's random key. The generator's own state is left
// as it was. Ranks take turns, for there is one generator in a process.
absl::Status RunRandom(Frame& frame, const BoundInstruction& bound);

// The kernel of tp.dropout_mask: a hash per element of the whole mask.
absl::Status RunDropoutMask(Frame& frame, const BoundInstruction& bound);

// The number of an instruction among the random ops of its program, -1 if it
// is none.
int64_t RandomNumberOf(const Program& program, const Instruction& instruction);

}  // namespace tp

#endif  // TP_RUNTIME_RANDOM_OP_H_
