#include "runtime/binding.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/shard_extent.h"
#include "ir/status.h"
#include "runtime/random_op.h"

namespace tp {
namespace {

struct Factor {
  int64_t left = 1;
  int64_t size = 1;
  int64_t right = 1;
};

class Binder {
 public:
  Binder(const Program& program, const Instruction& instruction,
         llvm::ArrayRef<Communicator*> axes, llvm::ArrayRef<at::Tensor> packed,
         const SymbolValues& symbols)
      : program_(program),
        instruction_(instruction),
        op_(*instruction.op),
        axes_(axes),
        packed_(packed),
        symbols_(symbols) {}

  // With `late`, instructions whose sizes depend on data are left open.
  absl::StatusOr<BoundInstruction> Bind(bool late) {
    bound_.instruction = &instruction_;
    if (late && instruction_.late) {
      bound_.kernel = &RunLate;
      return std::move(bound_);
    }
    if (!instruction_.regions.empty() ||
        instruction_.kind == InstructionKind::kRaise) {
      bound_.kernel = TpKernel(instruction_.kind);
      TP_RETURN_IF_ERROR(BindRegions());
      return std::move(bound_);
    }
    TP_ASSIGN_OR_RETURN(bool empty, BindEmpty());
    if (empty) return std::move(bound_);
    if (instruction_.kind == InstructionKind::kAten) {
      bound_.random_number = RandomNumberOf(program_, instruction_);
      bound_.kernel = bound_.random_number >= 0 ? &RunRandom : &RunAten;
      const at::Tensor& packed = packed_[instruction_.index];
      if (packed.defined() && bound_.kernel == &RunAten) {
        bound_.packed = packed;
        bound_.kernel = &RunPackedProduct;
      }
      TP_RETURN_IF_ERROR(BindArguments());
    } else {
      bound_.kernel = TpKernel(instruction_.kind);
      if (op_.attribute("segment") != nullptr) {
        TP_ASSIGN_OR_RETURN(bound_.offset, Integer("segment"));
        TP_RETURN_IF_ERROR(BindBoundary());
        return std::move(bound_);
      }
      TP_RETURN_IF_ERROR(BindResult());
      TP_RETURN_IF_ERROR(BindTp());
    }
    return std::move(bound_);
  }

 private:
  absl::Status BindResult() {
    const TensorType& type = op_.result()->type();
    TP_ASSIGN_OR_RETURN(bound_.dims, EvaluateDims(type.dims, symbols_));
    bound_.dtype = type.dtype;
    return absl::OkStatus();
  }

  // Where a rank's share of an op is nothing, no kernel runs: the results are
  // the identity of the reduction that follows.
  absl::StatusOr<bool> BindEmpty() {
    const Attribute* condition = op_.attribute("empty_if");
    if (condition == nullptr) return false;
    if (!condition->is_int()) {
      return absl::InvalidArgumentError("empty_if needs a size");
    }
    TP_ASSIGN_OR_RETURN(int64_t extent, condition->as_int().Evaluate(symbols_));
    if (extent != 0) return false;
    for (int i = 0; i < op_.num_results(); ++i) {
      const TensorType& type = op_.result(i)->type();
      EmptyValue result{{}, type.dtype};
      TP_ASSIGN_OR_RETURN(result.dims, EvaluateDims(type.dims, symbols_));
      bound_.empty.push_back(std::move(result));
    }
    const Attribute* identity = op_.attribute("identity");
    bound_.identity = identity ? identity->AsNumber().value_or(0) : 0;
    bound_.kernel = &RunFull;
    return true;
  }

  absl::Status BindRegions() {
    for (const ProgramRegion& region : instruction_.regions) {
      std::vector<BoundInstruction>& code = bound_.regions.emplace_back();
      for (const Instruction& nested : region.instructions) {
        TP_ASSIGN_OR_RETURN(
            BoundInstruction bound,
            BindInstruction(program_, nested, axes_, packed_, symbols_));
        code.push_back(std::move(bound));
      }
    }
    return absl::OkStatus();
  }

  absl::Status BindArguments() {
    if (instruction_.call->flattens) {
      for (int i = 0; i < op_.num_results(); ++i) {
        const TensorType& type = op_.result(i)->type();
        EmptyValue& result = bound_.expected.emplace_back();
        result.dtype = type.dtype;
        TP_ASSIGN_OR_RETURN(result.dims, EvaluateDims(type.dims, symbols_));
      }
    }
    const auto& arguments = instruction_.call->arguments;
    bound_.arguments.reserve(arguments.size());
    for (const AtenArgument& argument : arguments) {
      if (argument.kind == AtenArgument::Kind::kSymbolic) {
        TP_ASSIGN_OR_RETURN(c10::IValue value,
                            EvaluateArgument(argument, symbols_));
        bound_.arguments.push_back(std::move(value));
      } else {
        bound_.arguments.push_back(argument.value);
      }
    }
    return absl::OkStatus();
  }

  absl::Status BindTp() {
    switch (instruction_.kind) {
      case InstructionKind::kAten:
      case InstructionKind::kCopy:
        return absl::OkStatus();
      case InstructionKind::kDropoutMask:
        return BindMask();
      case InstructionKind::kSym: {
        TP_ASSIGN_OR_RETURN(bound_.offset, Integer("value"));
        return absl::OkStatus();
      }
      case InstructionKind::kEmbeddingShard: {
        TP_ASSIGN_OR_RETURN(bound_.offset, Integer("offset"));
        if (op_.attribute("num_embeddings") != nullptr) {
          TP_ASSIGN_OR_RETURN(bound_.vocabulary, Integer("num_embeddings"));
        }
        if (op_.attribute("padding_idx") != nullptr) {
          TP_ASSIGN_OR_RETURN(bound_.padding, Integer("padding_idx"));
        }
        return absl::OkStatus();
      }
      case InstructionKind::kGatherShard: {
        TP_ASSIGN_OR_RETURN(bound_.slice.dim, Dim("dim"));
        TP_ASSIGN_OR_RETURN(bound_.slice.offset, Integer("offset"));
        TP_ASSIGN_OR_RETURN(bound_.slice.size, Integer("size"));
        return absl::OkStatus();
      }
      case InstructionKind::kSlice:
        return BindSlice();
      default:
        return BindCollective();
    }
  }

  absl::StatusOr<int64_t> Integer(llvm::StringRef name) {
    const Attribute* attribute = op_.attribute(name);
    if (attribute == nullptr || !attribute->is_int()) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs an integer '", name.str(), "'"));
    }
    return attribute->as_int().Evaluate(symbols_);
  }

  absl::StatusOr<int> Dim(llvm::StringRef name) {
    TP_ASSIGN_OR_RETURN(int64_t dim, Integer(name));
    if (dim < 0 || dim >= op_.operand(0)->type().ndim()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", name.str(), "' is no dim of the operand"));
    }
    return static_cast<int>(dim);
  }

  absl::StatusOr<Factor> FactorOf(llvm::StringRef name) {
    const Attribute* attribute = op_.attribute(name);
    auto sizes = attribute ? attribute->AsInts() : std::nullopt;
    if (!sizes || sizes->size() != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs '", name.str(), "' = [left, size, right]"));
    }
    Factor factor;
    TP_ASSIGN_OR_RETURN(factor.left, (*sizes)[0].Evaluate(symbols_));
    TP_ASSIGN_OR_RETURN(factor.size, (*sizes)[1].Evaluate(symbols_));
    TP_ASSIGN_OR_RETURN(factor.right, (*sizes)[2].Evaluate(symbols_));
    return factor;
  }

  absl::StatusOr<int> Axis() {
    const Attribute* attribute = op_.attribute("axis");
    const int axis =
        attribute && attribute->is_string()
            ? program_.module().mesh().AxisIndex(attribute->as_string())
            : -1;
    if (axis < 0) {
      return absl::InvalidArgumentError("needs 'axis', an axis of the mesh");
    }
    return axis;
  }

  absl::StatusOr<SliceBox> SliceOf(llvm::StringRef dim_name,
                                   llvm::StringRef factor_name) {
    SliceBox box;
    TP_ASSIGN_OR_RETURN(int axis, Axis());
    TP_ASSIGN_OR_RETURN(box.dim, Dim(dim_name));
    TP_ASSIGN_OR_RETURN(Factor factor, FactorOf(factor_name));
    const Mesh& mesh = program_.module().mesh();
    const ShardExtent extent =
        ShardExtentOf(factor.size, mesh.axis(axis).size,
                      mesh.Coordinates(program_.rank())[axis]);
    box.left = factor.left;
    box.size = factor.size;
    box.right = factor.right;
    TP_ASSIGN_OR_RETURN(box.offset, extent.offset.Evaluate(symbols_));
    TP_ASSIGN_OR_RETURN(box.extent, extent.extent.Evaluate(symbols_));
    return box;
  }

  absl::StatusOr<std::vector<int64_t>> Integers(const Attribute* attribute) {
    auto sizes = attribute ? attribute->AsInts() : std::nullopt;
    if (!sizes) return absl::InvalidArgumentError("needs a list of integers");
    std::vector<int64_t> values;
    for (const SymExpr& size : *sizes) {
      TP_ASSIGN_OR_RETURN(int64_t value, size.Evaluate(symbols_));
      values.push_back(value);
    }
    return values;
  }

  // Which inputs of a segment leave lets go, and refill gives back.
  absl::Status BindBoundary() {
    if (op_.attribute("frees") != nullptr) {
      TP_ASSIGN_OR_RETURN(bound_.segment_inputs,
                          Integers(op_.attribute("frees")));
    }
    if (op_.attribute("input") != nullptr) {
      TP_ASSIGN_OR_RETURN(int64_t input, Integer("input"));
      bound_.segment_inputs.push_back(input);
    }
    return absl::OkStatus();
  }

  absl::Status BindMask() {
    TP_ASSIGN_OR_RETURN(bound_.offset, Integer("number"));
    bound_.probability = op_.FloatOr("p", 0.5);
    TP_ASSIGN_OR_RETURN(std::vector<int64_t> whole,
                        Integers(op_.attribute("of")));
    if (whole.size() != bound_.dims.size()) {
      return absl::InvalidArgumentError("'of' has other dims than 'size'");
    }
    int64_t stride = 1;
    bound_.global_strides.resize(whole.size());
    for (size_t dim = whole.size(); dim-- > 0; stride *= whole[dim]) {
      bound_.global_strides[dim] = stride;
    }
    for (int64_t size : whole) {
      std::vector<int64_t>& indices = bound_.global_indices.emplace_back(size);
      std::iota(indices.begin(), indices.end(), 0);
    }
    const Attribute* parts = op_.attribute("parts");
    if (parts != nullptr && parts->is_list()) {
      for (const Attribute& part : parts->as_list()) {
        TP_ASSIGN_OR_RETURN(std::vector<int64_t> box, Integers(&part));
        TP_RETURN_IF_ERROR(KeepPart(box));
      }
    }
    for (size_t dim = 0; dim < whole.size(); ++dim) {
      if (static_cast<int64_t>(bound_.global_indices[dim].size()) !=
          bound_.dims[dim]) {
        return absl::InvalidArgumentError("'parts' do not give 'size'");
      }
    }
    return absl::OkStatus();
  }

  // [dim, left, size, right, offset, extent]: keeps those indices of a dim.
  absl::Status KeepPart(const std::vector<int64_t>& box) {
    if (box.size() != 6 || box[0] < 0 ||
        box[0] >= static_cast<int64_t>(bound_.dims.size())) {
      return absl::InvalidArgumentError(
          "a part is [dim, left, size, right, offset, extent]");
    }
    const std::vector<int64_t> all = bound_.global_indices[box[0]];
    std::vector<int64_t> kept;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      const int64_t middle = index / box[3] % box[2];
      if (middle >= box[4] && middle < box[4] + box[5]) kept.push_back(all[i]);
    }
    bound_.global_indices[box[0]] = std::move(kept);
    return absl::OkStatus();
  }

  absl::Status BindSlice() {
    TP_ASSIGN_OR_RETURN(bound_.slice, SliceOf("dim", "factor"));
    return absl::OkStatus();
  }

  absl::Status BindReduce() {
    const Attribute* attribute = op_.attribute("reduce");
    for (ReduceOp reduce : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      if (attribute != nullptr && attribute->is_string() &&
          attribute->as_string() == Name(reduce)) {
        bound_.reduce = reduce;
        return absl::OkStatus();
      }
    }
    return absl::InvalidArgumentError("needs 'reduce' = sum, max or min");
  }

  // Elements of dims [from, to) of the operand.
  absl::StatusOr<int64_t> Elements(int from, int to) {
    int64_t count = 1;
    for (int i = from; i < to; ++i) {
      TP_ASSIGN_OR_RETURN(int64_t size,
                          op_.operand(0)->type().dims[i].Evaluate(symbols_));
      count *= size;
    }
    return count;
  }

  absl::Status BindCollective() {
    TP_ASSIGN_OR_RETURN(int axis, Axis());
    if (axis >= static_cast<int>(axes_.size()) || axes_[axis] == nullptr) {
      return absl::InternalError("has no communicator for its axis");
    }
    bound_.communicator = axes_[axis];
    const int ndim = op_.operand(0)->type().ndim();
    const int64_t item = ByteSize(bound_.dtype);
    if (instruction_.kind == InstructionKind::kAllReduce) {
      TP_ASSIGN_OR_RETURN(int64_t count, Elements(0, ndim));
      bound_.moved_bytes = count * item;
      return BindReduce();
    }
    if (instruction_.kind == InstructionKind::kBroadcast) {
      TP_ASSIGN_OR_RETURN(int64_t count, Elements(0, ndim));
      bound_.moved_bytes = count * item;
      return absl::OkStatus();
    }
    if (instruction_.kind == InstructionKind::kReduceScatter) {
      TP_RETURN_IF_ERROR(BindReduce());
    }
    if (instruction_.kind == InstructionKind::kAllToAll) {
      return BindAllToAll();
    }
    TP_ASSIGN_OR_RETURN(int dim, Dim("dim"));
    return BindShard(dim);
  }

  absl::Status BindShard(int dim) {
    TP_ASSIGN_OR_RETURN(Factor factor, FactorOf("factor"));
    TP_ASSIGN_OR_RETURN(int64_t before, Elements(0, dim));
    TP_ASSIGN_OR_RETURN(int64_t after,
                        Elements(dim + 1, op_.operand(0)->type().ndim()));
    bound_.shard.outer = before * factor.left;
    bound_.shard.factor = factor.size;
    bound_.shard.inner = factor.right * after;
    bound_.moved_bytes = bound_.shard.outer * bound_.shard.factor *
                         bound_.shard.inner * ByteSize(bound_.dtype);
    return absl::OkStatus();
  }

  absl::Status BindAllToAll() {
    TP_ASSIGN_OR_RETURN(int dim, Dim("dim"));
    TP_ASSIGN_OR_RETURN(int to_dim, Dim("to_dim"));
    TP_RETURN_IF_ERROR(BindShard(dim));
    TP_ASSIGN_OR_RETURN(bound_.slice, SliceOf("to_dim", "to_factor"));
    // Between two factors of one dim there is no such box: gather and slice.
    if (dim == to_dim) return absl::OkStatus();
    TP_ASSIGN_OR_RETURN(Factor from, FactorOf("factor"));
    TP_ASSIGN_OR_RETURN(Factor to, FactorOf("to_factor"));
    const bool forward = dim < to_dim;
    const int low = forward ? dim : to_dim;
    const int high = forward ? to_dim : dim;
    const Factor& first = forward ? from : to;
    const Factor& second = forward ? to : from;
    TP_ASSIGN_OR_RETURN(int64_t before, Elements(0, low));
    TP_ASSIGN_OR_RETURN(int64_t between, Elements(low + 1, high));
    TP_ASSIGN_OR_RETURN(int64_t after,
                        Elements(high + 1, op_.operand(0)->type().ndim()));
    AllToAllLayout& layout = bound_.all_to_all;
    layout.outer = before * first.left;
    layout.first = first.size;
    layout.middle = first.right * between * second.left;
    layout.second = second.size;
    layout.inner = second.right * after;
    layout.direction = forward ? AllToAllDirection::kFirstToSecond
                               : AllToAllDirection::kSecondToFirst;
    return absl::OkStatus();
  }

  const Program& program_;
  const Instruction& instruction_;
  const Op& op_;
  llvm::ArrayRef<Communicator*> axes_;
  llvm::ArrayRef<at::Tensor> packed_;
  const SymbolValues& symbols_;
  BoundInstruction bound_;
};

}  // namespace

absl::StatusOr<BoundInstruction> BindInstruction(
    const Program& program, const Instruction& instruction,
    llvm::ArrayRef<Communicator*> axes, llvm::ArrayRef<at::Tensor> packed,
    const SymbolValues& symbols, bool knows_data) {
  auto bound =
      Binder(program, instruction, axes, packed, symbols).Bind(!knows_data);
  if (bound.ok()) return bound;
  return Annotate(bound.status(), Describe(program, instruction));
}

}  // namespace tp
