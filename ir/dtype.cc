#include "ir/dtype.h"

#include <array>
#include <utility>

namespace tp {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int64_t bytes;
  int category;  // 0 bool, 1 integer, 2 floating point
};

constexpr std::array<DTypeRow, 10> kRows = {{
    {DType::kF32, "f32", 4, 2},
    {DType::kF64, "f64", 8, 2},
    {DType::kF16, "f16", 2, 2},
    {DType::kBF16, "bf16", 2, 2},
    {DType::kI64, "i64", 8, 1},
    {DType::kI32, "i32", 4, 1},
    {DType::kI16, "i16", 2, 1},
    {DType::kI8, "i8", 1, 1},
    {DType::kU8, "u8", 1, 1},
    {DType::kBool, "bool", 1, 0},
}};

const DTypeRow& Row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t ByteSize(DType dtype) { return Row(dtype).bytes; }

std::string_view Name(DType dtype) { return Row(dtype).name; }

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeRow& row : kRows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

bool IsFloatingPoint(DType dtype) { return Row(dtype).category == 2; }

DType Promote(DType a, DType b) {
  if (a == b) return a;
  if (Row(a).category != Row(b).category)
    return Row(a).category > Row(b).category ? a : b;
  if (Row(a).category == 2) {
    if (Row(a).bytes == Row(b).bytes) return DType::kF32;  // f16 with bf16
    return Row(a).bytes > Row(b).bytes ? a : b;
  }
  if (Row(a).bytes == Row(b).bytes) return DType::kI16;  // u8 with i8
  if (a == DType::kU8 || b == DType::kU8)
    return a == DType::kU8 ? b : a;
  return Row(a).bytes > Row(b).bytes ? a : b;
}

}  // namespace tp
