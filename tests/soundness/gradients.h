// Gradients of a sample's op, split in every way: what each rank's autograd
// gives must recombine to the gradient of the whole.
//
//   operand   the rank's gradient of it
//   Shard     the rank's part of the whole gradient
//   Partial   the whole gradient
//   Replicate where the op is split or Partial: a term, whose sum over ranks
//             is the whole gradient
//
// A result that is Shard is seeded with its part of a gradient, others with
// all of it.
#ifndef TESTS_SOUNDNESS_GRADIENTS_H_
#define TESTS_SOUNDNESS_GRADIENTS_H_

#include "tests/soundness/forward.h"

namespace tp::soundness {

void CompareGradients(const Sample& sample, int ranks, const Edit& edit,
                      Report& report);

}  // namespace tp::soundness

#endif  // TESTS_SOUNDNESS_GRADIENTS_H_
