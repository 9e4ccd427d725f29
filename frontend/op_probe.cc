#include "frontend/op_probe.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "frontend/alias_tracker.h"
#include "frontend/torch_types.h"
#include "ir/status.h"
#include "llvm/ADT/StringRef.h"

namespace tp {
namespace {

// Of all tensors of a trial run.
constexpr int64_t kMaxElements = int64_t{1} << 26;

class Prober {
 public:
  Prober(const SymbolValues& symbols, ProbeKind kind)
      : symbols_(symbols), kind_(kind) {}

  absl::StatusOr<ProbedReturns> Run(const c10::OperatorHandle& handle,
                                    llvm::ArrayRef<AbstractValue> arguments) {
    const c10::FunctionSchema& schema = handle.schema();
    c10::Stack stack;
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      TP_ASSIGN_OR_RETURN(
          c10::IValue value,
          Convert(arguments[i], *schema.arguments()[i].real_type()));
      stack.push_back(std::move(value));
    }
    at::NoGradGuard no_grad;
    handle.callBoxed(stack);
    if (stack.size() != schema.returns().size())
      return absl::UnimplementedError("gives another number of results");
    ProbedReturns returns;
    for (const c10::IValue& value : stack) {
      ProbedReturn& result = returns.emplace_back();
      result.is_tensor = value.isTensor();
      if (value.isTensor()) {
        TP_RETURN_IF_ERROR(Add(value.toTensor(), result));
      } else if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector())
          TP_RETURN_IF_ERROR(Add(tensor, result));
      }
    }
    return returns;
  }

 private:
  absl::Status Add(const at::Tensor& tensor, ProbedReturn& result) {
    if (!tensor.defined())
      return absl::UnimplementedError("gives a tensor that is not defined");
    const std::optional<DType> dtype = FromScalarType(tensor.scalar_type());
    if (!dtype || tensor.layout() != at::kStrided)
      return absl::UnimplementedError(
          absl::StrCat("gives a tensor of ", toString(tensor.scalar_type()),
                       tensor.layout() == at::kStrided ? "" : ", not strided",
                       ", which is not supported"));
    result.tensors.push_back({*dtype, tensor.sizes().vec()});
    return absl::OkStatus();
  }

  absl::StatusOr<at::Tensor> MakeTensor(const TensorType& type) {
    TP_ASSIGN_OR_RETURN(auto sizes, EvaluateDims(type.dims, symbols_));
    const at::IntArrayRef dims(sizes.data(), sizes.size());
    const at::ScalarType dtype = ToScalarType(type.dtype);
    if (kind_ == ProbeKind::kMeta)
      return at::empty(dims, at::device(at::kMeta).dtype(dtype));
    for (int64_t size : sizes) {
      if (size != 0 && elements_ > kMaxElements / size)
        return absl::UnimplementedError(
            "its arguments are too large for a trial run");
    }
    int64_t count = 1;
    for (int64_t size : sizes) count *= size;
    elements_ += count;
    if (elements_ > kMaxElements)
      return absl::UnimplementedError(
          "its arguments are too large for a trial run");
    return at::full(dims, kind_ == ProbeKind::kOnes ? 1 : 0, at::dtype(dtype));
  }

  absl::StatusOr<c10::IValue> ConvertList(const AbstractValue& value,
                                          const c10::TypePtr& element) {
    c10::impl::GenericList list(element);
    const std::vector<AbstractValue>* items = value.items();
    if (items == nullptr) return Mismatch(value, *element);
    for (const AbstractValue& item : *items) {
      TP_ASSIGN_OR_RETURN(c10::IValue converted, Convert(item, *element));
      list.push_back(std::move(converted));
    }
    return c10::IValue(std::move(list));
  }

  absl::StatusOr<c10::IValue> Convert(const AbstractValue& value,
                                      const c10::Type& type) {
    if (type.kind() == c10::TypeKind::OptionalType) {
      if (value.is_none()) return c10::IValue();
      return Convert(value,
                     *type.expectRef<c10::OptionalType>().getElementType());
    }
    if (type.kind() == c10::TypeKind::ListType)
      return ConvertList(value,
                         type.expectRef<c10::ListType>().getElementType());
    if (type.kind() == c10::TypeKind::DeviceObjType)
      return c10::IValue(
          at::Device(kind_ == ProbeKind::kMeta ? at::kMeta : at::kCPU));
    if (value.is_none()) return c10::IValue();
    if (value.is_tensor()) {
      TP_ASSIGN_OR_RETURN(at::Tensor tensor,
                          MakeTensor(value.as_tensor()->type()));
      return c10::IValue(std::move(tensor));
    }
    if (value.is_int()) {
      TP_ASSIGN_OR_RETURN(int64_t number, value.as_int().Evaluate(symbols_));
      if (type.kind() == c10::TypeKind::FloatType)
        return c10::IValue(static_cast<double>(number));
      return c10::IValue(number);
    }
    if (value.is_float()) return c10::IValue(value.as_float());
    if (value.is_bool()) return c10::IValue(value.as_bool());
    if (value.is_string()) return c10::IValue(value.as_string());
    return Mismatch(value, type);
  }

  absl::Status Mismatch(const AbstractValue& value, const c10::Type& type) {
    return absl::UnimplementedError(
        absl::StrCat("a ", value.KindName(), " as an argument of type ",
                     type.str(), " is not supported"));
  }

  const SymbolValues& symbols_;
  const ProbeKind kind_;
  int64_t elements_ = 0;
};

}  // namespace

absl::StatusOr<ProbedReturns> ProbeOp(const c10::OperatorHandle& handle,
                                      llvm::ArrayRef<AbstractValue> arguments,
                                      const SymbolValues& symbols,
                                      ProbeKind kind) {
  try {
    return Prober(symbols, kind).Run(handle, arguments);
  } catch (const std::exception& error) {
    llvm::StringRef text = error.what();
    return absl::UnimplementedError(
        text.take_front(text.find("\nException raised from"))
            .split('\n')
            .first.take_front(300)
            .rtrim()
            .str());
  }
}

}  // namespace tp
