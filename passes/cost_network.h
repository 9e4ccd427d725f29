// Exact minimization of a sum of costs over few discrete variables.
//
// minimize  sum_i unary_i(x_i) + sum_(i,j) pair_ij(x_i, x_j)
//
// by bucket elimination: a variable x with neighbours N is replaced by the
// table  t(N) = min_x unary(x) + sum pair(x, n),  smallest table first (ties
// by index, so the result is deterministic), until none is left; then the
// choices are read back in reverse. Exact, with work exponential only in the
// width of the network, which is small for chains of layers.
//
// Example: a - b - c in a row with 3 choices each: eliminating a leaves a
// table over b of 3 entries, then b one over c, then c a number: 3*(3+3)+3
// sums instead of 27.
//
// If every next table would exceed `max_entries`, the variable with the most
// neighbours is fixed to its locally cheapest choice; the solution then says
// that it is not proven to be the optimum.
#ifndef TP_PASSES_COST_NETWORK_H_
#define TP_PASSES_COST_NETWORK_H_

#include <cstdint>
#include <map>
#include <vector>

namespace tp {

class CostNetwork {
 public:
  // Returns the variable's index. Costs may be infinite (forbidden).
  int AddVariable(std::vector<double> unary);
  void AddUnary(int variable, int choice, double cost);
  // `costs[choice_a * domain(b) + choice_b]`; several on one pair add up.
  void AddPair(int a, int b, std::vector<double> costs);

  int num_variables() const { return static_cast<int>(unary_.size()); }
  int domain(int variable) const {
    return static_cast<int>(unary_[variable].size());
  }

  struct Solution {
    std::vector<int> choices;  // one per variable
    double cost = 0;           // infinite: no assignment is allowed
    bool optimal = true;       // proven
  };
  Solution Solve(int64_t max_entries = int64_t{1} << 22) const;

  // The objective of an assignment.
  double Evaluate(const std::vector<int>& choices) const;

 private:
  std::vector<std::vector<double>> unary_;
  // (a, b) with a < b; rows by a's choice.
  std::map<std::pair<int, int>, std::vector<double>> pairs_;
};

}  // namespace tp

#endif  // TP_PASSES_COST_NETWORK_H_
