// Attributes: the arguments of an op that are not tensors, by schema name.
#ifndef TP_IR_ATTRIBUTE_H_
#define TP_IR_ATTRIBUTE_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/dtype.h"
#include "ir/sym_expr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// none | true | 3 | 2*seq | 1.5 | "text" | f32 | [a, b]
// Integers are symbolic expressions; floats always print with a point, an
// exponent, or as inf, -inf, nan, and survive a round trip bit for bit.
class Attribute {
 public:
  using List = std::vector<Attribute>;

  Attribute() = default;                                        // none
  Attribute(bool value) : value_(value) {}                      // NOLINT
  Attribute(SymExpr value) : value_(std::move(value)) {}        // NOLINT
  Attribute(int64_t value) : value_(SymExpr(value)) {}          // NOLINT
  Attribute(int value) : value_(SymExpr(value)) {}              // NOLINT
  Attribute(double value) : value_(value) {}                    // NOLINT
  Attribute(std::string value) : value_(std::move(value)) {}    // NOLINT
  Attribute(const char* value) : value_(std::string(value)) {}  // NOLINT
  Attribute(DType value) : value_(value) {}                     // NOLINT
  Attribute(List value) : value_(std::move(value)) {}           // NOLINT
  // A list of integers.
  static Attribute Ints(llvm::ArrayRef<SymExpr> values);
  static Attribute Ints(llvm::ArrayRef<int64_t> values);

  bool is_none() const { return holds<std::monostate>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_int() const { return holds<SymExpr>(); }
  bool is_float() const { return holds<double>(); }
  bool is_string() const { return holds<std::string>(); }
  bool is_dtype() const { return holds<DType>(); }
  bool is_list() const { return holds<List>(); }

  // Each requires the matching kind.
  bool as_bool() const { return std::get<bool>(value_); }
  const SymExpr& as_int() const { return std::get<SymExpr>(value_); }
  double as_float() const { return std::get<double>(value_); }
  const std::string& as_string() const { return std::get<std::string>(value_); }
  DType as_dtype() const { return std::get<DType>(value_); }
  const List& as_list() const { return std::get<List>(value_); }
  // The integers of a list of integers, nothing if it is not one.
  std::optional<llvm::SmallVector<SymExpr, 4>> AsInts() const;
  // A constant integer, nothing if it is not one.
  std::optional<int64_t> AsConstantInt() const;
  // An integer or float constant as a double.
  std::optional<double> AsNumber() const;

  std::string ToString() const;
  friend bool operator==(const Attribute&, const Attribute&) = default;

 private:
  template <typename T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  std::variant<std::monostate, bool, SymExpr, double, std::string, DType, List>
      value_;
};

struct NamedAttribute {
  std::string name;
  Attribute value;
  friend bool operator==(const NamedAttribute&,
                         const NamedAttribute&) = default;
};

}  // namespace tp

#endif  // TP_IR_ATTRIBUTE_H_
