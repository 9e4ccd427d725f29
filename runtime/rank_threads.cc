#include "runtime/rank_threads.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tp {

absl::StatusOr<std::unique_ptr<RankThreads>> RankThreads::Create(
    int ranks, std::function<void(int)> enter) {
  std::unique_ptr<RankThreads> result(new RankThreads(std::move(enter)));
  result->threads_.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      result->threads_.emplace_back(&RankThreads::Loop, result.get(), rank);
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no thread for rank ", rank, " of ", ranks, ": ", error.what(),
          "; raise the limit on threads or memory, or compile for fewer "
          "ranks"));
    }
  }
  return result;
}

RankThreads::RankThreads(std::function<void(int)> enter)
    : enter_(std::move(enter)) {}

RankThreads::~RankThreads() {
  work_ = nullptr;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::RunAll(const std::function<void(int)>& work) {
  work_ = &work;
  busy_.store(static_cast<uint32_t>(threads_.size()));
  round_.fetch_add(1);
  round_.notify_all();
  for (uint32_t busy = busy_.load(); busy != 0; busy = busy_.load()) {
    busy_.wait(busy);
  }
}

void RankThreads::Loop(int rank) {
  enter_(rank);
  for (uint32_t seen = 0;;) {
    round_.wait(seen);
    seen = round_.load();
    if (work_ == nullptr) return;
    (*work_)(rank);
    if (busy_.fetch_sub(1) == 1) busy_.notify_all();
  }
}

}  // namespace tp
