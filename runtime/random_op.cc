#include "runtime/random_op.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <utility>

#include "ir/op_def.h"

namespace tp {
namespace {

bool IsRandom(const Op& op) {
  const OpDef* row = FindOpDef(op);
  return row != nullptr && (row->traits & kRandom) != 0;
}

// A bijection whose every output bit depends on every input bit (the
// finalizer of SplitMix64).
uint64_t Scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Sets the state of the process's generator as long as it lives.
class SeededGenerator {
 public:
  SeededGenerator(uint64_t number, uint64_t run)
      : turn_(TurnMutex()), generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.get_state();
    const uint64_t seed = Scramble(generator_.current_seed() + 1);
    generator_.set_current_seed(Scramble(Scramble(seed + number) + run));
  }
  ~SeededGenerator() {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;

 private:
  static std::mutex& TurnMutex() {
    static auto* const mutex = new std::mutex();
    return *mutex;
  }
  std::lock_guard<std::mutex> turn_;
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

absl::Status RunRandom(Frame& frame, const BoundInstruction& bound) {
  SeededGenerator seeded(static_cast<uint64_t>(bound.random_number),
                         bound.draws++);
  return RunAten(frame, bound);
}

int64_t RandomNumberOf(const Program& program, const Instruction& instruction) {
  if (!IsRandom(*instruction.op)) return -1;
  int64_t number = 0;
  for (const Instruction& other : program.instructions()) {
    if (&other == &instruction) return number;
    number += IsRandom(*other.op) ? 1 : 0;
  }
  return -1;
}

}  // namespace tp
