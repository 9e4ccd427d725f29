// One persistent thread per rank.
#ifndef TP_RUNTIME_RANK_THREADS_H_
#define TP_RUNTIME_RANK_THREADS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace tp {

class RankThreads {
 public:
  // `enter` runs on each thread before it takes work. kResourceExhausted if
  // the system has no more threads.
  static absl::StatusOr<std::unique_ptr<RankThreads>> Create(
      int ranks, std::function<void(int rank)> enter);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Runs work(rank) on every thread and returns when all are done. One
  // caller at a time.
  void RunAll(const std::function<void(int rank)>& work);

 private:
  explicit RankThreads(std::function<void(int)> enter);
  void Loop(int rank);

  std::function<void(int)> enter_;
  const std::function<void(int)>* work_ = nullptr;  // null: leave
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> busy_{0};
  std::vector<std::thread> threads_;
};

}  // namespace tp

#endif  // TP_RUNTIME_RANK_THREADS_H_
