#include "runtime/rank_threads.h"

#include <utility>

namespace tp {

RankThreads::RankThreads(int ranks, std::function<void(int)> enter)
    : enter_(std::move(enter)) {
  threads_.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    threads_.emplace_back([this, rank] { Loop(rank); });
  }
}

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
