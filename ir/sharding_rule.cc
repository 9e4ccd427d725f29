#include "ir/sharding_rule.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

// The factors of one dim split at one of them: the products of the sizes
// before and after it.
struct Around {
  SymExpr before = 1;
  SymExpr after = 1;
};

Around AroundFactor(const OpRule& rule, llvm::ArrayRef<int> dim, size_t index) {
  Around around;
  for (size_t i = 0; i < dim.size(); ++i) {
    const SymExpr& size = rule.factors[dim[i]].size;
    if (i < index) around.before = around.before * size;
    if (i > index) around.after = around.after * size;
  }
  return around;
}

bool Holds(const TensorFactors& tensor, int factor) {
  return llvm::any_of(tensor, [factor](const llvm::SmallVector<int, 2>& dim) {
    return llvm::is_contained(dim, factor);
  });
}

std::string FactorText(const Factor& factor) {
  switch (factor.kind) {
    case FactorKind::kPass:
      return factor.name;
    case FactorKind::kWhole:
      return factor.name + "^";
    case FactorKind::kReduce:
      break;
  }
  std::string text = factor.name + "+";
  if (factor.reduce != ReduceKind::kSum) text += Name(factor.reduce);
  return text;
}

std::string TensorText(const OpRule& rule, const TensorFactors& tensor) {
  std::string text;
  for (const llvm::SmallVector<int, 2>& dim : tensor) {
    if (!text.empty()) text += " ";
    if (dim.empty()) text += "1";
    if (dim.size() > 1) text += "(";
    for (size_t i = 0; i < dim.size(); ++i)
      absl::StrAppend(&text, i == 0 ? "" : " ",
                      FactorText(rule.factors[dim[i]]));
    if (dim.size() > 1) text += ")";
  }
  return text;
}

// Appends the factor to a dim of a tensor of that type.
void Append(TensorFactors& tensor, const TensorType& type, int dim,
            int factor) {
  if (dim < 0) dim += type.ndim();
  TP_CHECK(0 <= dim && dim < type.ndim(),
           "a rule names a dim that its tensor does not have");
  if (type.dims[dim] != 1) tensor[dim].push_back(factor);
}

// Removes the factors marked so from all tensors and renumbers the rest.
void DropFactors(OpRule& rule, llvm::ArrayRef<bool> drop) {
  std::vector<int> number(rule.factors.size(), -1);
  std::vector<Factor> kept;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    if (drop[i]) continue;
    number[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(rule.factors[i]));
  }
  rule.factors = std::move(kept);
  for (std::vector<TensorFactors>* tensors : {&rule.operands, &rule.results}) {
    for (TensorFactors& tensor : *tensors) {
      for (llvm::SmallVector<int, 2>& dim : tensor) {
        llvm::erase_if(dim, [&](int factor) { return number[factor] < 0; });
        for (int& factor : dim) factor = number[factor];
      }
    }
  }
}

}  // namespace

std::string OpRule::ToString() const {
  std::string text;
  for (size_t i = 0; i < operands.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ",
                    operands[i].empty() ? "_" : TensorText(*this, operands[i]));
  text += text.empty() ? "->" : " ->";
  for (size_t i = 0; i < results.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ",", results[i].empty() ? "" : " ",
                    TensorText(*this, results[i]));
  std::map<std::string, std::string> sizes;
  for (const Factor& factor : factors)
    sizes[factor.name] = factor.size.ToString();
  text += " {";
  for (const auto& [name, size] : sizes)
    absl::StrAppend(&text, text.back() == '{' ? "" : ", ", name, "=", size);
  text += "}";
  for (size_t i = 0; i < partial.size(); ++i) {
    text += i == 0 ? " partial " : "|";
    for (size_t j = 0; j < partial[i].size(); ++j)
      absl::StrAppend(&text, j == 0 ? "" : "&", partial[i][j]);
  }
  return text;
}

std::optional<FactorSharding> ToFactorSharding(const OpRule& rule,
                                               const TensorFactors& tensor,
                                               const Placement& placement,
                                               int64_t axis_size) {
  if (!placement.is_shard() ||
      placement.dim() >= static_cast<int>(tensor.size()))
    return std::nullopt;
  const llvm::ArrayRef<int> dim = tensor[placement.dim()];
  const DimFactor& box = placement.factor();
  std::optional<FactorSharding> same_bytes;
  for (size_t i = 0; i < dim.size(); ++i) {
    const Factor& factor = rule.factors[dim[i]];
    if (factor.kind == FactorKind::kWhole) continue;
    const Around around = AroundFactor(rule, dim, i);
    std::optional<SymExpr> left = ExactDiv(box.left, around.before);
    if (!left || (factor.one_range && *left != 1)) continue;
    std::optional<SymExpr> right = ExactDiv(box.right, around.after);
    if (right && *left * box.size * *right == factor.size)
      return FactorSharding{dim[i], {*left, box.size, *right}};
    // Where the axis divides both the box and this factor, the cuts of the box
    // are cuts of the factor: every left block is cut at the same places.
    std::optional<SymExpr> middle = ExactDiv(factor.size, *left);
    if (!same_bytes && middle && ExactDiv(box.size, axis_size) &&
        ExactDiv(*middle, axis_size))
      same_bytes = FactorSharding{dim[i], {*left, *middle, 1}};
  }
  return same_bytes;
}

Placement OperandPlacement(const OpRule& rule, const TensorFactors& tensor,
                           const FactorSharding& sharding) {
  for (size_t dim = 0; dim < tensor.size(); ++dim) {
    for (size_t i = 0; i < tensor[dim].size(); ++i) {
      if (tensor[dim][i] != sharding.factor) continue;
      const Around around = AroundFactor(rule, tensor[dim], i);
      const DimFactor& within = sharding.within;
      return Placement::Shard(
          static_cast<int>(dim),
          DimFactor{around.before * within.left, within.size,
                    within.right * around.after});
    }
  }
  return Placement::Replicate();
}

Placement ResultPlacement(const OpRule& rule, const TensorFactors& tensor,
                          const FactorSharding& sharding) {
  const Factor& factor = rule.factors[sharding.factor];
  if (factor.kind == FactorKind::kReduce)
    return Placement::Partial(factor.reduce);
  return OperandPlacement(rule, tensor, sharding);
}

absl::StatusOr<OpRule> PointwiseRule(llvm::StringRef partial, const Op& op) {
  std::string notation;
  for (int i = 0; i < op.num_operands(); ++i)
    absl::StrAppend(&notation, i == 0 ? "" : ", ",
                    op.operand(i) == nullptr ? "_" : "...");
  notation += " ->";
  for (int i = 0; i < op.num_results(); ++i)
    absl::StrAppend(&notation, i == 0 ? " ..." : ", ...");
  return ParseRule(notation, partial, op);
}

OpRule ReplicateRule(const Op& op) { return RuleBuilder(op).Build(); }

RuleBuilder::RuleBuilder(const Op& op) : op_(op) {
  for (const Value* operand : op.operands())
    rule_.operands.emplace_back(operand == nullptr ? 0
                                                   : operand->type().ndim());
  for (int i = 0; i < op.num_results(); ++i)
    rule_.results.emplace_back(op.result(i)->type().ndim());
}

int RuleBuilder::AddFactor(std::string name, SymExpr size, FactorKind kind,
                           ReduceKind reduce) {
  rule_.factors.push_back({std::move(name), std::move(size), kind, reduce});
  return static_cast<int>(rule_.factors.size()) - 1;
}

void RuleBuilder::MakeWhole(int factor) {
  rule_.factors[factor].kind = FactorKind::kWhole;
}

void RuleBuilder::Operand(int operand, int dim, int factor) {
  const Value* value = op_.operand_or_null(operand);
  if (value == nullptr) return;
  Append(rule_.operands[operand], value->type(), dim, factor);
}

void RuleBuilder::Result(int result, int dim, int factor) {
  Append(rule_.results[result], op_.result(result)->type(), dim, factor);
}

void RuleBuilder::Partial(llvm::StringRef column) {
  column = column.trim();
  if (column.empty() || column == "-") return;
  llvm::SmallVector<llvm::StringRef, 4> alternatives;
  column.split(alternatives, '|');
  for (llvm::StringRef alternative : alternatives) {
    llvm::SmallVector<int, 2> operands;
    bool present = true;
    if (alternative.trim() == "*") {
      for (int i = 0; i < op_.num_operands(); ++i)
        if (op_.operand(i) != nullptr) operands.push_back(i);
    } else {
      llvm::SmallVector<llvm::StringRef, 4> parts;
      alternative.split(parts, '&');
      for (llvm::StringRef part : parts) {
        int operand;
        TP_CHECK(!part.trim().getAsInteger(10, operand) && operand >= 0,
                 "the Partial column '" + column.str() + "' of " + op_.name());
        present &= op_.operand_or_null(operand) != nullptr;
        operands.push_back(operand);
      }
    }
    if (present && !operands.empty() &&
        !llvm::is_contained(rule_.partial, operands))
      rule_.partial.push_back(std::move(operands));
  }
}

OpRule RuleBuilder::Build() && {
  llvm::SmallVector<bool, 8> drop(rule_.factors.size());
  for (size_t i = 0; i < rule_.factors.size(); ++i) {
    Factor& factor = rule_.factors[i];
    const int id = static_cast<int>(i);
    auto holds = [id](const TensorFactors& tensor) {
      return Holds(tensor, id);
    };
    const bool in_operand = llvm::any_of(rule_.operands, holds);
    const bool in_result = llvm::any_of(rule_.results, holds);
    const bool lost = in_operand && !llvm::all_of(rule_.results, holds);
    if (factor.kind == FactorKind::kPass && lost)
      factor.kind = FactorKind::kWhole;
    if (factor.kind == FactorKind::kReduce && in_result)
      factor.kind = FactorKind::kWhole;
    drop[i] = factor.size == 1 || (!in_operand && !in_result);
  }
  DropFactors(rule_, drop);
  return std::move(rule_);
}

}  // namespace tp
