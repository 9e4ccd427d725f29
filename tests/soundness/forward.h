// Runs all cases of a sample through the passes and the executor, and compares
// with the same ops on one device.
#ifndef TESTS_SOUNDNESS_FORWARD_H_
#define TESTS_SOUNDNESS_FORWARD_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/soundness/sample.h"

namespace tp::soundness {

// Changes the text of a program before it runs; planted faults.
using Edit = std::function<std::string(std::string)>;

struct Report {
  std::vector<std::string> failures;
  // Splits and sizes that the compiler refuses, by the reason.
  std::vector<std::string> refused;
  int splits = 0;
  int partials = 0;
  int chains = 0;
  int unproducible = 0;
  int gradients = 0;
  int runs = 0;                      // of programs with all their cases
  int guarded = 0;                   // sizes that a guard refuses
  std::vector<std::string> skipped;  // gradients, by reason
};

// `edit` may be null.
void CompareForward(const Sample& sample, int ranks, const Edit& edit,
                    Report& report);

// The error that is allowed, of the largest value: 1e-9, and more where the
// sample has operands of narrower floats than f64.
double ToleranceOf(const Sample& sample);
// "" if equal: types, shapes, integers exactly, floats within the tolerance.
std::string Difference(const at::Tensor& actual, const at::Tensor& expected,
                       double tolerance);

}  // namespace tp::soundness

#endif  // TESTS_SOUNDNESS_FORWARD_H_
