#include "ir/attribute.h"

#include "ir/tokens.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {

Attribute Attribute::Ints(llvm::ArrayRef<SymExpr> values) {
  return Attribute(List(values.begin(), values.end()));
}

Attribute Attribute::Ints(llvm::ArrayRef<int64_t> values) {
  return Attribute(List(values.begin(), values.end()));
}

std::optional<llvm::SmallVector<SymExpr, 4>> Attribute::AsInts() const {
  if (!is_list()) return std::nullopt;
  llvm::SmallVector<SymExpr, 4> ints;
  for (const Attribute& element : as_list()) {
    if (!element.is_int()) return std::nullopt;
    ints.push_back(element.as_int());
  }
  return ints;
}

std::optional<int64_t> Attribute::AsConstantInt() const {
  if (!is_int()) return std::nullopt;
  return as_int().AsConstant();
}

std::optional<double> Attribute::AsNumber() const {
  if (is_float()) return as_float();
  if (std::optional<int64_t> value = AsConstantInt())
    return static_cast<double>(*value);
  return std::nullopt;
}

std::string Attribute::ToString() const {
  if (is_bool()) return as_bool() ? "true" : "false";
  if (is_int()) return as_int().ToString();
  if (is_float()) return FloatToString(as_float());
  if (is_string()) return Quote(as_string());
  if (is_dtype()) return std::string(Name(as_dtype()));
  if (!is_list()) return "none";
  std::string text = "[";
  llvm::interleave(
      as_list(), [&](const Attribute& a) { text += a.ToString(); },
      [&] { text += ", "; });
  return text + "]";
}

}  // namespace tp
