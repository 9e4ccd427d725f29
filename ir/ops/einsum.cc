// einsum: each letter is a factor, and one that is not in the result is
// summed away. tensordot: the same with dims in place of letters.
#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "ir/ops/families.h"
#include "ir/ops/op_util.h"

namespace tp {
namespace {

// A letter per dim. The dims of an ellipsis, aligned to the right, have the
// characters 1, 2, ..., which sort before letters.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

constexpr llvm::StringLiteral kEllipsis = "...";

// Of an operand that is written as `subscripts`: the dims of its ellipsis, 0
// without one.
int EllipsisDims(llvm::StringRef subscripts, int ndim) {
  if (!subscripts.contains(kEllipsis)) return 0;
  return ndim - static_cast<int>(subscripts.size() - kEllipsis.size());
}

std::string ExpandEllipsis(llvm::StringRef subscripts, int dims, int widest) {
  const size_t at = subscripts.find(kEllipsis);
  if (at == llvm::StringRef::npos) return subscripts.str();
  std::string text = subscripts.take_front(at).str();
  for (int i = widest - dims; i < widest; ++i) text += static_cast<char>(1 + i);
  return text + subscripts.drop_front(at + kEllipsis.size()).str();
}

absl::StatusOr<Equation> ParseEquation(const Op& op) {
  const Attribute* attribute = op.attribute("equation");
  if (attribute == nullptr || !attribute->is_string()) {
    return OpError(op, "attribute equation must be a string");
  }
  std::string text;
  for (char c : attribute->as_string()) {
    if (c != ' ') text += c;
  }
  const auto [inputs, output] = llvm::StringRef(text).split("->");
  const bool has_output = llvm::StringRef(text).contains("->");
  llvm::SmallVector<llvm::StringRef, 4> subscripts;
  inputs.split(subscripts, ',');
  if (static_cast<int>(subscripts.size()) != op.num_operands()) {
    return OpError(op, "the equation is for another number of operands");
  }
  int widest = 0;
  for (int i = 0; i < op.num_operands(); ++i) {
    TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, i));
    widest = std::max(widest, EllipsisDims(subscripts[i], type.ndim()));
  }
  Equation equation;
  std::map<char, int> count;
  for (int i = 0; i < op.num_operands(); ++i) {
    const int dims = EllipsisDims(subscripts[i], op.operand(i)->type().ndim());
    if (dims < 0) return OpError(op, "an operand has too few dims");
    equation.inputs.push_back(ExpandEllipsis(subscripts[i], dims, widest));
    for (char c : equation.inputs.back()) {
      if (!absl::ascii_isalpha(c) && !(c >= 1 && c <= widest)) {
        return OpUnsupported(op,
                             "only letters, ',', '...' and '->' are supported "
                             "in an einsum equation, not '" +
                                 text + "'");
      }
      ++count[c];
    }
  }
  if (has_output) {
    equation.output = ExpandEllipsis(output, widest, widest);
  } else {
    for (int i = 0; i < widest; ++i)
      equation.output += static_cast<char>(1 + i);
    for (auto [letter, uses] : count) {
      if (uses == 1 && absl::ascii_isalpha(letter)) equation.output += letter;
    }
  }
  std::map<char, int> in_output;
  for (char c : equation.output) {
    if (count.count(c) == 0 || ++in_output[c] > 1) {
      return OpError(op, "the equation's result is not made of its letters");
    }
  }
  for (int i = 0; i < op.num_operands(); ++i) {
    if (op.operand(i)->type().ndim() !=
        static_cast<int>(equation.inputs[i].size())) {
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

// tensordot(self, other, dims_self, dims_other): the named dims are summed
// away in pairs, the others stay in order.
struct Contraction {
  std::vector<int> self;
  std::vector<int> other;
};

absl::StatusOr<Contraction> ContractionOf(const Op& op) {
  Contraction contraction;
  for (int i = 0; i < 2; ++i) {
    TP_ASSIGN_OR_RETURN(TensorType type, TypeOf(op, i));
    TP_ASSIGN_OR_RETURN(Dims dims,
                        IntsAttr(op, i == 0 ? "dims_self" : "dims_other"));
    std::vector<int>& named = i == 0 ? contraction.self : contraction.other;
    for (const SymExpr& dim : dims) {
      std::optional<int64_t> constant = dim.AsConstant();
      if (!constant) return OpError(op, "the dims must be constant");
      TP_ASSIGN_OR_RETURN(int wrapped, WrapDim(op, *constant, type.ndim()));
      if (llvm::is_contained(named, wrapped) || type.ndim() == 0) {
        return OpError(op, "a dim is named twice, or there is none");
      }
      named.push_back(wrapped);
    }
  }
  if (contraction.self.size() != contraction.other.size()) {
    return OpError(op, "dims_self and dims_other differ in length");
  }
  return contraction;
}

Types TensordotTypes(const Op& op, Assumptions& assumptions) {
  TP_ASSIGN_OR_RETURN(Contraction contraction, ContractionOf(op));
  const TensorType& self = op.operand(0)->type();
  const TensorType& other = op.operand(1)->type();
  for (size_t i = 0; i < contraction.self.size(); ++i) {
    const SymExpr& a = self.dims[contraction.self[i]];
    const SymExpr& b = other.dims[contraction.other[i]];
    // A 1 is repeated, as in broadcasting.
    if (a == SymExpr(1) || b == SymExpr(1)) continue;
    TP_RETURN_IF_ERROR(
        SameSize(op, assumptions, a, b, "the multiplied dims").status());
  }
  TensorType result{Promote(self.dtype, other.dtype), {}};
  for (int d = 0; d < self.ndim(); ++d)
    if (!llvm::is_contained(contraction.self, d))
      result.dims.push_back(self.dims[d]);
  for (int d = 0; d < other.ndim(); ++d)
    if (!llvm::is_contained(contraction.other, d))
      result.dims.push_back(other.dims[d]);
  return std::vector<TensorType>{result};
}

absl::StatusOr<OpRule> TensordotRule(const Op& op) {
  TP_RETURN_IF_ERROR(CheckRuleInputs(op, 2));
  TP_ASSIGN_OR_RETURN(Contraction contraction, ContractionOf(op));
  const TensorType& self = op.operand(0)->type();
  const TensorType& other = op.operand(1)->type();
  RuleMaker rule(op);
  int next = 0;
  for (int i = 0; i < 2; ++i) {
    const TensorType& type = i == 0 ? self : other;
    const std::vector<int>& named =
        i == 0 ? contraction.self : contraction.other;
    for (int d = 0; d < type.ndim(); ++d) {
      if (llvm::is_contained(named, d)) continue;
      const int factor = rule.Pass(type.dims[d]);
      rule.Operand(i, d, factor);
      rule.Result(0, next++, factor);
    }
  }
  for (size_t i = 0; i < contraction.self.size(); ++i) {
    const SymExpr& a = self.dims[contraction.self[i]];
    const SymExpr& b = other.dims[contraction.other[i]];
    // ATen sums over a dim first where the other operand has a 1.
    const int factor = rule.Reduce(a == SymExpr(1) ? b : a);
    rule.Operand(0, contraction.self[i], factor);
    rule.Operand(1, contraction.other[i], factor);
  }
  rule.Partial("0|1");
  return std::move(rule).Build();
}

}  // namespace

void AddEinsumRows(OpRows& rows) {
  rows.push_back(Row("aten.einsum", EinsumRule, EinsumTypes));
  rows.back().saves = "0,1";
  rows.push_back(Row("aten.tensordot", TensordotRule, TensordotTypes));
  rows.back().saves = "0,1";
  SetNotations(rows, {
                         {"aten.einsum", "by its equation"},
                         {"aten.tensordot", "... k+, k+ ... -> ... ..."},
                     });
}

}  // namespace tp
