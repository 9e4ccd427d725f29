// Rank programs as text, for tests of the runtime.
#ifndef TESTS_TORCH_UNIT_RANK_PROGRAMS_H_
#define TESTS_TORCH_UNIT_RANK_PROGRAMS_H_

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "runtime/session.h"

namespace tp::testing {

// Part of `size` that rank r of n holds, by hand.
struct Part {
  int64_t offset;
  int64_t extent;
};
inline Part PartOf(int64_t size, int64_t ranks, int64_t rank) {
  Part part{0, 0};
  for (int64_t r = 0; r <= rank; ++r) {
    part.offset += part.extent;
    part.extent = size / ranks + (r < size % ranks ? 1 : 0);
  }
  return part;
}

using RankText = std::function<std::string(int rank)>;
using RankWeights = std::function<std::vector<at::Tensor>(int rank)>;

// Opens a session over `ranks` programs on a mesh [tp: ranks]. `text` gives
// what follows the rank line.
inline absl::StatusOr<std::unique_ptr<Session>> OpenText(
    int ranks, const RankText& text, const RankWeights& weights = nullptr,
    SessionOptions options = {}, std::string mesh = "") {
  if (mesh.empty()) mesh = absl::StrCat("[tp: ", ranks, "]");
  std::vector<std::shared_ptr<const Module>> programs;
  std::vector<std::vector<at::Tensor>> tensors(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    auto module = Parse(absl::StrCat("tpir 1\nmesh @m = ", mesh, "\nrank ",
                                     rank, "\n", text(rank)),
                        absl::StrCat("rank", rank, ".tpir"));
    if (!module.ok()) return module.status();
    programs.push_back(*std::move(module));
    if (weights) tensors[rank] = weights(rank);
  }
  options.group.threads = 1;
  return Session::Create(std::move(programs), std::move(tensors), options);
}

}  // namespace tp::testing

#endif  // TESTS_TORCH_UNIT_RANK_PROGRAMS_H_
