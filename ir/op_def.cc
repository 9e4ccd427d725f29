#include "ir/op_def.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "ir/ops/families.h"
#include "ir/status.h"

namespace tp {
namespace {

class OpTable {
 public:
  OpTable() {
    OpRows rows;
    for (auto add :
         {AddPointwiseRows, AddCastRows,      AddLinearRows,   AddEinsumRows,
          AddAttentionRows, AddViewRows,      AddExpandRows,   AddSliceRows,
          AddSplitRows,     AddJoinRows,      AddIndexingRows, AddReductionRows,
          AddNormRows,      AddEmbeddingRows, AddLossRows,     AddConvRows,
          AddPoolRows,      AddRearrangeRows, AddDistanceRows, AddCreationRows,
          AddSortRows,      AddMiscRows,      AddDropoutRows,  AddTpRows}) {
      add(rows);
    }
    for (OpDef& row : rows) {
      std::string name = row.name;
      bool added = rows_.emplace(name, std::move(row)).second;
      TP_CHECK(added, "two rows of the op table are named " + name);
    }
  }

  const OpDef* Find(llvm::StringRef name) const {
    auto it = rows_.find(name.str());
    if (it == rows_.end()) {
      // Without the overload: "aten.add.Tensor" -> "aten.add".
      size_t first = name.find('.');
      size_t second =
          first == llvm::StringRef::npos ? first : name.find('.', first + 1);
      if (second == llvm::StringRef::npos) return nullptr;
      it = rows_.find(name.take_front(second).str());
    }
    return it == rows_.end() ? nullptr : &it->second;
  }

  std::vector<const OpDef*> All() const {
    std::vector<const OpDef*> all;
    for (const auto& [name, row] : rows_) all.push_back(&row);
    return all;
  }

 private:
  std::map<std::string, OpDef> rows_;
};

const OpTable& Table() {
  static const OpTable* const table = new OpTable();
  return *table;
}

// "gpt2.py:12 in wpe: aten.mm(f32[2,3], f32[4,5])".
std::string Describe(const Op& op) {
  std::string text = ToString(op.location());
  if (!text.empty()) text += ": ";
  absl::StrAppend(&text, op.name(), "(");
  for (int i = 0; i < op.num_operands(); ++i) {
    const Value* value = op.operand(i);
    absl::StrAppend(&text, i == 0 ? "" : ", ",
                    value == nullptr ? "none" : ToString(value->type()));
  }
  return text + ")";
}

absl::StatusOr<OpRule> MakeRule(const OpDef& def, const Op& op) {
  if (def.rule_fn != nullptr) return def.rule_fn(op);
  if (def.rule == "replicate") return ReplicateRule(op);
  if (def.rule == "pointwise") return PointwiseRule(def.partial, op);
  return ParseRule(def.rule, def.partial, op);
}

}  // namespace

const OpDef* FindOpDef(const Op& op) { return FindOpDef(op.name()); }

const OpDef* FindOpDef(llvm::StringRef name) { return Table().Find(name); }

bool HasTrait(const Op& op, uint32_t traits) {
  const OpDef* def = FindOpDef(op);
  return def != nullptr && (def->traits & traits) != 0;
}

std::vector<const OpDef*> AllOpDefs() { return Table().All(); }

absl::StatusOr<OpRule> RuleOf(const Op& op) {
  const OpDef* def = FindOpDef(op);
  if (def == nullptr) return ReplicateRule(op);
  absl::StatusOr<OpRule> rule = MakeRule(*def, op);
  if (!rule.ok()) return Annotate(rule.status(), Describe(op));
  return rule;
}

absl::StatusOr<std::vector<TensorType>> InferTypes(const Op& op,
                                                   Assumptions& assumptions) {
  const OpDef* def = FindOpDef(op);
  if (def == nullptr || def->shape == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(Describe(op), ": the op table has no row for this op"));
  }
  absl::StatusOr<std::vector<TensorType>> types = def->shape(op, assumptions);
  if (!types.ok()) return Annotate(types.status(), Describe(op));
  return types;
}

}  // namespace tp
