// Runs regions: branches, loops, and what is known only while they run.
//
// Registers are those of the whole program, so a region reads what is outside
// as it lies. A loop hands its carried values from the results of its body to
// the arguments of the next round. What decides is equal on all ranks (see
// passes/broadcast_deciders), so all of them run the same collectives.

#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/binding.h"
#include "runtime/counter_hash.h"

namespace tp {
namespace {

bool HasNan(const at::Tensor& tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type()) &&
         tensor.isnan().any().item<bool>();
}

// `values`: from result or argument `first` on.
void BindSizes(Frame& frame, llvm::ArrayRef<DataSize> sizes,
               llvm::ArrayRef<at::Tensor> values, int first = 0) {
  for (const DataSize& size : sizes) {
    frame.late->symbols[size.symbol] =
        values[size.index - first].size(size.dim) - size.offset;
  }
}

void Free(Frame& frame, llvm::ArrayRef<int> registers) {
  for (int reg : registers) frame.registers[reg].reset();
}

// What a region yields, from its first result of interest on.
std::vector<at::Tensor> Yielded(Frame& frame, const ProgramRegion& region,
                                size_t first) {
  std::vector<at::Tensor> values;
  for (size_t i = first; i < region.results.size(); ++i)
    values.push_back(Take(frame, region.results[i]));
  return values;
}

void PutAll(Frame& frame, llvm::ArrayRef<int> registers,
            std::vector<at::Tensor> values) {
  for (size_t i = 0; i < registers.size(); ++i) {
    if (registers[i] >= 0) frame.registers[registers[i]] = std::move(values[i]);
  }
}

bool ReadBool(Frame& frame, const Operand& operand) {
  return Take(frame, operand).item<bool>();
}

}  // namespace

absl::Status RunCode(Frame& frame, llvm::ArrayRef<BoundInstruction> code) {
  for (const BoundInstruction& bound : code) {
    frame.current = &bound;
    TP_RETURN_IF_ERROR(bound.kernel(frame, bound));
    if (!frame.check_nan) continue;
    for (int reg : bound.instruction->results) {
      if (reg >= 0 && HasNan(frame.registers[reg])) {
        frame.current = &bound;
        return absl::InternalError("the result holds a NaN");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunIf(Frame& frame, const BoundInstruction& bound) {
  const Instruction& instruction = *bound.instruction;
  const size_t taken = ReadBool(frame, instruction.operands[0]) ? 0 : 1;
  const ProgramRegion& region = instruction.regions[taken];
  Free(frame, region.frees);
  TP_RETURN_IF_ERROR(RunCode(frame, bound.regions[taken]));
  std::vector<at::Tensor> values = Yielded(frame, region, 0);
  BindSizes(frame, instruction.sizes, values);
  PutAll(frame, instruction.results, std::move(values));
  return absl::OkStatus();
}

absl::Status RunLoop(Frame& frame, const BoundInstruction& bound) {
  const Instruction& instruction = *bound.instruction;
  const ProgramRegion& body = instruction.regions[0];
  const llvm::ArrayRef<Operand> operands = instruction.operands;
  int64_t limit = -1;  // none
  if (operands[0].reg >= 0)
    limit = std::max<int64_t>(0, Take(frame, operands[0]).item<int64_t>());
  const bool conditional = operands[1].reg >= 0;
  bool again = !conditional || ReadBool(frame, operands[1]);
  std::vector<at::Tensor> carried;
  for (const Operand& operand : operands.drop_front(2))
    carried.push_back(Take(frame, operand));
  const uint64_t random_key = frame.random_key;
  const llvm::ArrayRef<int> arguments = body.arguments;
  for (int64_t round = 0; again && round != limit; ++round) {
    frame.random_key = Scramble(random_key + static_cast<uint64_t>(round) + 1);
    if (arguments[0] >= 0)
      frame.registers[arguments[0]] = at::scalar_tensor(round, at::kLong);
    BindSizes(frame, body.sizes, carried, 1);
    PutAll(frame, arguments.drop_front(1), std::move(carried));
    TP_RETURN_IF_ERROR(RunCode(frame, bound.regions[0]));
    if (conditional) again = ReadBool(frame, body.results[0]);
    carried = Yielded(frame, body, conditional ? 1 : 0);
  }
  frame.random_key = random_key;
  Free(frame, instruction.frees);
  BindSizes(frame, instruction.sizes, carried);
  PutAll(frame, instruction.results, std::move(carried));
  return absl::OkStatus();
}

absl::Status RunRaise(Frame&, const BoundInstruction& bound) {
  const Op& op = *bound.instruction->op;
  const Attribute* message = op.attribute("message");
  const std::string where = ToString(op.location());
  return absl::UnknownError(absl::StrCat(
      where, where.empty() ? "" : ": ", "the model raises an exception: ",
      message != nullptr && message->is_string() ? message->as_string() : ""));
}

absl::Status RunLate(Frame& frame, const BoundInstruction& bound) {
  TP_ASSIGN_OR_RETURN(
      BoundInstruction now,
      BindInstruction(frame.late->program, *bound.instruction, frame.late->axes,
                      frame.late->packed, frame.late->symbols,
                      /*knows_data=*/true));
  absl::Status status = now.kernel(frame, now);
  frame.current = &bound;
  return status;
}

}  // namespace tp
