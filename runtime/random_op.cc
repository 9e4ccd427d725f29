#include "runtime/random_op.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <mutex>
#include <utility>

#include "ir/op_def.h"
#include "runtime/counter_hash.h"

namespace tp {
namespace {

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

// Row by row of the last dim. An element stays if its hash, as a fraction of
// all, is not below the probability.
template <typename T>
void FillMask(const BoundInstruction& bound, uint64_t key, T* out) {
  const size_t ndim = bound.dims.size();
  const T kept = bound.probability < 1
                     ? static_cast<T>(1 / (1 - bound.probability))
                     : T{0};
  const auto limit = static_cast<uint64_t>(
      std::ldexp(bound.probability, 53));  // of the upper 53 bits
  int64_t rows = 1;
  for (size_t dim = 0; dim + 1 < ndim; ++dim) rows *= bound.dims[dim];
  static const std::vector<int64_t> kOne = {0};
  const std::vector<int64_t>& last =
      ndim == 0 ? kOne : bound.global_indices.back();
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row;
    int64_t base = 0;
    for (size_t dim = ndim - 1; ndim > 1 && dim-- > 0;) {
      base += bound.global_indices[dim][rest % bound.dims[dim]] *
              bound.global_strides[dim];
      rest /= bound.dims[dim];
    }
    for (const int64_t index : last) {
      const uint64_t hash =
          Scramble(key + static_cast<uint64_t>(base + index)) >> 11;
      *out++ = hash < limit ? T{0} : kept;
    }
  }
}

}  // namespace

absl::Status RunRandom(Frame& frame, const BoundInstruction& bound) {
  SeededGenerator seeded(static_cast<uint64_t>(bound.random_number),
                         frame.random_key);
  return RunAten(frame, bound);
}

absl::Status RunDropoutMask(Frame& frame, const BoundInstruction& bound) {
  const int reg = bound.instruction->results[0];
  if (reg < 0) return absl::OkStatus();
  const at::IntArrayRef sizes(bound.dims.data(), bound.dims.size());
  const at::ScalarType dtype = ScalarTypeOf(bound.dtype);
  if (frame.evaluate) {
    frame.registers[reg] = at::ones(sizes, dtype);
    return absl::OkStatus();
  }
  at::Tensor mask =
      at::empty(sizes, dtype == at::kDouble ? at::kDouble : at::kFloat);
  const uint64_t key =
      Scramble(Scramble(frame.random_key +
                        at::detail::getDefaultCPUGenerator().current_seed()) +
               static_cast<uint64_t>(bound.offset));
  if (mask.scalar_type() == at::kDouble) {
    FillMask(bound, key, mask.mutable_data_ptr<double>());
  } else {
    FillMask(bound, key, mask.mutable_data_ptr<float>());
  }
  frame.registers[reg] = mask.to(dtype);
  return absl::OkStatus();
}

int64_t RandomNumberOf(const Program& program, const Instruction& instruction) {
  if (!HasTrait(*instruction.op, kRandom)) return -1;
  int64_t number = 0;
  int64_t found = -1;
  program.ForEachInstruction([&](const Instruction& other) {
    if (other.index == instruction.index) found = number;
    number += HasTrait(*other.op, kRandom) ? 1 : 0;
  });
  return found;
}

}  // namespace tp
