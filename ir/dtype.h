// Element types, named as the text format prints them.
#ifndef TP_IR_DTYPE_H_
#define TP_IR_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace tp {

enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
};

// Bytes of one element.
int64_t ByteSize(DType dtype);

// "f32", "bf16", "i64", "bool", ...
std::string_view Name(DType dtype);
std::optional<DType> ParseDType(std::string_view name);

bool IsFloatingPoint(DType dtype);

// The dtype of `a op b` for two tensors of ndim >= 1 (the promotion lattice
// of ATen: bool < u8 < i8 < i16 < i32 < i64 < f16/bf16 < f32 < f64, where
// f16 with bf16 gives f32 and u8 with i8 gives i16).
DType Promote(DType a, DType b);

}  // namespace tp

#endif  // TP_IR_DTYPE_H_
