#include "frontend/scalar_ops.h"

#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

using Result = absl::StatusOr<std::optional<AbstractValue>>;

std::optional<Relation> RelationOf(llvm::StringRef op) {
  return llvm::StringSwitch<std::optional<Relation>>(op)
      .Case("aten::eq", Relation::kEq)
      .Case("aten::ne", Relation::kNe)
      .Case("aten::lt", Relation::kLt)
      .Case("aten::le", Relation::kLe)
      .Case("aten::gt", Relation::kGt)
      .Case("aten::ge", Relation::kGe)
      .Default(std::nullopt);
}

template <typename T>
bool Compare(const T& a, Relation relation, const T& b) {
  switch (relation) {
    case Relation::kEq:
      return a == b;
    case Relation::kNe:
      return a != b;
    case Relation::kLt:
      return a < b;
    case Relation::kLe:
      return a <= b;
    case Relation::kGt:
      return a > b;
    case Relation::kGe:
      return a >= b;
  }
  return false;
}

SymExpr AsInt(const AbstractValue& value) {
  return value.is_bool() ? SymExpr(value.as_bool() ? 1 : 0) : value.as_int();
}

Result CompareScalars(Relation relation, const AbstractValue& a,
                      const AbstractValue& b, ImportContext& context) {
  if (a.is_number() && b.is_number()) {
    if (!a.is_float() && !b.is_float()) {
      TP_ASSIGN_OR_RETURN(bool holds,
                          context.Decide(AsInt(a), relation, AsInt(b),
                                         "a comparison in the model"));
      return AbstractValue(holds);
    }
    TP_ASSIGN_OR_RETURN(double x, ToFloat(a, context));
    TP_ASSIGN_OR_RETURN(double y, ToFloat(b, context));
    return AbstractValue(Compare(x, relation, y));
  }
  if (a.is_string() && b.is_string())
    return AbstractValue(Compare(a.as_string(), relation, b.as_string()));
  if (relation != Relation::kEq && relation != Relation::kNe)
    return std::nullopt;
  TP_ASSIGN_OR_RETURN(std::optional<bool> equal, Equal(a, b, context));
  if (!equal) return std::nullopt;
  return AbstractValue(*equal == (relation == Relation::kEq));
}

// Python's float %, whose sign is the divisor's.
double FloatMod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Result IntPower(const SymExpr& base, const SymExpr& exponent,
                ImportContext& context) {
  TP_ASSIGN_OR_RETURN(int64_t count, context.Concrete(exponent, "a power"));
  if (count < 0 || count > 64)
    return context.Unsupported("an integer power outside 0 to 64");
  SymExpr product = 1;
  for (int64_t i = 0; i < count; ++i) product = product * base;
  return AbstractValue(product);
}

Result IntBinary(llvm::StringRef op, const SymExpr& a, const SymExpr& b,
                 ImportContext& context) {
  if (op == "aten::add") return AbstractValue(a + b);
  if (op == "aten::sub") return AbstractValue(a - b);
  if (op == "aten::mul") return AbstractValue(a * b);
  if (op == "prim::min") return AbstractValue(Min(a, b));
  if (op == "prim::max") return AbstractValue(Max(a, b));
  const bool floordiv = op == "aten::floordiv" || op == "aten::__floordiv__" ||
                        op == "aten::floor_divide";
  if (floordiv || op == "aten::remainder") {
    if (b == SymExpr(0)) return context.Invalid("division by zero");
    return AbstractValue(floordiv ? FloorDiv(a, b) : Mod(a, b));
  }
  const bool bits = op == "aten::__and__" || op == "aten::__or__" ||
                    op == "aten::__xor__" || op == "aten::__lshift__" ||
                    op == "aten::__rshift__" || op == "aten::fmod" ||
                    op == "aten::gcd";
  if (!bits) return std::nullopt;
  TP_ASSIGN_OR_RETURN(int64_t x, context.Concrete(a, op));
  TP_ASSIGN_OR_RETURN(int64_t y, context.Concrete(b, op));
  if (op == "aten::__and__") return AbstractValue(SymExpr(x & y));
  if (op == "aten::__or__") return AbstractValue(SymExpr(x | y));
  if (op == "aten::__xor__") return AbstractValue(SymExpr(x ^ y));
  if (op == "aten::__lshift__" && x >= 0 && y >= 0 && y < 32 &&
      x < (int64_t{1} << 31))
    return AbstractValue(SymExpr(x << y));
  if (op == "aten::__rshift__" && y >= 0 && y < 63)
    return AbstractValue(SymExpr(x >> y));
  return std::nullopt;
}

std::optional<double> FloatBinary(llvm::StringRef op, double a, double b) {
  if (op == "aten::add") return a + b;
  if (op == "aten::sub") return a - b;
  if (op == "aten::mul") return a * b;
  if (op == "aten::div") return a / b;
  if (op == "aten::floordiv") return std::floor(a / b);
  if (op == "aten::remainder") return FloatMod(a, b);
  if (op == "aten::fmod") return std::fmod(a, b);
  if (op == "aten::pow") return std::pow(a, b);
  if (op == "prim::min") return b < a ? b : a;
  if (op == "prim::max") return b > a ? b : a;
  if (op == "aten::atan2") return std::atan2(a, b);
  return std::nullopt;
}

std::optional<double> FloatUnary(llvm::StringRef op, double x) {
  if (op == "aten::neg") return -x;
  if (op == "prim::abs" || op == "aten::abs" || op == "aten::fabs")
    return std::fabs(x);
  if (op == "aten::sqrt") return std::sqrt(x);
  if (op == "aten::exp") return std::exp(x);
  if (op == "aten::log") return std::log(x);
  if (op == "aten::log2") return std::log2(x);
  if (op == "aten::log10") return std::log10(x);
  if (op == "aten::log1p") return std::log1p(x);
  if (op == "aten::sin") return std::sin(x);
  if (op == "aten::cos") return std::cos(x);
  if (op == "aten::tan") return std::tan(x);
  if (op == "aten::tanh") return std::tanh(x);
  if (op == "aten::round") return std::nearbyint(x);
  return std::nullopt;
}

Result Unary(llvm::StringRef op, const AbstractValue& x,
             ImportContext& context) {
  if (op == "aten::Int" || op == "aten::IntImplicit") {
    if (x.is_string()) {
      int64_t parsed = 0;
      if (!absl::SimpleAtoi(x.as_string(), &parsed))
        return context.Invalid("int() of a string that is no number");
      return AbstractValue(SymExpr(parsed));
    }
    TP_ASSIGN_OR_RETURN(SymExpr value, ToInt(x, context));
    return AbstractValue(value);
  }
  if (op == "aten::Float" || op == "aten::FloatImplicit") {
    if (x.is_string()) {
      double parsed = 0;
      if (!absl::SimpleAtod(x.as_string(), &parsed))
        return context.Invalid("float() of a string that is no number");
      return AbstractValue(parsed);
    }
    TP_ASSIGN_OR_RETURN(double value, ToFloat(x, context));
    return AbstractValue(value);
  }
  if (op == "aten::ScalarImplicit" || op == "aten::item") return x;
  if (op == "aten::Bool" || op == "aten::__not__") {
    TP_ASSIGN_OR_RETURN(std::optional<bool> truth, Truth(x, context));
    if (!truth) return std::nullopt;
    return AbstractValue(op == "aten::Bool" ? *truth : !*truth);
  }
  if (op == "aten::str") return AbstractValue(x.ToString());
  if (op == "aten::len" && x.is_string())
    return AbstractValue(SymExpr(static_cast<int64_t>(x.as_string().size())));
  if (!x.is_number()) return std::nullopt;
  if (!x.is_float()) {
    const SymExpr value = AsInt(x);
    if (op == "aten::neg") return AbstractValue(SymExpr(0) - value);
    if (op == "aten::ceil" || op == "aten::floor" || op == "aten::round")
      return AbstractValue(value);
    if (op == "prim::abs" || op == "aten::abs")
      return AbstractValue(Max(value, SymExpr(0) - value));
  }
  const bool to_int = op == "aten::floor" || op == "aten::ceil";
  if (to_int) {
    const double rounded = op == "aten::floor" ? std::floor(x.as_float())
                                               : std::ceil(x.as_float());
    TP_ASSIGN_OR_RETURN(SymExpr value, ToInt(rounded, context));
    return AbstractValue(value);
  }
  if (!FloatUnary(op, 1.0)) return std::nullopt;
  TP_ASSIGN_OR_RETURN(double value, ToFloat(x, context));
  return AbstractValue(*FloatUnary(op, value));
}

Result Binary(llvm::StringRef op, const AbstractValue& a,
              const AbstractValue& b, ScalarKind result,
              ImportContext& context) {
  if (std::optional<Relation> relation = RelationOf(op))
    return CompareScalars(*relation, a, b, context);
  if (op == "aten::add" && a.is_string() && b.is_string())
    return AbstractValue(a.as_string() + b.as_string());
  if (!a.is_number() || !b.is_number()) return std::nullopt;
  if (a.is_bool() && b.is_bool()) {
    if (op == "aten::__and__") return AbstractValue(a.as_bool() && b.as_bool());
    if (op == "aten::__or__") return AbstractValue(a.as_bool() || b.as_bool());
    if (op == "aten::__xor__") return AbstractValue(a.as_bool() != b.as_bool());
  }
  const bool ints = !a.is_float() && !b.is_float();
  if (ints && op == "aten::pow" && result != ScalarKind::kFloat)
    return IntPower(AsInt(a), AsInt(b), context);
  if (ints && op != "aten::div" && op != "aten::pow")
    return IntBinary(op, AsInt(a), AsInt(b), context);
  if (!FloatBinary(op, 1.0, 1.0)) return std::nullopt;
  TP_ASSIGN_OR_RETURN(double x, ToFloat(a, context));
  TP_ASSIGN_OR_RETURN(double y, ToFloat(b, context));
  if (y == 0 &&
      (op == "aten::div" || op == "aten::floordiv" || op == "aten::remainder"))
    return context.Invalid("division by zero");
  return AbstractValue(*FloatBinary(op, x, y));
}

// "{} of {}".format(...): only for messages of branches taken.
AbstractValue Format(llvm::ArrayRef<AbstractValue> arguments) {
  std::string text;
  llvm::StringRef pattern = arguments[0].as_string();
  for (const AbstractValue& argument : arguments.drop_front()) {
    auto [before, after] = pattern.split("{}");
    absl::StrAppend(&text, before.str(), argument.ToString());
    pattern = after;
  }
  return AbstractValue(text + pattern.str());
}

}  // namespace

absl::StatusOr<double> ToFloat(const AbstractValue& number,
                               ImportContext& context) {
  if (number.is_float()) return number.as_float();
  if (number.is_bool()) return number.as_bool() ? 1.0 : 0.0;
  if (!number.is_int())
    return context.Invalid("a number was expected, got " + number.KindName());
  TP_ASSIGN_OR_RETURN(
      int64_t value,
      context.Concrete(number.as_int(), "a size used as a float"));
  return static_cast<double>(value);
}

absl::StatusOr<SymExpr> ToInt(const AbstractValue& number,
                              ImportContext& context) {
  if (number.is_bool() || number.is_int()) return AsInt(number);
  if (!number.is_float())
    return context.Invalid("a number was expected, got " + number.KindName());
  const double value = std::trunc(number.as_float());
  // 2^63 is exact as a double; every smaller magnitude fits.
  if (!(std::fabs(value) < 9223372036854775808.0))
    return context.Invalid(
        absl::StrCat("int() of ", number.as_float(), " is out of range"));
  return SymExpr(static_cast<int64_t>(value));
}

absl::StatusOr<std::optional<bool>> Truth(const AbstractValue& value,
                                          ImportContext& context) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_none()) return false;
  if (value.is_float()) return value.as_float() != 0;
  if (value.is_string()) return !value.as_string().empty();
  if (value.is_int()) {
    TP_ASSIGN_OR_RETURN(bool truth,
                        context.Decide(value.as_int(), Relation::kNe, 0,
                                       "the truth of a size"));
    return truth;
  }
  if (const auto* items = value.items()) return !items->empty();
  if (value.is_dict()) return !value.as_dict()->entries.empty();
  return std::nullopt;
}

absl::StatusOr<std::optional<bool>> Equal(const AbstractValue& a,
                                          const AbstractValue& b,
                                          ImportContext& context) {
  if (a.is_tensor() || b.is_tensor() || a.is_unknown() || b.is_unknown() ||
      a.is_runtime_number() || b.is_runtime_number())
    return std::nullopt;
  if (a.is_number() && b.is_number()) {
    TP_ASSIGN_OR_RETURN(std::optional<AbstractValue> equal,
                        CompareScalars(Relation::kEq, a, b, context));
    return equal->as_bool();
  }
  if (a.is_string() && b.is_string()) return a.as_string() == b.as_string();
  if (a.is_device() && b.is_device()) return a.as_device() == b.as_device();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_object() && b.is_object()) return a.as_object() == b.as_object();
  const auto* x = a.items();
  const auto* y = b.items();
  if (x == nullptr || y == nullptr || a.is_list() != b.is_list()) {
    if (a.KindName() != b.KindName()) return false;
    return std::nullopt;
  }
  if (x->size() != y->size()) return false;
  for (size_t i = 0; i < x->size(); ++i) {
    TP_ASSIGN_OR_RETURN(std::optional<bool> equal,
                        Equal((*x)[i], (*y)[i], context));
    if (!equal || !*equal) return equal;
  }
  return true;
}

absl::StatusOr<std::optional<AbstractValue>> EvaluateScalarOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ScalarKind result, ImportContext& context) {
  if (op == "aten::format" && !arguments.empty() && arguments[0].is_string())
    return Format(arguments);
  if (op == "aten::__is__" || op == "aten::__isnot__") {
    const AbstractValue& a = arguments[0];
    const AbstractValue& b = arguments[1];
    bool same = a.is_none() && b.is_none();
    if (a.is_unknown() || b.is_unknown()) return std::nullopt;
    if (a.is_runtime_number() && b.is_runtime_number()) return std::nullopt;
    if (a.is_object() && b.is_object()) same = a.as_object() == b.as_object();
    if (a.is_tensor() && b.is_tensor()) same = a.as_tensor() == b.as_tensor();
    if (a.is_list() && b.is_list()) same = a.as_list() == b.as_list();
    if (a.is_bool() && b.is_bool()) same = a.as_bool() == b.as_bool();
    return AbstractValue(same == (op == "aten::__is__"));
  }
  for (const AbstractValue& argument : arguments) {
    if (argument.is_tensor() || argument.items() != nullptr ||
        argument.is_dict() || argument.is_object() || argument.is_unknown() ||
        argument.is_list() || argument.is_runtime_number())
      return std::nullopt;
  }
  if (arguments.size() == 1) return Unary(op, arguments[0], context);
  if (arguments.size() == 2)
    return Binary(op, arguments[0], arguments[1], result, context);
  return std::nullopt;
}

}  // namespace tp
