#include "passes/cost_network.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ir/status.h"

namespace tp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A cost table over a sorted list of variables, last one fastest.
struct Table {
  std::vector<int> scope;
  std::vector<double> costs;
};

// How an eliminated variable depends on those eliminated after it.
struct Bucket {
  int variable = 0;
  std::vector<int> scope;     // without the variable
  std::vector<int> choices;   // cheapest choice per entry of the scope
};

class Elimination {
 public:
  Elimination(std::vector<int> domains, std::vector<Table> tables)
      : domains_(std::move(domains)), tables_(std::move(tables)) {
    tables_of_.resize(domains_.size());
    neighbours_.resize(domains_.size());
    for (size_t t = 0; t < tables_.size(); ++t) Link(static_cast<int>(t));
  }

  CostNetwork::Solution Run(int64_t max_entries) {
    CostNetwork::Solution solution;
    solution.choices.assign(domains_.size(), 0);
    std::set<std::pair<int64_t, int>> queue;
    std::vector<int64_t> sizes(domains_.size());
    for (size_t v = 0; v < domains_.size(); ++v) {
      sizes[v] = TableSize(static_cast<int>(v), max_entries);
      queue.insert({sizes[v], static_cast<int>(v)});
    }
    while (!queue.empty()) {
      auto [size, variable] = *queue.begin();
      const bool too_large = size > max_entries;
      if (too_large) variable = MostConnected(queue);
      queue.erase({sizes[variable], variable});
      const std::set<int> touched = neighbours_[variable];
      if (too_large) {
        FixLocally(variable);
        solution.optimal = false;
      }
      Eliminate(variable);
      for (int other : touched) {
        queue.erase({sizes[other], other});
        sizes[other] = TableSize(other, max_entries);
        queue.insert({sizes[other], other});
      }
    }
    solution.cost = constant_;
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      int64_t entry = 0;
      for (int other : bucket->scope)
        entry = entry * domains_[other] + solution.choices[other];
      solution.choices[bucket->variable] = bucket->choices[entry];
    }
    return solution;
  }

 private:
  void Link(int table) {
    for (int v : tables_[table].scope) {
      tables_of_[v].insert(table);
      for (int other : tables_[table].scope)
        if (other != v) neighbours_[v].insert(other);
    }
  }

  // Entries of the table that eliminating `variable` makes, times its
  // domain; saturates just above `limit`.
  int64_t TableSize(int variable, int64_t limit) const {
    int64_t size = domains_[variable];
    for (int other : neighbours_[variable]) {
      size *= domains_[other];
      if (size > limit) return limit + 1;
    }
    return size;
  }

  int MostConnected(const std::set<std::pair<int64_t, int>>& queue) const {
    int best = queue.begin()->second;
    for (const auto& [size, v] : queue)
      if (neighbours_[v].size() > neighbours_[best].size()) best = v;
    return best;
  }

  // Forbids all choices of `variable` but the one whose tables have the
  // smallest minima, and drops it from the scopes of its tables.
  void FixLocally(int variable) {
    std::vector<double> sums(domains_[variable], 0);
    for (int t : tables_of_[variable]) {
      std::vector<double> minima(domains_[variable], kInfinity);
      ForEachEntry(tables_[t].scope, [&](const std::vector<int>& choice,
                                         int64_t entry) {
        for (size_t i = 0; i < choice.size(); ++i)
          if (tables_[t].scope[i] == variable)
            minima[choice[i]] =
                std::min(minima[choice[i]], tables_[t].costs[entry]);
      });
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += minima[i];
    }
    const int fixed = static_cast<int>(
        std::min_element(sums.begin(), sums.end()) - sums.begin());
    const std::set<int> affected = tables_of_[variable];
    for (int t : affected) tables_[t] = Restrict(tables_[t], variable, fixed);
    for (int other : neighbours_[variable]) Relink(other);
    tables_of_[variable].clear();
    neighbours_[variable].clear();
    // Left with no table, the variable's bucket chooses `fixed`.
    Table unary{{variable}, std::vector<double>(domains_[variable], kInfinity)};
    unary.costs[fixed] = 0;
    tables_.push_back(std::move(unary));
    Link(static_cast<int>(tables_.size()) - 1);
  }

  Table Restrict(const Table& table, int variable, int fixed) const {
    Table result;
    for (int v : table.scope)
      if (v != variable) result.scope.push_back(v);
    ForEachEntry(table.scope,
                 [&](const std::vector<int>& choice, int64_t entry) {
                   for (size_t i = 0; i < choice.size(); ++i)
                     if (table.scope[i] == variable && choice[i] != fixed)
                       return;
                   result.costs.push_back(table.costs[entry]);
                 });
    return result;
  }

  void Relink(int variable) {
    neighbours_[variable].clear();
    for (int t : tables_of_[variable])
      for (int other : tables_[t].scope)
        if (other != variable) neighbours_[variable].insert(other);
  }

  // Calls visit(choices, entry) for each assignment of the scope in order.
  template <typename Visit>
  void ForEachEntry(const std::vector<int>& scope, Visit visit) const {
    std::vector<int> choice(scope.size(), 0);
    int64_t entry = 0;
    while (true) {
      visit(choice, entry++);
      int i = static_cast<int>(scope.size()) - 1;
      while (i >= 0 && ++choice[i] == domains_[scope[i]]) choice[i--] = 0;
      if (i < 0) return;
    }
  }

  void Eliminate(int variable) {
    Bucket bucket;
    bucket.variable = variable;
    bucket.scope.assign(neighbours_[variable].begin(),
                        neighbours_[variable].end());
    // Per table: how its entry index grows with the scope and the variable.
    struct Addend {
      const std::vector<double>* costs;
      std::vector<int64_t> strides;  // per scope variable
      int64_t own_stride = 0;
    };
    std::vector<Addend> addends;
    for (int t : tables_of_[variable]) {
      Addend addend{&tables_[t].costs,
                    std::vector<int64_t>(bucket.scope.size(), 0)};
      int64_t stride = 1;
      for (size_t i = tables_[t].scope.size(); i-- > 0;) {
        const int v = tables_[t].scope[i];
        if (v == variable) {
          addend.own_stride = stride;
        } else {
          auto at = std::lower_bound(bucket.scope.begin(), bucket.scope.end(),
                                     v);
          addend.strides[at - bucket.scope.begin()] = stride;
        }
        stride *= domains_[v];
      }
      addends.push_back(std::move(addend));
    }
    Table result;
    result.scope = bucket.scope;
    ForEachEntry(bucket.scope, [&](const std::vector<int>& choice, int64_t) {
      double best = kInfinity;
      int best_choice = 0;
      for (int own = 0; own < domains_[variable]; ++own) {
        double sum = 0;
        for (const Addend& addend : addends) {
          int64_t index = own * addend.own_stride;
          for (size_t i = 0; i < choice.size(); ++i)
            index += choice[i] * addend.strides[i];
          sum += (*addend.costs)[index];
        }
        if (sum < best) {
          best = sum;
          best_choice = own;
        }
      }
      result.costs.push_back(best);
      bucket.choices.push_back(best_choice);
    });
    const std::set<int> used = tables_of_[variable];
    for (int t : used) {
      for (int v : tables_[t].scope) tables_of_[v].erase(t);
      tables_[t] = Table();
    }
    for (int other : bucket.scope) Relink(other);
    if (result.scope.empty()) {
      constant_ += result.costs[0];
    } else {
      tables_.push_back(std::move(result));
      Link(static_cast<int>(tables_.size()) - 1);
    }
    neighbours_[variable].clear();
    buckets_.push_back(std::move(bucket));
  }

  std::vector<int> domains_;
  std::vector<Table> tables_;
  std::vector<std::set<int>> tables_of_;   // per variable
  std::vector<std::set<int>> neighbours_;  // per variable
  std::vector<Bucket> buckets_;
  double constant_ = 0;
};

}  // namespace

int CostNetwork::AddVariable(std::vector<double> unary) {
  TP_CHECK(!unary.empty(), "a variable of a cost network needs a choice");
  unary_.push_back(std::move(unary));
  return num_variables() - 1;
}

void CostNetwork::AddUnary(int variable, int choice, double cost) {
  unary_[variable][choice] += cost;
}

void CostNetwork::AddPair(int a, int b, std::vector<double> costs) {
  TP_CHECK(a != b, "a pair of a cost network needs two variables");
  if (a > b) {
    std::vector<double> transposed(costs.size());
    for (int i = 0; i < domain(a); ++i)
      for (int j = 0; j < domain(b); ++j)
        transposed[j * domain(a) + i] = costs[i * domain(b) + j];
    costs = std::move(transposed);
    std::swap(a, b);
  }
  auto [it, inserted] = pairs_.try_emplace({a, b}, std::move(costs));
  if (inserted) return;
  for (size_t i = 0; i < it->second.size(); ++i) it->second[i] += costs[i];
}

CostNetwork::Solution CostNetwork::Solve(int64_t max_entries) const {
  std::vector<int> domains;
  std::vector<Table> tables;
  for (int v = 0; v < num_variables(); ++v) {
    domains.push_back(domain(v));
    tables.push_back({{v}, unary_[v]});
  }
  for (const auto& [scope, costs] : pairs_)
    tables.push_back({{scope.first, scope.second}, costs});
  Solution solution =
      Elimination(std::move(domains), std::move(tables)).Run(max_entries);
  solution.cost = Evaluate(solution.choices);
  return solution;
}

double CostNetwork::Evaluate(const std::vector<int>& choices) const {
  double sum = 0;
  for (int v = 0; v < num_variables(); ++v) sum += unary_[v][choices[v]];
  for (const auto& [scope, costs] : pairs_)
    sum += costs[choices[scope.first] * domain(scope.second) +
                 choices[scope.second]];
  return sum;
}

}  // namespace tp
