#include "tests/soundness/local_op.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/DenseMap.h"
#include "runtime/aten_kernel.h"

namespace tp::soundness {
namespace {

using Tensors = std::vector<at::Tensor>;

// The row of the table each id names, zeros where this rank has it not.
at::Tensor EmbeddingShard(const Op& op, const at::Tensor& table,
                          const at::Tensor& ids) {
  const int64_t offset = op.attribute("offset")->as_int().constant();
  const at::Tensor row = ids.to(at::kLong) - offset;
  const at::Tensor held = (row >= 0).logical_and(row < table.size(0));
  std::vector<int64_t> dims = ids.sizes().vec();
  dims.push_back(table.size(1));
  const at::Tensor rows =
      table.index_select(0, row.clamp(0, table.size(0) - 1).reshape({-1}))
          .reshape(dims);
  return rows * held.unsqueeze(-1).to(table.scalar_type());
}

// What each index names along the dim, zeros where this rank has it not.
at::Tensor GatherShard(const Op& op, const at::Tensor& source,
                       const at::Tensor& index) {
  const int64_t dim = op.attribute("dim")->as_int().constant();
  const int64_t offset = op.attribute("offset")->as_int().constant();
  const int64_t held = source.size(dim);
  const at::Tensor own = index - offset;
  return at::where((own >= 0).logical_and(own < held),
                   source.gather(dim, own.clamp(0, held - 1)),
                   at::zeros({}, source.options()));
}

c10::IValue ToValue(const AtenArgument& argument,
                    llvm::ArrayRef<at::Tensor> operands) {
  switch (argument.kind) {
    case AtenArgument::Kind::kTensor: {
      const at::Tensor& tensor = operands[argument.begin];
      return tensor.defined() ? c10::IValue(tensor) : c10::IValue();
    }
    case AtenArgument::Kind::kTensorList: {
      c10::List<at::Tensor> list;
      for (int i = 0; i < argument.size; ++i)
        list.push_back(operands[argument.begin + i]);
      return list;
    }
    case AtenArgument::Kind::kOptionalTensorList: {
      c10::List<std::optional<at::Tensor>> list;
      for (int i = 0; i < argument.size; ++i) {
        const at::Tensor& tensor = operands[argument.begin + i];
        list.push_back(tensor.defined() ? std::optional<at::Tensor>(tensor)
                                        : std::nullopt);
      }
      return list;
    }
    default:
      return argument.value;
  }
}

}  // namespace

absl::StatusOr<Tensors> RunOp(const Op& op,
                              llvm::ArrayRef<at::Tensor> operands) {
  try {
    if (op.Is("tp.embedding_shard"))
      return Tensors{EmbeddingShard(op, operands[0], operands[1])};
    if (op.Is("tp.gather_shard"))
      return Tensors{GatherShard(op, operands[0], operands[1])};
    TP_ASSIGN_OR_RETURN(AtenCall call, ResolveAten(op, at::kCPU));
    c10::Stack stack;
    for (const AtenArgument& argument : call.arguments)
      stack.push_back(ToValue(argument, operands));
    call.handle.callBoxed(stack);
    if (call.returns_list) return stack[0].toTensorVector();
    Tensors results;
    for (int i = 0; i < op.num_results(); ++i)
      results.push_back(stack[i].toTensor());
    return results;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return absl::InternalError(
        absl::StrCat(op.name(), ": ", what.substr(0, what.find('\n'))));
  }
}

absl::StatusOr<Tensors> RunFunction(const Function& function,
                                    llvm::ArrayRef<at::Tensor> arguments) {
  llvm::DenseMap<const Value*, at::Tensor> values;
  for (size_t i = 0; i < arguments.size(); ++i)
    values[function.body().arguments()[i].get()] = arguments[i];
  for (const auto& op : function.body().ops()) {
    Tensors operands;
    for (const Value* operand : op->operands())
      operands.push_back(operand == nullptr ? at::Tensor() : values[operand]);
    TP_ASSIGN_OR_RETURN(Tensors results, RunOp(*op, operands));
    for (size_t i = 0; i < results.size(); ++i)
      values[op->result(static_cast<int>(i))] = results[i];
  }
  Tensors results;
  for (const Value* result : function.body().results())
    results.push_back(values[result]);
  return results;
}

}  // namespace tp::soundness
