#include "passes/cost_network.h"

#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace tp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The least cost over all assignments.
double BruteForce(const CostNetwork& network) {
  std::vector<int> choices(network.num_variables(), 0);
  double best = kInfinity;
  while (true) {
    best = std::min(best, network.Evaluate(choices));
    int v = network.num_variables() - 1;
    while (v >= 0 && ++choices[v] == network.domain(v)) choices[v--] = 0;
    if (v < 0) return best;
  }
}

CostNetwork RandomNetwork(std::mt19937& random) {
  const auto upto = [&](int n) { return static_cast<int>(random() % n); };
  CostNetwork network;
  const int variables = 1 + upto(8);
  for (int v = 0; v < variables; ++v) {
    std::vector<double> unary(1 + upto(3));
    for (double& cost : unary) cost = upto(10);
    network.AddVariable(unary);
  }
  const int pairs = variables == 1 ? 0 : upto(2 * variables);
  for (int p = 0; p < pairs; ++p) {
    const int a = upto(variables);
    const int b = (a + 1 + upto(variables - 1)) % variables;
    std::vector<double> costs(network.domain(a) * network.domain(b));
    for (double& cost : costs) cost = upto(6) == 0 ? kInfinity : upto(10);
    network.AddPair(a, b, costs);
  }
  return network;
}

TEST(CostNetworkTest, FindsTheOptimumOfRandomNetworks) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const CostNetwork network = RandomNetwork(random);
    const CostNetwork::Solution solution = network.Solve();
    ASSERT_TRUE(solution.optimal);
    ASSERT_EQ(solution.cost, BruteForce(network)) << "network " << i;
  }
}

TEST(CostNetworkTest, SaysSoWhenTablesAreCapped) {
  // All 6 variables of 4 choices meet each other: tables of 4^5 entries.
  std::mt19937 random(3);
  CostNetwork network;
  for (int v = 0; v < 6; ++v) network.AddVariable({0, 1, 2, 3});
  for (int a = 0; a < 6; ++a)
    for (int b = a + 1; b < 6; ++b) {
      std::vector<double> costs(16);
      for (double& cost : costs) cost = static_cast<double>(random() % 10);
      network.AddPair(a, b, costs);
    }
  const CostNetwork::Solution capped = network.Solve(64);
  EXPECT_FALSE(capped.optimal);
  EXPECT_EQ(capped.cost, network.Evaluate(capped.choices));
  EXPECT_GE(capped.cost, BruteForce(network));
  EXPECT_TRUE(network.Solve().optimal);
}

TEST(CostNetworkTest, AddsPairsGivenInEitherOrder) {
  CostNetwork network;
  const int a = network.AddVariable({0, 0});
  const int b = network.AddVariable({0, 0, 0});
  network.AddPair(a, b, {5, 1, 5, 5, 5, 5});
  network.AddPair(b, a, {0, 9, 0, 9, 0, 9});
  const CostNetwork::Solution solution = network.Solve();
  EXPECT_EQ(solution.choices[a], 0);
  EXPECT_EQ(solution.choices[b], 1);
  EXPECT_EQ(solution.cost, 1);
}

TEST(CostNetworkTest, ALongChainIsSolvedExactly) {
  // Changing the choice costs 3, choice 1 saves 1 per variable after the
  // first: worth it from four variables on.
  CostNetwork network;
  network.AddVariable({0, kInfinity});
  for (int v = 1; v < 400; ++v) {
    network.AddVariable({1, 0});
    network.AddPair(v - 1, v, {0, 3, 3, 0});
  }
  EXPECT_EQ(network.Solve().cost, 3);
}

TEST(CostNetworkTest, AnImpossibleNetworkHasInfiniteCost) {
  CostNetwork network;
  const int a = network.AddVariable({0});
  const int b = network.AddVariable({0});
  network.AddPair(a, b, {kInfinity});
  EXPECT_EQ(network.Solve().cost, kInfinity);
}

}  // namespace
}  // namespace tp
