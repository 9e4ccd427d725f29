#include "runtime/rank_group.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/comm/threads_communicator.h"

namespace tp {
namespace {

// LibTorch's exceptions may not leave the thread.
absl::Status RunOne(int rank, const std::function<absl::Status(int)>& work) {
  const auto message = [&](const char* what) {
    return absl::StrCat("rank ", rank, ": ", what);
  };
  try {
    return work(rank);
  } catch (const c10::OutOfMemoryError&) {
    return absl::ResourceExhaustedError(message("out of memory"));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(message("out of memory"));
  } catch (const c10::Error& error) {
    return absl::InternalError(message(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(message(error.what()));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Create(
    const Mesh& mesh, const RankGroupOptions& options) {
  std::unique_ptr<RankGroup> group(new RankGroup());
  group->mesh_ = mesh;
  const int ranks = static_cast<int>(mesh.num_ranks());
  const int cores =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  group->threads_ =
      options.threads > 0 ? options.threads : std::max(1, cores / ranks);
  ThreadsOptions communication;
  communication.timeout = options.timeout;
  TP_ASSIGN_OR_RETURN(auto worlds,
                      MakeThreadsCommunicators(ranks, communication));
  group->ranks_.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    group->ranks_[rank].world = std::move(worlds[rank]);
  }
  const int threads = group->threads_;
  TP_ASSIGN_OR_RETURN(
      group->rank_threads_, RankThreads::Create(ranks, [threads](int) {
        at::set_num_threads(threads);
      }));
  TP_RETURN_IF_ERROR(
      group->Run([&](int rank) { return group->MakeAxes(rank); }));
  return group;
}

absl::Status RankGroup::MakeAxes(int rank) {
  Rank& state = ranks_[rank];
  if (mesh_.ndim() == 1) {
    state.axes.push_back(state.world.get());
    return absl::OkStatus();
  }
  for (int axis = 0; axis < mesh_.ndim(); ++axis) {
    std::vector<int> members;
    for (int64_t member : mesh_.Group(axis, rank)) {
      members.push_back(static_cast<int>(member));
    }
    TP_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                        state.world->MakeSubgroup(members));
    state.axes.push_back(communicator.get());
    state.groups.push_back(std::move(communicator));
  }
  return absl::OkStatus();
}

absl::Status RankGroup::Run(
    const std::function<absl::Status(int rank)>& work) {
  TP_RETURN_IF_ERROR(broken_);
  std::vector<absl::Status> statuses(ranks_.size());
  rank_threads_->RunAll([&](int rank) {
    statuses[rank] = RunOne(rank, work);
    if (!statuses[rank].ok()) ranks_[rank].world->Abort(statuses[rank]);
  });
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    if (broken_.ok() || absl::IsAborted(broken_)) broken_ = status;
  }
  return broken_;
}

}  // namespace tp
