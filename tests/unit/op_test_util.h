// Makes single ops for tests of the op table.
#ifndef TESTS_UNIT_OP_TEST_UTIL_H_
#define TESTS_UNIT_OP_TEST_UTIL_H_

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/text.h"

namespace tp {

// A list of integers, as attribute.
inline Attribute Ints(std::vector<SymExpr> values) {
  return Attribute::Ints(llvm::ArrayRef<SymExpr>(values));
}

// Operands of a list slot.
struct ListOf {
  std::vector<std::string> types;
};

// A module with symbols b = 5, s = 7, t = 11 and operands made as needed.
// Types are written "f32[b,s,96]", "" is an absent operand.
class OpBench {
 public:
  OpBench() : function_(module_.AddFunction("forward")) {
    for (auto [name, hint] : {std::pair{"b", 5}, {"s", 7}, {"t", 11}}) {
      SymbolInfo info;
      info.name = name;
      info.hint = hint;
      info.input = "x";
      module_.assumptions().AddSymbol(info);
    }
  }

  using OperandText = std::variant<std::string, ListOf>;

  absl::StatusOr<Op*> Make(std::string name, std::vector<OperandText> operands,
                           std::vector<NamedAttribute> attributes = {}) {
    std::vector<OperandArg> values;
    for (const OperandText& text : operands) {
      if (const auto* list = std::get_if<ListOf>(&text)) {
        std::vector<Value*> elements;
        for (const std::string& type : list->types) {
          elements.push_back(MakeValue(type));
        }
        values.push_back(elements);
      } else {
        values.push_back(MakeValue(std::get<std::string>(text)));
      }
    }
    Builder builder(module_, function_->body());
    builder.set_location(Location{"block.0", "model.py", 7});
    return builder.Create(std::move(name), std::move(values),
                          std::move(attributes));
  }

  // "f32[b,s,96] i64[b]", or the error.
  std::string Types(std::string name, std::vector<OperandText> operands,
                    std::vector<NamedAttribute> attributes = {}) {
    auto op = Make(std::move(name), std::move(operands), std::move(attributes));
    if (!op.ok()) return std::string(op.status().message());
    std::string text;
    for (int r = 0; r < (*op)->num_results(); ++r) {
      if (r > 0) text += " ";
      text += ToString((*op)->result(r)->type());
    }
    return text;
  }

  // The rule without sizes: "m k+, k+ n -> m n partial 0|1".
  std::string Rule(std::string name, std::vector<OperandText> operands,
                   std::vector<NamedAttribute> attributes = {}) {
    auto op = Make(std::move(name), std::move(operands), std::move(attributes));
    if (!op.ok()) return std::string(op.status().message());
    auto rule = RuleOf(**op);
    if (!rule.ok()) return std::string(rule.status().message());
    std::string text = rule->ToString();
    size_t open = text.find(" {");
    size_t close = text.find('}', open);
    if (open == std::string::npos) return text;
    return text.substr(0, open) + text.substr(close + 1);
  }

  // Guards taken so far, "; " between them.
  std::string Guards() const {
    std::string text;
    for (const Guard& guard : module_.assumptions().guards()) {
      if (!text.empty()) text += "; ";
      text += guard.ToString();
    }
    return text;
  }

  Module& module() { return module_; }

  static TensorType ParseType(llvm::StringRef text) {
    TensorType type;
    auto [dtype, rest] = text.split('[');
    type.dtype =
        ParseDType(std::string_view(dtype.data(), dtype.size())).value();
    llvm::SmallVector<llvm::StringRef, 4> dims;
    rest.drop_back().split(dims, ',', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef dim : dims) {
      type.dims.push_back(SymExpr::Parse(dim).value());
    }
    return type;
  }

 private:
  Value* MakeValue(const std::string& type) {
    if (type.empty()) return nullptr;
    ArgumentInfo info;
    info.name = "x" + std::to_string(function_->arguments().size());
    return function_->AddArgument(ParseType(type), info);
  }

  Module module_;
  Function* function_;
};

}  // namespace tp

#endif  // TESTS_UNIT_OP_TEST_UTIL_H_
