// The ranks of a package in this process: a thread and its communicators for
// each. An error of one rank ends the group for all.
#ifndef TP_RUNTIME_RANK_GROUP_H_
#define TP_RUNTIME_RANK_GROUP_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ir/mesh.h"
#include "runtime/comm/communicator.h"
#include "runtime/rank_threads.h"

namespace tp {

struct RankGroupOptions {
  // Threads inside each rank's ATen ops; 0: cores / ranks, at least 1.
  int threads = 0;
  // How long a collective waits for the other ranks.
  absl::Duration timeout = absl::Seconds(60);
};

class RankGroup {
 public:
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(
      const Mesh& mesh, const RankGroupOptions& options);

  // Runs work(rank) on every rank's thread, exceptions of LibTorch caught.
  // The first error (by rank, those that only follow from another rank's
  // last) is returned here and by all later calls.
  absl::Status Run(const std::function<absl::Status(int rank)>& work);

  const Mesh& mesh() const { return mesh_; }
  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  int threads_per_rank() const { return threads_; }
  // One communicator per mesh axis.
  const std::vector<Communicator*>& axes(int rank) const {
    return ranks_[rank].axes;
  }

 private:
  struct Rank {
    std::unique_ptr<Communicator> world;
    std::vector<std::unique_ptr<Communicator>> groups;  // of 2 or more axes
    std::vector<Communicator*> axes;
  };

  RankGroup() = default;
  absl::Status MakeAxes(int rank);

  Mesh mesh_;
  int threads_ = 1;
  std::vector<Rank> ranks_;
  absl::Status broken_;
  std::unique_ptr<RankThreads> rank_threads_;  // last: joined first
};

}  // namespace tp

#endif  // TP_RUNTIME_RANK_GROUP_H_
