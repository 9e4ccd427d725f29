// The kernels that BoundInstructions point at.

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "runtime/binding.h"
#include "runtime/packed_linear.h"
#include "runtime/random_op.h"
#include "runtime/train/dense_product.h"
#include "runtime/train/tape.h"

namespace tp {
namespace {

using Clock = std::chrono::steady_clock;

// Whether a graph is recorded for the backward pass.
bool IsRecording(const Frame& frame) {
  return frame.tape != nullptr && at::GradMode::is_enabled();
}

double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

DType TypeOf(const at::Tensor& tensor) {
  const std::optional<DType> dtype = DTypeOf(tensor.scalar_type());
  TP_CHECK(dtype.has_value(), "a collective on an unknown dtype");
  return *dtype;
}

CallSite SiteOf(const BoundInstruction& bound) {
  const Instruction& instruction = *bound.instruction;
  return {instruction.op->name(), instruction.module_path, instruction.source,
          instruction.collective_index};
}

// Runs a collective, measured when asked for.
template <typename Call>
absl::Status Communicate(Frame& frame, const BoundInstruction& bound,
                         Call call) {
  if (frame.times == nullptr) return call();
  const Clock::time_point arrived = Clock::now();
  TP_RETURN_IF_ERROR(bound.communicator->Barrier(SiteOf(bound)));
  const Clock::time_point all_here = Clock::now();
  TP_RETURN_IF_ERROR(call());
  frame.times->wait += Seconds(all_here - arrived);
  frame.times->communicate += Seconds(Clock::now() - all_here);
  ++frame.times->collectives;
  frame.times->collective_bytes += bound.moved_bytes;
  return absl::OkStatus();
}

at::Tensor EmptyResult(const BoundInstruction& bound, const at::Tensor& like) {
  return at::empty(at::IntArrayRef(bound.dims.data(), bound.dims.size()),
                   like.options());
}

absl::Status RunAllReduce(Frame& frame, const BoundInstruction& bound) {
  at::Tensor in = Take(frame, bound.instruction->operands[0]).contiguous();
  at::Tensor out = OwnsMemory(in) ? in : at::empty_like(in);
  TP_RETURN_IF_ERROR(Communicate(frame, bound, [&] {
    return bound.communicator->AllReduce(in.data_ptr(), out.data_ptr(),
                                         in.numel(), TypeOf(in), bound.reduce,
                                         SiteOf(bound));
  }));
  Put(frame, bound, std::move(out));
  return absl::OkStatus();
}

absl::Status RunAllGather(Frame& frame, const BoundInstruction& bound) {
  at::Tensor in = Take(frame, bound.instruction->operands[0]).contiguous();
  at::Tensor out = EmptyResult(bound, in);
  TP_RETURN_IF_ERROR(Communicate(frame, bound, [&] {
    return bound.communicator->AllGather(
        bound.shard, in.data_ptr(), out.data_ptr(), TypeOf(in), SiteOf(bound));
  }));
  Put(frame, bound, std::move(out));
  return absl::OkStatus();
}

absl::Status RunReduceScatter(Frame& frame, const BoundInstruction& bound) {
  at::Tensor in = Take(frame, bound.instruction->operands[0]).contiguous();
  at::Tensor out = EmptyResult(bound, in);
  TP_RETURN_IF_ERROR(Communicate(frame, bound, [&] {
    return bound.communicator->ReduceScatter(bound.shard, in.data_ptr(),
                                             out.data_ptr(), TypeOf(in),
                                             bound.reduce, SiteOf(bound));
  }));
  Put(frame, bound, std::move(out));
  return absl::OkStatus();
}

at::Tensor SliceTensor(const at::Tensor& whole, const BoundInstruction& bound) {
  const SliceBox& box = bound.slice;
  if (box.left == 1) {
    return whole.narrow(box.dim, box.offset * box.right,
                        box.extent * box.right);
  }
  std::vector<int64_t> boxed(whole.sizes().begin(), whole.sizes().end());
  boxed[box.dim] = box.right;
  boxed.insert(boxed.begin() + box.dim, {box.left, box.size});
  return whole.reshape(boxed)
      .narrow(box.dim + 1, box.offset, box.extent)
      .reshape(at::IntArrayRef(bound.dims.data(), bound.dims.size()));
}

absl::Status RunAllToAll(Frame& frame, const BoundInstruction& bound) {
  at::Tensor in = Take(frame, bound.instruction->operands[0]).contiguous();
  at::Tensor out;
  if (bound.all_to_all.first == 0) {  // two factors of one dim
    std::vector<int64_t> sizes(bound.dims.begin(), bound.dims.end());
    const SliceBox& box = bound.slice;
    sizes[box.dim] = box.left * box.size * box.right;
    at::Tensor whole = at::empty(sizes, in.options());
    TP_RETURN_IF_ERROR(Communicate(frame, bound, [&] {
      return bound.communicator->AllGather(bound.shard, in.data_ptr(),
                                           whole.data_ptr(), TypeOf(in),
                                           SiteOf(bound));
    }));
    out = SliceTensor(whole, bound);
  } else {
    out = EmptyResult(bound, in);
    TP_RETURN_IF_ERROR(Communicate(frame, bound, [&] {
      return bound.communicator->AllToAll(bound.all_to_all, in.data_ptr(),
                                          out.data_ptr(), TypeOf(in),
                                          SiteOf(bound));
    }));
  }
  Put(frame, bound, std::move(out));
  return absl::OkStatus();
}

absl::Status RunBroadcast(Frame& frame, const BoundInstruction& bound) {
  at::Tensor value = Take(frame, bound.instruction->operands[0]).contiguous();
  if (!OwnsMemory(value)) value = value.clone();
  TP_RETURN_IF_ERROR(Communicate(frame, bound, [&] {
    return bound.communicator->Broadcast(value.data_ptr(),
                                         static_cast<int64_t>(value.nbytes()),
                                         /*root=*/0, SiteOf(bound));
  }));
  Put(frame, bound, std::move(value));
  return absl::OkStatus();
}

absl::Status RunSlice(Frame& frame, const BoundInstruction& bound) {
  Put(frame, bound,
      SliceTensor(Take(frame, bound.instruction->operands[0]), bound));
  return absl::OkStatus();
}

absl::Status RunCopy(Frame& frame, const BoundInstruction& bound) {
  Put(frame, bound, Take(frame, bound.instruction->operands[0]));
  return absl::OkStatus();
}

absl::Status RunSym(Frame& frame, const BoundInstruction& bound) {
  Put(frame, bound, at::scalar_tensor(bound.offset, at::kLong));
  return absl::OkStatus();
}

// The same by ops that autograd knows. A row of another rank is a zero, whose
// gradient goes nowhere.
at::Tensor EmbeddingShardWithGradient(const at::Tensor& table,
                                      const at::Tensor& ids,
                                      const BoundInstruction& bound) {
  const at::Tensor own = ids - bound.offset;
  const at::Tensor elsewhere = own.lt(0).logical_or_(own.ge(table.size(0)));
  if (table.size(0) == 0) return EmptyResult(bound, table).zero_();
  const int64_t padding = bound.padding - bound.offset;
  const bool pads =
      bound.padding >= 0 && padding >= 0 && padding < table.size(0);
  return at::embedding(table, own.masked_fill(elsewhere, 0),
                       pads ? padding : -1)
      .masked_fill(elsewhere.unsqueeze(-1), 0);
}

absl::Status RunEmbeddingShard(Frame& frame, const BoundInstruction& bound) {
  const at::Tensor table =
      Take(frame, bound.instruction->operands[0]).contiguous();
  const at::Tensor ids =
      Take(frame, bound.instruction->operands[1]).to(at::kLong).contiguous();
  const int64_t* id = ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if (id[i] < 0 || (bound.vocabulary >= 0 && id[i] >= bound.vocabulary)) {
      return absl::InvalidArgumentError(
          absl::StrCat("index ", id[i], " is outside of the embedding table",
                       bound.vocabulary >= 0
                           ? absl::StrCat(" of ", bound.vocabulary, " rows")
                           : ""));
    }
  }
  const int64_t rows = table.size(0);
  if (IsRecording(frame) && table.requires_grad()) {
    Put(frame, bound, EmbeddingShardWithGradient(table, ids, bound));
    return absl::OkStatus();
  }
  at::Tensor out = EmptyResult(bound, table);
  const size_t row_bytes =
      static_cast<size_t>(table.numel() / std::max<int64_t>(rows, 1)) *
      table.element_size();
  const auto* from = static_cast<const char*>(table.const_data_ptr());
  auto* to = static_cast<char*>(out.data_ptr());
  const size_t out_row_bytes =
      static_cast<size_t>(bound.dims.empty() ? 1 : bound.dims.back()) *
      table.element_size();
  for (int64_t i = 0; i < ids.numel(); ++i, to += out_row_bytes) {
    const int64_t row = id[i] - bound.offset;
    if (row >= 0 && row < rows) {
      std::memcpy(to, from + row * row_bytes, row_bytes);
    } else {
      std::memset(to, 0, out_row_bytes);
    }
  }
  Put(frame, bound, std::move(out));
  return absl::OkStatus();
}

absl::Status RunGatherShard(Frame& frame, const BoundInstruction& bound) {
  const SliceBox& box = bound.slice;
  const at::Tensor source = Take(frame, bound.instruction->operands[0]);
  const at::Tensor index = Take(frame, bound.instruction->operands[1]);
  if (index.numel() > 0) {
    const auto [least, largest] = at::aminmax(index);
    for (const int64_t i : {least.item<int64_t>(), largest.item<int64_t>()}) {
      if (i < 0 || i >= box.size) {
        return absl::InvalidArgumentError(absl::StrCat(
            "index ", i, " is outside of a dim of size ", box.size));
      }
    }
  }
  const at::Tensor own = index - box.offset;
  const at::Tensor elsewhere =
      own.lt(0).logical_or_(own.ge(source.size(box.dim)));
  Put(frame, bound,
      source.gather(box.dim, own.masked_fill(elsewhere, 0))
          .masked_fill(elsewhere, 0));
  return absl::OkStatus();
}

void PushList(Frame& frame, const BoundInstruction& bound,
              const AtenArgument& argument) {
  const auto& operands = bound.instruction->operands;
  if (argument.kind == AtenArgument::Kind::kTensorList) {
    c10::List<at::Tensor> list;
    list.reserve(argument.size);
    for (int i = 0; i < argument.size; ++i) {
      list.push_back(Take(frame, operands[argument.begin + i]));
    }
    frame.stack.emplace_back(std::move(list));
    return;
  }
  c10::List<std::optional<at::Tensor>> list;
  list.reserve(argument.size);
  for (int i = 0; i < argument.size; ++i) {
    const Operand& operand = operands[argument.begin + i];
    list.push_back(operand.reg < 0
                       ? std::nullopt
                       : std::optional<at::Tensor>(Take(frame, operand)));
  }
  frame.stack.emplace_back(std::move(list));
}

// The operator to call, and whether its first two arguments change places.
const InPlace* ChooseInPlace(const Frame& frame, const Instruction& i) {
  // Overwriting a value of a graph would only make the graph longer.
  if (IsRecording(frame)) return nullptr;
  for (const InPlace& choice : i.in_place) {
    const at::Tensor& reused = frame.registers[i.operands[choice.operand].reg];
    if (OwnsMemory(reused) && reused.is_non_overlapping_and_dense()) {
      return &choice;
    }
  }
  return nullptr;
}

// Of an op without a row, whose results the compiler knows by asking it at a
// few sizes.
absl::Status PopFlattened(Frame& frame, const BoundInstruction& bound) {
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : frame.stack) {
    if (value.isTensor()) {
      results.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector())
        results.push_back(tensor);
    }
  }
  frame.stack.clear();
  if (results.size() != bound.expected.size()) {
    return absl::UnimplementedError(absl::StrCat(
        "gives ", results.size(), " tensors, but ", bound.expected.size(),
        " at the sizes it was compiled with"));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const EmptyValue& expected = bound.expected[i];
    const at::IntArrayRef dims(expected.dims.data(), expected.dims.size());
    const at::ScalarType dtype = ScalarTypeOf(expected.dtype);
    // In f64, an op may still insist on its own dtype.
    const bool same_dtype =
        dtype == at::kDouble || results[i].scalar_type() == dtype;
    if (results[i].sizes() != dims || !same_dtype) {
      return absl::UnimplementedError(
          absl::StrCat("result ", i, " is ", toString(results[i].scalar_type()),
                       "[", absl::StrJoin(results[i].sizes(), ","),
                       "], but from the sizes it "
                       "was compiled with, ",
                       toString(dtype), "[", absl::StrJoin(dims, ","),
                       "] was expected. Compile with these sizes "
                       "as example inputs, or with --static"));
    }
    const int reg = bound.instruction->results[i];
    if (reg >= 0) frame.registers[reg] = std::move(results[i]);
  }
  return absl::OkStatus();
}

absl::Status PopResults(Frame& frame, const BoundInstruction& bound) {
  const Instruction& instruction = *bound.instruction;
  c10::Stack& stack = frame.stack;
  if (instruction.call->flattens) return PopFlattened(frame, bound);
  if (instruction.call->returns_list) {
    c10::List<at::Tensor> list = stack[0].toTensorList();
    if (list.size() != instruction.results.size()) {
      return absl::InternalError(absl::StrCat("returned ", list.size(),
                                              " tensors instead of ",
                                              instruction.results.size()));
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const int reg = instruction.results[i];
      if (reg >= 0) frame.registers[reg] = list.extract(i);
    }
    return absl::OkStatus();
  }
  for (size_t i = 0; i < instruction.results.size(); ++i) {
    const int reg = instruction.results[i];
    if (reg >= 0) frame.registers[reg] = std::move(stack[i]).toTensor();
  }
  return absl::OkStatus();
}

// Infinity is the least or the largest integer where there is none.
at::Scalar Identity(double identity, at::ScalarType dtype) {
  if (at::isFloatingType(dtype) || std::isfinite(identity)) return identity;
  if (dtype == at::kBool) return identity > 0;
  if (dtype == at::kByte) return identity > 0 ? 255 : 0;
  const int bits = 8 * static_cast<int>(c10::elementSize(dtype));
  const int64_t largest = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return identity > 0 ? largest : -largest - 1;
}

// Whether it was one for DenseProduct.
bool RunRecordedProduct(Frame& frame, const BoundInstruction& bound) {
  const Instruction& instruction = *bound.instruction;
  const MatrixProduct& product = *instruction.product;
  // Seen through a transpose, the operand is not the weight itself.
  const bool direct = product.weight < 0;
  const Operand& matrix = instruction.operands[product.weight_operand];
  if (!direct ||
      !HasDenseProduct(frame.registers[instruction.operands[product.input].reg],
                       frame.registers[matrix.reg])) {
    return false;
  }
  const at::Tensor x = Take(frame, instruction.operands[product.input]);
  const at::Tensor weight = Take(frame, matrix);
  const at::Tensor bias = product.bias < 0
                              ? at::Tensor()
                              : Take(frame, instruction.operands[product.bias]);
  Put(frame, bound, DenseProduct(x, weight, bias, product.transposed));
  return true;
}

}  // namespace

at::Tensor Take(Frame& frame, const Operand& operand) {
  at::Tensor& value = frame.registers[operand.reg];
  return operand.last_use ? std::move(value) : value;
}

void Put(Frame& frame, const BoundInstruction& bound, at::Tensor value,
         size_t result) {
  const int reg = bound.instruction->results[result];
  if (reg >= 0) frame.registers[reg] = std::move(value);
}

bool OwnsMemory(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.has_storage() &&
         tensor.storage().use_count() == 1;
}

absl::Status RunFull(Frame& frame, const BoundInstruction& bound) {
  for (const Operand& operand : bound.instruction->operands) {
    if (operand.last_use) frame.registers[operand.reg].reset();
  }
  for (size_t i = 0; i < bound.empty.size(); ++i) {
    const int reg = bound.instruction->results[i];
    if (reg < 0) continue;
    const EmptyValue& result = bound.empty[i];
    const at::ScalarType dtype = ScalarTypeOf(result.dtype);
    frame.registers[reg] =
        at::full(at::IntArrayRef(result.dims.data(), result.dims.size()),
                 Identity(bound.identity, dtype), at::dtype(dtype));
  }
  return absl::OkStatus();
}

absl::Status RunPackedProduct(Frame& frame, const BoundInstruction& bound) {
  const Instruction& instruction = *bound.instruction;
  const MatrixProduct& product = *instruction.product;
  const at::Tensor x = Take(frame, instruction.operands[product.input]);
  const at::Tensor bias = product.bias < 0
                              ? at::Tensor()
                              : Take(frame, instruction.operands[product.bias]);
  Put(frame, bound, PackedLinear(x, bound.packed, bias));
  return absl::OkStatus();
}

absl::Status RunAten(Frame& frame, const BoundInstruction& bound) {
  const Instruction& instruction = *bound.instruction;
  if (IsRecording(frame) && instruction.product &&
      RunRecordedProduct(frame, bound)) {
    return absl::OkStatus();
  }
  const AtenCall& call = *instruction.call;
  const InPlace* in_place = instruction.in_place.empty()
                                ? nullptr
                                : ChooseInPlace(frame, instruction);
  c10::Stack& stack = frame.stack;
  stack.clear();
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const AtenArgument& argument = call.arguments[i];
    switch (argument.kind) {
      case AtenArgument::Kind::kFixed:
      case AtenArgument::Kind::kSymbolic:
        stack.push_back(bound.arguments[i]);
        break;
      case AtenArgument::Kind::kTensor: {
        const Operand& operand = instruction.operands[argument.begin];
        if (operand.reg < 0) {
          stack.emplace_back();
        } else {
          stack.emplace_back(Take(frame, operand));
        }
        break;
      }
      default:
        PushList(frame, bound, argument);
    }
  }
  if (in_place == nullptr) {
    call.handle.callBoxed(stack);
  } else {
    if (in_place->operand == 1) std::swap(stack[0], stack[1]);
    in_place->handle.callBoxed(stack);
  }
  return PopResults(frame, bound);
}

Kernel TpKernel(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kAten:
      return &RunAten;
    case InstructionKind::kAllReduce:
      return &RunAllReduce;
    case InstructionKind::kAllGather:
      return &RunAllGather;
    case InstructionKind::kReduceScatter:
      return &RunReduceScatter;
    case InstructionKind::kAllToAll:
      return &RunAllToAll;
    case InstructionKind::kSlice:
      return &RunSlice;
    case InstructionKind::kCopy:
      return &RunCopy;
    case InstructionKind::kEnter:
      return &RunEnter;
    case InstructionKind::kLeave:
      return &RunLeave;
    case InstructionKind::kSegmentGrad:
      return &RunSegmentGrad;
    case InstructionKind::kRefill:
      return &RunRefill;
    case InstructionKind::kDropoutMask:
      return &RunDropoutMask;
    case InstructionKind::kSym:
      return &RunSym;
    case InstructionKind::kEmbeddingShard:
      return &RunEmbeddingShard;
    case InstructionKind::kGatherShard:
      return &RunGatherShard;
    case InstructionKind::kBroadcast:
      return &RunBroadcast;
    case InstructionKind::kIf:
      return &RunIf;
    case InstructionKind::kLoop:
      return &RunLoop;
    case InstructionKind::kRaise:
      return &RunRaise;
  }
  return nullptr;
}

}  // namespace tp
