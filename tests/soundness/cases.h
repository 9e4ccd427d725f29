// All ways one sample can be split, as a program: for every case the op with
// the placements forced, and ops that consume its result where it lies.
#ifndef TESTS_SOUNDNESS_CASES_H_
#define TESTS_SOUNDNESS_CASES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/sharding_rule.h"
#include "passes/strategy.h"
#include "tests/soundness/sample.h"

namespace tp::soundness {

// The op on its own: what it may be split by.
struct Probe {
  std::unique_ptr<Module> module;
  Op* op = nullptr;
  OpRule rule;
};
absl::StatusOr<Probe> ProbeSample(const Sample& sample);

// Each factor that need not be whole, plainly and in boxes where its size is
// a product.
std::vector<FactorSharding> SplitsOf(const OpRule& rule);

// A case of a program, and which of its results belong to it.
struct Case {
  std::string what;  // "split k as 2x[5]x1 over 3 ranks"
  int first_result = 0;
  int num_results = 0;
  int chains = 0;  // ops that consume its results
  // The op and how it must run.
  Op* op = nullptr;
  Strategy strategy;
};

struct NamedSpec {
  std::string name;
  ValueSpec spec;
};

struct CaseProgram {
  std::unique_ptr<Module> module;
  std::vector<Case> cases;
  std::vector<NamedSpec> inputs;
  int splits = 0;
  int partials = 0;
  int unproducible = 0;  // Partial operands that no op makes
};

// `only` < 0: all cases. Without `placed` nothing is split: the same ops on a
// mesh of one device.
absl::StatusOr<CaseProgram> MakeCases(const Sample& sample, int ranks,
                                      bool placed, int only = -1);

}  // namespace tp::soundness

#endif  // TESTS_SOUNDNESS_CASES_H_
