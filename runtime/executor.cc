#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/binding.h"
#include "runtime/packed_linear.h"
#include "runtime/train/tape.h"

namespace tp {
namespace {

// LibTorch's exceptions end here.
template <typename Body>
absl::Status CatchTorch(Body body) {
  try {
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return absl::InternalError(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

bool HasNan(const at::Tensor& tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type()) &&
         tensor.isnan().any().item<bool>();
}

// Bytes of the storages in `tensors`, each counted once.
int64_t StorageBytes(llvm::ArrayRef<at::Tensor> tensors) {
  std::unordered_set<const c10::StorageImpl*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.has_storage()) continue;
    if (seen.insert(tensor.storage().unsafeGetStorageImpl()).second) {
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
    }
  }
  return bytes;
}

// Registers of hoisted values that are read outside the hoisted part.
std::vector<bool> ReadLater(const Program& program) {
  std::vector<bool> read(program.num_registers(), false);
  const auto add = [&](llvm::ArrayRef<Operand> operands) {
    for (const Operand& operand : operands) {
      if (operand.reg >= 0) read[operand.reg] = true;
    }
  };
  program.ForEachInstruction([&](const Instruction& instruction) {
    if (instruction.hoisted) return;
    add(instruction.operands);
    for (const ProgramRegion& region : instruction.regions) add(region.results);
  });
  for (const ProgramResult& result : program.results()) read[result.reg] = true;
  return read;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    std::shared_ptr<const Program> program, std::vector<at::Tensor> weights,
    std::vector<Communicator*> axes, const ExecutorOptions& options) {
  if (weights.size() != program->weights().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", program->rank(), " needs ", program->weights().size(),
        " weights, got ", weights.size()));
  }
  std::unique_ptr<Executor> executor(new Executor());
  executor->program_ = std::move(program);
  executor->weights_ = std::move(weights);
  executor->axes_ = std::move(axes);
  executor->options_ = options;
  executor->packed_.resize(executor->program_->num_instructions());
  executor->unread_.resize(executor->packed_.size());
  if (options.pack_weights) {
    TP_RETURN_IF_ERROR(CatchTorch([&] {
      executor->PackWeights();
      return absl::OkStatus();
    }));
  }
  return executor;
}

void Executor::PackWeights() {
  std::map<int, at::Tensor*> weights;
  std::map<int, std::string> names;
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights[program_->weights()[i].reg] = &weights_[i];
    names[program_->weights()[i].reg] = program_->weights()[i].info.name;
  }
  // By weight and orientation, the instructions that use it.
  std::map<std::pair<int, bool>, std::vector<size_t>> uses;
  std::vector<bool> is_packed(packed_.size(), false);
  program_->ForEachInstruction([&](const Instruction& instruction) {
    if (!instruction.product) return;
    const MatrixProduct& product = *instruction.product;
    if (product.weight < 0 || !CanPackWeight(*weights[product.weight])) return;
    uses[{product.weight, product.transposed}].push_back(instruction.index);
    is_packed[instruction.index] = true;
  });
  const std::vector<bool> read = FindUnread(is_packed);
  // One weight at a time is there twice.
  for (auto it = uses.begin(); it != uses.end();) {
    const auto [weight, transposed] = it->first;
    at::Tensor own;
    at::Tensor& packed = options_.packed == nullptr
                             ? own
                             : (*options_.packed)[{names[weight], transposed}];
    if (!packed.defined()) packed = PackWeight(*weights[weight], transposed);
    for (size_t i : it->second) packed_[i] = packed;
    ++it;
    const bool is_last = it == uses.end() || it->first.first != weight;
    if (is_last && !read[weight]) weights[weight]->reset();
  }
  for (const auto& [reg, weight] : weights) {
    if (!read[reg]) weight->reset();
  }
}

// What only packed products read need not be kept or computed. Returns the
// registers that are read otherwise.
std::vector<bool> Executor::FindUnread(const std::vector<bool>& is_packed) {
  std::vector<bool> read(program_->num_registers(), false);
  for (const ProgramResult& result : program_->results())
    read[result.reg] = true;
  std::vector<const Instruction*> instructions;
  program_->ForEachInstruction([&](const Instruction& instruction) {
    instructions.push_back(&instruction);
  });
  for (size_t i = instructions.size(); i-- > 0;) {
    const Instruction& instruction = *instructions[i];
    if (instruction.hoisted) {
      unread_[i] = llvm::none_of(
          instruction.results, [&](int reg) { return reg >= 0 && read[reg]; });
      if (unread_[i]) continue;
    }
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      const bool skips =
          is_packed[i] &&
          static_cast<int>(k) == instruction.product->weight_operand;
      const int reg = instruction.operands[k].reg;
      if (reg >= 0 && !skips) read[reg] = true;
    }
    for (const ProgramRegion& region : instruction.regions) {
      for (const Operand& operand : region.results) read[operand.reg] = true;
    }
  }
  return read;
}

Executor::~Executor() = default;

absl::StatusOr<Binding*> Executor::Bind(const Sizes& sizes) {
  for (auto it = bindings_.begin(); it != bindings_.end(); ++it) {
    if ((*it)->key != sizes.key) continue;
    std::rotate(bindings_.begin(), it, it + 1);
    return bindings_.front().get();
  }
  auto binding = std::make_unique<Binding>();
  binding->key = sizes.key;
  binding->registers.resize(program_->num_registers());
  for (size_t i = 0; i < weights_.size(); ++i) {
    binding->registers[program_->weights()[i].reg] = weights_[i];
  }
  for (const Instruction& instruction : program_->instructions()) {
    if (unread_[instruction.index]) continue;
    TP_ASSIGN_OR_RETURN(
        BoundInstruction bound,
        BindInstruction(*program_, instruction, axes_, packed_, sizes.values));
    auto& list = instruction.hoisted ? binding->hoisted : binding->code;
    list.push_back(std::move(bound));
  }
  TP_RETURN_IF_ERROR(RunHoisted(*binding));
  if (static_cast<int>(bindings_.size()) >= options_.max_bindings) {
    bindings_.pop_back();
  }
  bindings_.insert(bindings_.begin(), std::move(binding));
  return bindings_.front().get();
}

void Executor::SetWeight(int index, at::Tensor value) {
  TP_CHECK(program_->weights()[index].carried, "sets a weight that is fixed");
  const int reg = program_->weights()[index].reg;
  for (const auto& binding : bindings_) binding->registers[reg] = value;
  weights_[index] = std::move(value);
}

absl::Status Executor::RunHoisted(Binding& binding) {
  Frame frame{binding.registers, stack_, nullptr};
  for (const BoundInstruction& bound : binding.hoisted) {
    absl::Status status =
        CatchTorch([&] { return bound.kernel(frame, bound); });
    if (!status.ok()) {
      return Annotate(status, Describe(*program_, *bound.instruction));
    }
  }
  const std::vector<bool> read = ReadLater(*program_);
  for (const BoundInstruction& bound : binding.hoisted) {
    for (int reg : bound.instruction->results) {
      if (reg >= 0 && !read[reg]) binding.registers[reg].reset();
    }
  }
  const int64_t bytes =
      StorageBytes(binding.registers) - StorageBytes(weights_);
  binding.keeps_hoisted = bytes <= options_.hoisted_bytes;
  return absl::OkStatus();
}

absl::Status Executor::Execute(Binding& binding, const Sizes& sizes,
                               const RunOptions& options) {
  LateBinding late{*program_, axes_, packed_, sizes.values};
  Frame frame{
      binding.registers,  stack_,           options.times,    options.tape,
      options.random_key, options.evaluate, options.recompute};
  frame.late = &late;
  frame.check_nan = options_.nan_check == NanCheck::kAll;
  absl::Status status =
      CatchTorch([&] { return RunCode(frame, binding.code); });
  stack_.clear();
  if (status.ok() || frame.current == nullptr) return status;
  const Instruction& current = *frame.current->instruction;
  // The communicator names ranks and ops itself; what the model raises is its
  // own.
  if ((IsCollective(current.kind) && !absl::IsInternal(status)) ||
      current.kind == InstructionKind::kRaise) {
    return status;
  }
  return Annotate(status, Describe(*program_, current));
}

// From tp.enter to tp.leave, on registers of its own.
absl::Status Executor::Replay(const Binding& binding, int64_t segment,
                              const RunOptions& options, Tape& again) {
  const auto& code = binding.code;
  size_t at = 0;
  while (at < code.size() &&
         !(code[at].instruction->kind == InstructionKind::kEnter &&
           code[at].offset == segment)) {
    ++at;
  }
  if (at == code.size()) {
    return absl::InternalError(
        absl::StrCat("@forward has no segment ", segment));
  }
  std::vector<at::Tensor> registers(program_->num_registers());
  for (int reg = 0; reg < program_->num_registers(); ++reg) {
    if (program_->IsConstant(reg)) registers[reg] = binding.registers[reg];
  }
  Tape::Segment given = std::move(again.segments[segment]);
  for (auto& [reg, value] : given.captured) registers[reg] = std::move(value);
  const auto& operands = code[at].instruction->operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    registers[operands[i].reg] = std::move(given.entered[i]);
  }
  c10::Stack stack;
  Frame frame{registers,          stack,           nullptr, &again,
              options.random_key, options.evaluate};
  for (; at < code.size(); ++at) {
    TP_RETURN_IF_ERROR(code[at].kernel(frame, code[at]));
    if (code[at].instruction->kind == InstructionKind::kLeave) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<at::Tensor>> Executor::Run(
    llvm::ArrayRef<at::Tensor> inputs, const Sizes& sizes,
    const RunOptions& options) {
  if (inputs.size() != program_->inputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "needs ", program_->inputs().size(), " inputs, got ", inputs.size()));
  }
  const auto start = std::chrono::steady_clock::now();
  TP_ASSIGN_OR_RETURN(Binding * binding, Bind(sizes));
  if (!binding->keeps_hoisted) TP_RETURN_IF_ERROR(RunHoisted(*binding));
  std::vector<at::Tensor>& registers = binding->registers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    registers[program_->inputs()[i].reg] = inputs[i];
  }
  if (options.recompute && options.tape != nullptr) {
    RunOptions again = options;
    again.tape = nullptr;
    options.tape->replay = [this, binding, again](int64_t segment, Tape& tape) {
      return Replay(*binding, segment, again, tape);
    };
  }
  absl::Status status = Execute(*binding, sizes, options);
  std::vector<at::Tensor> results;
  if (status.ok()) {
    for (const ProgramResult& result : program_->results())
      results.push_back(registers[result.reg]);
  }
  for (int reg = 0; reg < program_->num_registers(); ++reg) {
    if (!program_->IsConstant(reg)) registers[reg].reset();
  }
  if (!binding->keeps_hoisted) {
    for (const BoundInstruction& bound : binding->hoisted) {
      for (int reg : bound.instruction->results) {
        if (reg >= 0) registers[reg].reset();
      }
    }
    binding->keeps_hoisted = false;
  }
  if (!status.ok()) return status;
  if (options_.nan_check != NanCheck::kOff) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (HasNan(results[i])) {
        return absl::InternalError(absl::StrCat(
            "rank ", program_->rank(), ": output_", i, " holds a NaN"));
      }
    }
  }
  if (options.times != nullptr) {
    options.times->total +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
  }
  return results;
}

}  // namespace tp
