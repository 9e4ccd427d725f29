#include "ir/uses.h"

namespace tp {

UseCounts::UseCounts(const Block& body) {
  Add(body, 1);
  for (const std::unique_ptr<Value>& argument : body.arguments())
    for (const SymExpr& size : argument->type().dims)
      size.CollectSymbols(arguments_);
}

void UseCounts::Add(const Attribute& attribute, int delta) {
  if (attribute.is_list())
    for (const Attribute& item : attribute.as_list()) Add(item, delta);
  if (!attribute.is_int() || attribute.as_int().is_constant()) return;
  llvm::StringSet<> symbols;
  attribute.as_int().CollectSymbols(symbols);
  for (const auto& symbol : symbols) sizes_[symbol.getKey()] += delta;
}

void UseCounts::Add(const Op& op, int delta) {
  for (const Value* operand : op.operands())
    if (operand != nullptr) uses_[operand] += delta;
  for (const NamedAttribute& attribute : op.attributes())
    Add(attribute.value, delta);
  for (const std::unique_ptr<Block>& region : op.regions()) Add(*region, delta);
}

void UseCounts::Add(const Block& block, int delta) {
  for (const std::unique_ptr<Op>& op : block.ops()) Add(*op, delta);
  for (const Value* result : block.results()) uses_[result] += delta;
}

bool UseCounts::IsUsed(const Value& value) const {
  if (uses_.lookup(&value) > 0) return true;
  if (value.op() == nullptr || value.op()->regions().empty()) return false;
  for (const SymExpr& size : value.type().dims) {
    if (size.is_constant()) continue;
    llvm::StringSet<> symbols;
    size.CollectSymbols(symbols);
    for (const auto& symbol : symbols)
      if (!arguments_.contains(symbol.getKey()) &&
          sizes_.lookup(symbol.getKey()) > 0)
        return true;
  }
  return false;
}

}  // namespace tp
