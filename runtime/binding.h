// A program whose sizes are known: what the executor's loop walks.
#ifndef TP_RUNTIME_BINDING_H_
#define TP_RUNTIME_BINDING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/executor.h"

namespace tp {

struct BoundInstruction;

// What instructions are bound with whose sizes depend on data.
struct LateBinding {
  const Program& program;
  llvm::ArrayRef<Communicator*> axes;
  llvm::ArrayRef<at::Tensor> packed;  // by index of the instruction
  SymbolValues symbols;
};

// What a kernel works on.
struct Frame {
  std::vector<at::Tensor>& registers;
  c10::Stack& stack;
  RankTimes* times;      // null: do not measure
  Tape* tape = nullptr;  // null: nothing is differentiated
  uint64_t random_key = 0;
  bool evaluate = false;   // dropout drops nothing
  bool recompute = false;  // segments are recorded when they run again
  LateBinding* late = nullptr;
  bool check_nan = false;  // of every result
  // What runs now, for messages.
  const BoundInstruction* current = nullptr;
};

using Kernel = absl::Status (*)(Frame&, const BoundInstruction&);

// One part [left][offset, offset + extent)[right] of a dim.
struct SliceBox {
  int64_t dim = 0;
  int64_t left = 1;
  int64_t size = 1;
  int64_t right = 1;
  int64_t offset = 0;
  int64_t extent = 0;
};

// A result of an op that does not run because this rank's share is nothing.
struct EmptyValue {
  llvm::SmallVector<int64_t, 4> dims;
  DType dtype = DType::kF32;
};

struct BoundInstruction {
  Kernel kernel = nullptr;
  // kIf, kLoop: the code of each region.
  std::vector<std::vector<BoundInstruction>> regions;
  const Instruction* instruction = nullptr;
  // kAten: one per schema argument; none where a tensor goes.
  std::vector<c10::IValue> arguments;
  at::Tensor packed;  // of a product whose weight is packed
  // Dims of the result, for kernels that make it themselves.
  llvm::SmallVector<int64_t, 4> dims;
  DType dtype = DType::kF32;
  std::vector<EmptyValue> empty;     // one per result, where no kernel runs
  double identity = 0;               // the value of those
  std::vector<EmptyValue> expected;  // of an op without a row, per result
  int64_t random_number = -1;  // of a random op, among those of the program
  int64_t offset = 0;          // of tp.embedding_shard; a segment's number
  int64_t vocabulary = -1;
  int64_t padding = -1;  // the row of the whole table without a gradient
  // Collectives.
  Communicator* communicator = nullptr;
  ReduceOp reduce = ReduceOp::kSum;
  ShardLayout shard;
  AllToAllLayout all_to_all;
  std::vector<int64_t> segment_inputs;  // let go or given back
  // tp.dropout_mask: the global index of each index of each dim.
  std::vector<std::vector<int64_t>> global_indices;
  std::vector<int64_t> global_strides;
  double probability = 0;
  // tp.slice, and the second half of a same-dim move; of tp.gather_shard dim,
  // offset and the whole size.
  SliceBox slice;
  int64_t moved_bytes = 0;  // of the whole tensor
};

struct Binding {
  std::vector<int64_t> key;
  std::vector<BoundInstruction> hoisted;
  std::vector<BoundInstruction> code;
  std::vector<at::Tensor> registers;
  bool keeps_hoisted = true;
};

// Fills in the sizes. `axes`: one communicator per mesh axis; `packed`: weights
// of products, by index of the instruction, undefined where there is none.
// Unless `symbols` holds sizes that depend on data (`knows_data`), what has
// such sizes is left open and bound each time it runs.
absl::StatusOr<BoundInstruction> BindInstruction(
    const Program& program, const Instruction& instruction,
    llvm::ArrayRef<Communicator*> axes, llvm::ArrayRef<at::Tensor> packed,
    const SymbolValues& symbols, bool knows_data = false);

// Runs instructions one after the other.
absl::Status RunCode(Frame& frame, llvm::ArrayRef<BoundInstruction> code);
// kIf, kLoop and kRaise; and what is bound each time it runs.
absl::Status RunIf(Frame& frame, const BoundInstruction& bound);
absl::Status RunLoop(Frame& frame, const BoundInstruction& bound);
absl::Status RunRaise(Frame& frame, const BoundInstruction& bound);
absl::Status RunLate(Frame& frame, const BoundInstruction& bound);

// The kernel of an ATen instruction and those of the tp ops.
absl::Status RunAten(Frame& frame, const BoundInstruction& bound);
absl::Status RunPackedProduct(Frame& frame, const BoundInstruction& bound);
absl::Status RunFull(Frame& frame, const BoundInstruction& bound);
Kernel TpKernel(InstructionKind kind);

// The value of an operand, moved out of its register at its last use.
at::Tensor Take(Frame& frame, const Operand& operand);
// Gives a result to its register, if anybody reads it.
void Put(Frame& frame, const BoundInstruction& bound, at::Tensor value,
         size_t result = 0);
// Whether nobody but `tensor` can see the memory it covers. Exact: it asks
// the reference counts of the tensor and of its storage, which every view,
// weight, input, output and saved tensor holds.
bool OwnsMemory(const at::Tensor& tensor);

}  // namespace tp

#endif  // TP_RUNTIME_BINDING_H_
