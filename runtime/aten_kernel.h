// Generic dispatch: any op of the program runs as the ATen operator of the
// same name, resolved once, called through the dispatcher with its arguments
// in schema order. There is no per-op code here.
#ifndef TP_RUNTIME_ATEN_KERNEL_H_
#define TP_RUNTIME_ATEN_KERNEL_H_

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "ir/value.h"

namespace tp {

at::ScalarType ScalarTypeOf(DType dtype);
// Nothing for types the language does not have (complex, quantized).
std::optional<DType> DTypeOf(at::ScalarType type);

// How one argument of the schema is filled.
struct AtenArgument {
  enum class Kind : uint8_t {
    kFixed,               // `value`
    kSymbolic,            // `attribute` evaluated for one set of sizes
    kTensor,              // operand `begin`, which may be absent
    kTensorList,          // operands [begin, begin + size)
    kOptionalTensorList,  // the same, some of which may be absent
  };
  Kind kind = Kind::kFixed;
  int begin = 0;
  int size = 0;
  c10::IValue value;
  const Attribute* attribute = nullptr;  // of the op; lives as long as it
  const c10::Argument* schema = nullptr;
};

struct AtenCall {
  c10::OperatorHandle handle;
  std::vector<AtenArgument> arguments;  // in schema order
  bool returns_list = false;  // one Tensor[] holds all results of the op
  // Of an op without a row: its results are the tensors in all returns, those
  // of lists one by one.
  bool flattens = false;
};

// Resolves "aten.add.Tensor". Arguments named device get `device`, arguments
// the op does not mention get the schema's defaults. kUnimplemented if this
// LibTorch has no such operator; kInvalidArgument if the op does not fit its
// schema. `op` must outlive the result.
absl::StatusOr<AtenCall> ResolveAten(const Op& op, at::Device device);

// The same call through another overload with an equal argument list
// ("aten::add_", "Tensor"); nothing if it does not exist.
std::optional<c10::OperatorHandle> FindVariant(const AtenCall& call,
                                               const std::string& name,
                                               const std::string& overload);

// The value of a kSymbolic argument.
absl::StatusOr<c10::IValue> EvaluateArgument(const AtenArgument& argument,
                                             const SymbolValues& symbols);

}  // namespace tp

#endif  // TP_RUNTIME_ATEN_KERNEL_H_
