// einsum: each letter is a factor, and one that is not in the result is
// summed away.
#include <map>

#include "absl/strings/ascii.h"
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

absl::StatusOr<Equation> ParseEquation(const Op& op) {
  const Attribute* attribute = op.attribute("equation");
  if (attribute == nullptr || !attribute->is_string()) {
    return OpError(op, "attribute equation must be a string");
  }
  std::string text;
  for (char c : attribute->as_string()) {
    if (c != ' ') text += c;
  }
  Equation equation;
  std::string inputs = text.substr(0, text.find("->"));
  bool has_output = text.find("->") != std::string::npos;
  std::string current;
  std::map<char, int> count;
  for (char c : inputs) {
    if (c == ',') {
      equation.inputs.push_back(current);
      current.clear();
    } else if (absl::ascii_isalpha(c)) {
      current += c;
      ++count[c];
    } else {
      return OpUnsupported(op,
                           "only letters, ',' and '->' are supported in "
                           "an einsum equation, not '" +
                               text + "'");
    }
  }
  equation.inputs.push_back(current);
  if (has_output) {
    equation.output = text.substr(text.find("->") + 2);
  } else {
    for (auto [letter, uses] : count) {
      if (uses == 1) equation.output += letter;
    }
  }
  if (static_cast<int>(equation.inputs.size()) != op.num_operands()) {
    return OpError(op, "the equation is for another number of operands");
  }
  std::map<char, int> in_output;
  for (char c : equation.output) {
    if (count.count(c) == 0 || ++in_output[c] > 1) {
      return OpError(op, "the equation's result is not made of its letters");
    }
  }
  for (int i = 0; i < op.num_operands(); ++i) {
    const TensorType* type = TypeOrNull(op, i);
    if (type == nullptr ||
        type->ndim() != static_cast<int>(equation.inputs[i].size())) {
      return OpError(op, "operand " + std::to_string(i) +
                             " has other dims than the equation '" + text +
                             "' says");
    }
  }
  return equation;
}

Types EinsumTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(Equation equation, ParseEquation(op));
  std::map<char, SymExpr> sizes;
  TensorType result;
  for (int i = 0; i < op.num_operands(); ++i) {
    const TensorType& type = op.operand(i)->type();
    result.dtype = i == 0 ? type.dtype : Promote(result.dtype, type.dtype);
    for (int d = 0; d < type.ndim(); ++d) {
      auto [it, added] = sizes.emplace(equation.inputs[i][d], type.dims[d]);
      if (added || type.dims[d] == SymExpr(1)) continue;
      if (it->second == SymExpr(1)) {
        it->second = type.dims[d];
        continue;
      }
      TP_ASSIGN_OR_RETURN(it->second,
                          SameSize(op, assumptions, it->second, type.dims[d],
                                   "dims of one letter"));
    }
  }
  for (char letter : equation.output) {
    result.dims.push_back(sizes[letter]);
  }
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> EinsumRule(const Op& op) {
  TP_ASSIGN_OR_RETURN(Equation equation, ParseEquation(op));
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, op.num_operands()));
  std::map<char, SymExpr> sizes;
  for (int i = 0; i < op.num_operands(); ++i) {
    const std::string& letters = equation.inputs[i];
    for (size_t d = 0; d < letters.size(); ++d) {
      // A letter twice in one operand takes a diagonal.
      if (letters.find(letters[d]) != d) return ReplicateRule(op);
      SymExpr& size = sizes.emplace(letters[d], 1).first->second;
      if (size == SymExpr(1)) size = op.operand(i)->type().dims[d];
    }
  }
  RuleMaker rule(op);
  for (const auto& [letter, size] : sizes) {
    size_t at = equation.output.find(letter);
    bool summed = at == std::string::npos;
    int factor = summed ? rule.Reduce(size) : rule.Pass(size);
    if (!summed) rule.Result(0, static_cast<int>(at), factor);
    for (int i = 0; i < op.num_operands(); ++i) {
      size_t dim = equation.inputs[i].find(letter);
      if (dim == std::string::npos) {
        continue;
      }
      rule.Operand(i, static_cast<int>(dim), factor);
    }
  }
  std::string partial;
  for (int i = 0; i < op.num_operands(); ++i) {
    if (i > 0) partial += '|';
    partial += std::to_string(i);
  }
  rule.Partial(partial);
  return std::move(rule).Build();
}

}  // namespace

void AddEinsumRows(OpRows& rows) {
  rows.push_back(Row("aten.einsum", EinsumRule, EinsumTypes));
  rows.back().saves = "0,1";
}

}  // namespace tp
