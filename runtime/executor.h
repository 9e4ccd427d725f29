// Runs the program of one rank. One thread at a time.
#ifndef TP_RUNTIME_EXECUTOR_H_
#define TP_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "runtime/program.h"

namespace tp {

// The sizes of one call, read from its inputs.
struct Sizes {
  SymbolValues values;
  std::vector<int64_t> key;  // the same in a fixed order
};

enum class NanCheck : uint8_t { kOff, kOutputs, kAll };

// Packed copies of weights, by name and orientation, for executors of one rank
// that share their weights.
using PackedWeights = std::map<std::pair<std::string, bool>, at::Tensor>;

struct ExecutorOptions {
  NanCheck nan_check = NanCheck::kOff;
  // Values that depend on weights and sizes only (masks, rotary tables) are
  // kept between calls of the same sizes up to this many bytes per set of
  // sizes; beyond, they are computed at every call.
  int64_t hoisted_bytes = int64_t{256} << 20;
  // Keeps weights of matrix products in the layout of the fastest kernels.
  // Not for programs that are differentiated.
  bool pack_weights = true;
  // Where packed copies are looked for and left; null: nobody else's. Used
  // during Create only.
  PackedWeights* packed = nullptr;
  // Sets of sizes remembered; the oldest goes first.
  int max_bindings = 8;
};

// Where the time of one call went, in seconds.
struct RankTimes {
  double total = 0;
  double wait = 0;         // for other ranks to reach a collective
  double communicate = 0;  // inside collectives, once all are there
  double compute() const { return total - wait - communicate; }
  int64_t collectives = 0;
  int64_t collective_bytes = 0;  // of the whole tensors
};

struct Binding;
struct Tape;

struct RunOptions {
  // Where the time went, added up. Ranks then also meet before each
  // collective so that waiting can be told from communicating; all ranks have
  // to ask for it alike.
  RankTimes* times = nullptr;
  // Where @forward is recorded, and what @backward differentiates.
  Tape* tape = nullptr;
  // What random numbers depend on besides the op; equal on all ranks.
  uint64_t random_key = 0;
  // Dropout drops nothing.
  bool evaluate = false;
  // @forward keeps what enters segments only; @backward runs them again. The
  // executor must not run anything else in between.
  bool recompute = false;
};

class Executor {
 public:
  // `weights` in the order of program->weights(), of their local shapes;
  // `axes` one communicator per mesh axis, owned by the caller.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      std::shared_ptr<const Program> program, std::vector<at::Tensor> weights,
      std::vector<Communicator*> axes, const ExecutorOptions& options);
  ~Executor();

  // `inputs` in the order of program().inputs(), whole, or this rank's parts
  // where their spec says so. The results may
  // share memory with inputs and weights and must not be written.
  absl::StatusOr<std::vector<at::Tensor>> Run(llvm::ArrayRef<at::Tensor> inputs,
                                              const Sizes& sizes,
                                              const RunOptions& options = {});

  // The content of a weight that a result becomes, of its local shape; not
  // written by anybody from now on.
  void SetWeight(int index, at::Tensor value);
  const at::Tensor& weight(int index) const { return weights_[index]; }

  const Program& program() const { return *program_; }

 private:
  Executor() = default;
  void PackWeights();
  std::vector<bool> FindUnread(const std::vector<bool>& is_packed);
  absl::StatusOr<Binding*> Bind(const Sizes& sizes);
  absl::Status RunHoisted(Binding& binding);
  absl::Status Execute(Binding& binding, const Sizes& sizes,
                       const RunOptions& options);
  absl::Status Replay(const Binding& binding, int64_t segment,
                      const RunOptions& options, Tape& again);

  std::shared_ptr<const Program> program_;
  std::vector<at::Tensor> weights_;  // undefined where only packed is read
  // By index of the instruction: its packed weight, undefined where it has
  // none, and whether nobody reads what it computes any more.
  std::vector<at::Tensor> packed_;
  std::vector<bool> unread_;
  std::vector<Communicator*> axes_;
  ExecutorOptions options_;
  std::vector<std::unique_ptr<Binding>> bindings_;  // newest first
  c10::Stack stack_;                                // reused by every call
};

}  // namespace tp

#endif  // TP_RUNTIME_EXECUTOR_H_
