// One rank's function as a flat list of instructions over registers.
//
// A register holds one value of the function; there are as many as values.
// Every instruction knows which of its operands it uses last, so a value
// lives exactly as long as it is needed. What depends on sizes is left open:
// the executor fills it in once per set of input shapes.
#ifndef TP_RUNTIME_PROGRAM_H_
#define TP_RUNTIME_PROGRAM_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/collectives.h"
#include "ir/module.h"
#include "runtime/aten_kernel.h"

namespace tp {

struct Operand {
  int reg = -1;  // -1: an absent optional tensor
  bool last_use = false;
};

// A pointwise operator that may write its result over one of its operands.
struct InPlace {
  c10::OperatorHandle handle;
  int operand = 0;  // whose memory is reused; 1 swaps the first two
};

// A product with a matrix. Where that is a weight of the function, the
// executor may keep it in a layout that suits the product, and drop the
// original.
struct MatrixProduct {
  int weight = -1;          // register of the weight; -1: it is none
  bool transposed = false;  // it is [in, out] rather than [out, in]
  int input = 0;            // operands of the instruction
  int bias = -1;            // [out], added to every row
  int weight_operand = 1;
};

enum class InstructionKind : uint8_t {
  kAten,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSlice,
  kCopy,
  kSym,
  kEmbeddingShard,
  kGatherShard,
  kEnter,  // of a segment that is differentiated
  kLeave,
  kSegmentGrad,
  kRefill,
  kDropoutMask,
  kBroadcast,
  kIf,
  kLoop,
  kRaise,
};

// A size that depends on data: a dim of result (or argument) `index`.
struct DataSize {
  std::string symbol;
  int index = 0;
  int dim = 0;
  int64_t offset = 0;  // the dim is the symbol plus this
};

struct Instruction;

// A branch of an if or the body of a loop.
struct ProgramRegion {
  std::vector<int> arguments;   // registers; -1 where nobody reads it
  std::vector<DataSize> sizes;  // of arguments
  std::vector<Instruction> instructions;
  // What it yields. The same register may be yielded twice; the last use is
  // marked on the last.
  std::vector<Operand> results;
  // Registers from outside that the region does not read, but the other
  // branch reads for the last time.
  std::vector<int> frees;
};

struct Instruction {
  InstructionKind kind = InstructionKind::kAten;
  const Op* op = nullptr;
  llvm::SmallVector<Operand, 4> operands;
  llvm::SmallVector<int, 1> results;  // registers; -1 where nobody reads it
  std::optional<AtenCall> call;       // of kAten
  std::vector<InPlace> in_place;      // choices, best first
  // Of kEnter: registers made outside of the segment that it reads as they
  // are, other than constants.
  std::vector<int> captured;
  std::optional<MatrixProduct> product;
  // Position in Program::num_instructions.
  int index = 0;
  // Of kIf and kLoop.
  std::vector<ProgramRegion> regions;
  std::vector<DataSize> sizes;  // of results
  std::vector<int> frees;       // of kLoop: what its body reads last
  // Has sizes that depend on data: bound each time it runs.
  bool late = false;
  // Depends on weights and sizes only: evaluated once per set of sizes. Never
  // in a region.
  bool hoisted = false;
  int64_t collective_index = -1;  // position in the schedule
  std::string module_path;        // for messages, owned here
  std::string source;             // "mlp.py:12"
};

bool IsCollective(InstructionKind kind);

// A run of instructions without communication. Collectives stand between
// segments, so that training can give a whole segment to autograd.
struct Segment {
  int begin = 0;
  int end = 0;  // past the last
};

struct ProgramArgument {
  ArgumentInfo info;
  TensorType type;  // of a weight the local one, of an input the whole one
  int reg = 0;
  ShardingSpec spec;  // empty in a program without a plan
  // A result becomes its content at the next call.
  bool carried = false;
};

struct ProgramResult {
  int reg = 0;
  bool is_output = true;
  // Of what it becomes, its position in weights() or inputs(); -1: nothing.
  int weight = -1;
  int input = -1;
  TensorType type;    // the whole one
  ShardingSpec spec;  // empty in a program without a plan
  // The input of another function that it becomes; "" if none.
  std::string feeds_function;
  std::string feeds_input;

  bool is_cache() const { return input >= 0 || !feeds_function.empty(); }
};

class Program {
 public:
  // Compiles @`function` of a rank's module; keeps the module alive.
  // kUnimplemented names ops this LibTorch lacks, kInvalidArgument ops that
  // do not fit their schema.
  static absl::StatusOr<std::unique_ptr<Program>> Compile(
      std::shared_ptr<const Module> module, const std::string& function,
      at::Device device);

  const Module& module() const { return *module_; }
  const Function& function() const { return *function_; }
  const std::string& name() const { return function_->name(); }
  // Those of the module that this function's inputs decide: sizes read from
  // them, and what is assumed of those.
  const std::vector<SymbolInfo>& symbols() const { return symbols_; }
  const std::vector<Guard>& guards() const { return guards_; }
  int64_t rank() const { return module_->rank().value_or(0); }
  const std::vector<ProgramArgument>& inputs() const { return inputs_; }
  const std::vector<ProgramArgument>& weights() const { return weights_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  // With those of regions, which come after the one they belong to.
  int num_instructions() const { return num_instructions_; }
  template <typename Visit>
  void ForEachInstruction(const Visit& visit) const {
    ForEachInstruction(instructions_, visit);
  }
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<ProgramResult>& results() const { return results_; }
  int num_registers() const { return num_registers_; }
  // Whether nothing frees this register: weights and hoisted values.
  bool IsConstant(int reg) const { return constant_[reg]; }

 private:
  friend class ProgramBuilder;
  Program() = default;
  template <typename Visit>
  static void ForEachInstruction(const std::vector<Instruction>& instructions,
                                 const Visit& visit) {
    for (const Instruction& instruction : instructions) {
      visit(instruction);
      for (const ProgramRegion& region : instruction.regions)
        ForEachInstruction(region.instructions, visit);
    }
  }

  std::shared_ptr<const Module> module_;
  const Function* function_ = nullptr;
  std::vector<SymbolInfo> symbols_;
  std::vector<Guard> guards_;
  std::vector<ProgramArgument> inputs_;
  std::vector<ProgramArgument> weights_;
  std::vector<Instruction> instructions_;
  std::vector<Segment> segments_;
  std::vector<ProgramResult> results_;
  std::vector<bool> constant_;
  int num_registers_ = 0;
  int num_instructions_ = 0;
};

// "rank 1: aten.linear in block.0.wi (mlp.py:12)", for messages.
std::string Describe(const Program& program, const Instruction& instruction);

}  // namespace tp

#endif  // TP_RUNTIME_PROGRAM_H_
