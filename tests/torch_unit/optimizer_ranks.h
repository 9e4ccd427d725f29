// Parameters in parts, cut and put together by hand, for tests of optimizers.
#ifndef TESTS_TORCH_UNIT_OPTIMIZER_RANKS_H_
#define TESTS_TORCH_UNIT_OPTIMIZER_RANKS_H_

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ir/shard_block.h"
#include "runtime/comm/threads_communicator.h"
#include "runtime/optimizer/optimizer.h"
#include "tests/torch_unit/rank_programs.h"

namespace tp::testing {

struct ParameterCase {
  std::string name;
  std::vector<int64_t> sizes;
  std::string placement;
};

inline TensorType TypeOf(const std::vector<int64_t>& sizes) {
  TensorType type;
  for (int64_t size : sizes) type.dims.push_back(SymExpr(size));
  return type;
}

inline Placement PlacementOf(const ParameterCase& parameter) {
  auto placement =
      ParsePlacement(parameter.placement, TypeOf(parameter.sizes).dims);
  EXPECT_TRUE(placement.ok()) << placement.status();
  return placement.ok() ? *placement : Placement();
}

// The dim as its box, with the split factor in the middle.
inline at::Tensor AsBox(const at::Tensor& whole, const Placement& placement,
                        int64_t size) {
  const DimFactor& box = placement.factor();
  std::vector<int64_t> sizes = whole.sizes().vec();
  sizes[placement.dim()] = size;
  sizes.insert(sizes.begin() + placement.dim(), box.left.constant());
  sizes.insert(sizes.begin() + placement.dim() + 2, box.right.constant());
  return whole.reshape(sizes);
}

inline at::Tensor LocalPart(const at::Tensor& whole, const Placement& placement,
                            int64_t ranks, int64_t rank) {
  if (!placement.is_shard()) return whole.clone();
  const int64_t size = placement.factor().size.constant();
  const Part part = PartOf(size, ranks, rank);
  std::vector<int64_t> sizes = whole.sizes().vec();
  sizes[placement.dim()] = part.extent * placement.factor().left.constant() *
                           placement.factor().right.constant();
  return AsBox(whole, placement, size)
      .narrow(placement.dim() + 1, part.offset, part.extent)
      .reshape(sizes)
      .clone();
}

// The whole of what the ranks hold; copies must have the same bits.
inline at::Tensor WholeOf(const std::vector<at::Tensor>& parts,
                          const Placement& placement,
                          const std::vector<int64_t>& sizes) {
  if (!placement.is_shard()) {
    for (const at::Tensor& part : parts) {
      EXPECT_TRUE(at::equal(part, parts[0])) << "copies differ";
    }
    return parts[0];
  }
  std::vector<at::Tensor> boxes;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const Part part =
        PartOf(placement.factor().size.constant(),
               static_cast<int64_t>(parts.size()), static_cast<int64_t>(rank));
    boxes.push_back(AsBox(parts[rank], placement, part.extent));
  }
  return at::cat(boxes, placement.dim() + 1).reshape(sizes);
}

inline TrainableParameter ParameterOf(const ParameterCase& parameter,
                                      const at::Tensor& whole, int64_t ranks,
                                      int64_t rank) {
  TrainableParameter result;
  result.name = parameter.name;
  result.type = TypeOf(parameter.sizes);
  const Placement placement = PlacementOf(parameter);
  result.value = LocalPart(whole, placement, ranks, rank);
  result.spec = {placement};
  auto block =
      BlockOf(parameter.sizes, result.spec, Mesh({{"tp", ranks}}), rank);
  EXPECT_TRUE(block.ok()) << block.status();
  if (block.ok()) result.block = *block;
  return result;
}

// Runs on a thread per rank; errors fail the test.
inline void OnRanks(
    int ranks,
    const std::function<absl::Status(int rank, Communicator* axis)>& work) {
  auto communicators = MakeThreadsCommunicators(ranks, {});
  ASSERT_TRUE(communicators.ok()) << communicators.status();
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::NoGradGuard no_grad;
      std::unique_ptr<Communicator> axis = std::move((*communicators)[rank]);
      try {
        statuses[rank] = work(rank, axis.get());
      } catch (const std::exception& error) {
        statuses[rank] = absl::InternalError(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

}  // namespace tp::testing

#endif  // TESTS_TORCH_UNIT_OPTIMIZER_RANKS_H_
