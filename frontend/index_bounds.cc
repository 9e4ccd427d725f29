#include "frontend/index_bounds.h"

#include "ir/status.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

std::optional<SymExpr> IntAttribute(const Op& op, llvm::StringRef name) {
  const Attribute* attribute = op.attribute(name);
  if (attribute == nullptr || !attribute->is_int()) return std::nullopt;
  return attribute->as_int();
}

// What aten.add adds to its first operand, if that is one known integer.
std::optional<SymExpr> Addend(const Op& op, const ImportContext& context) {
  if (op.attribute("alpha") != nullptr) return std::nullopt;
  if (op.num_operands() == 1) return IntAttribute(op, "other");
  if (op.operand(1)->op() != nullptr && op.operand(1)->op()->Is("tp.sym"))
    return IntAttribute(*op.operand(1)->op(), "value");
  auto known = context.known_scalars.find(op.operand(1));
  if (known == context.known_scalars.end() || !known->second.is_int())
    return std::nullopt;
  return known->second.as_int();
}

// Ops that give the elements of their first operand other places.
bool MovesElements(llvm::StringRef base_name) {
  return llvm::StringSwitch<bool>(base_name)
      .Cases("aten.unsqueeze", "aten.squeeze", "aten.expand", "aten.view",
             "aten.reshape", true)
      .Cases("aten.contiguous", "aten.clone", "aten.detach", "aten.transpose",
             "aten.repeat", true)
      .Default(false);
}

// One more than the largest element.
std::optional<SymExpr> UpperBound(const Value& value,
                                  const ImportContext& context) {
  SymExpr offset = 0;
  const Value* at = &value;
  while (at->op() != nullptr) {
    const Op& op = *at->op();
    if (op.name() == "aten.arange" || op.name() == "aten.arange.start") {
      std::optional<SymExpr> end = IntAttribute(op, "end");
      if (!end) return std::nullopt;
      return *end + offset;
    }
    if (op.Is("aten.add")) {
      std::optional<SymExpr> addend = Addend(op, context);
      if (!addend) return std::nullopt;
      offset = offset + *addend;
    } else if (!MovesElements(op.base_name())) {
      return std::nullopt;
    }
    at = op.operand(0);
  }
  return std::nullopt;
}

}  // namespace

absl::Status GuardEmbeddingIndices(const Op& op, ImportContext& context) {
  const Value* table = op.operand_or_null(0);
  const Value* ids = op.operand_or_null(1);
  if (table == nullptr || ids == nullptr || table->type().ndim() == 0)
    return absl::OkStatus();
  std::optional<SymExpr> bound = UpperBound(*ids, context);
  if (!bound) return absl::OkStatus();
  return context.module.assumptions().Require(
      *bound, Relation::kLe, table->type().dims[0],
      "positions inside their table", context.location());
}

}  // namespace tp
