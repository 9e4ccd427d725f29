#include "tests/soundness/cases.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/status.h"

namespace tp::soundness {
namespace {

constexpr char kSymbolInput[] = "sizes";
constexpr int64_t kTerms = 5;  // summed up by ops that make Partial values
constexpr int kConsumersPerCase = 2;

// Where the symbol can be read: an operand and a dim, or nothing.
std::optional<std::pair<int, int>> SymbolSource(const Sample& sample) {
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    if (!sample.present[i]) continue;
    const Dims& dims = sample.operands[i].type.dims;
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] == SymExpr::Symbol(kSymbol))
        return std::make_pair(static_cast<int>(i), static_cast<int>(d));
  }
  return std::nullopt;
}

std::string OperandName(int index) { return absl::StrCat("a", index); }

void DeclareSymbol(const Sample& sample, Module& module) {
  if (!sample.symbolic) return;
  SymbolInfo info{kSymbol, kSize, kSymbolInput, 0};
  if (auto source = SymbolSource(sample)) {
    info.input = OperandName(source->first);
    info.dim = source->second;
  }
  module.assumptions().AddSymbol(std::move(info));
}

ValueSpec SpecOf(TensorType type) { return {std::move(type)}; }

Placement PlainShard(const TensorType& type, int dim) {
  return Placement::Shard(dim, type.dims[dim]);
}

Attribute IntList(const SymExpr& value) {
  return Attribute::Ints(llvm::ArrayRef<SymExpr>(value));
}

bool IsOne(const SymExpr& size) { return size == SymExpr(1); }

class CaseMaker {
 public:
  CaseMaker(const Sample& sample, const Probe& probe, int ranks, bool placed,
            int only)
      : sample_(sample),
        probe_(probe),
        ranks_(ranks),
        placed_(placed),
        only_(only) {}

  absl::StatusOr<CaseProgram> Make() {
    program_.module = std::make_unique<Module>();
    module_ = program_.module.get();
    module_->set_mesh(Mesh({{"tp", placed_ ? ranks_ : 1}}));
    DeclareSymbol(sample_, *module_);
    function_ = module_->AddFunction("forward");
    builder_.emplace(*module_, function_->body());
    for (size_t i = 0; i < sample_.operands.size(); ++i)
      operands_.push_back(
          sample_.present[i]
              ? Input(OperandName(static_cast<int>(i)), sample_.operands[i])
              : nullptr);
    if (sample_.symbolic && !SymbolSource(sample_))
      Input(kSymbolInput, SpecOf({DType::kF64, {SymExpr::Symbol(kSymbol)}}));
    TP_RETURN_IF_ERROR(AddWhole());
    for (const FactorSharding& split : SplitsOf(probe_.rule))
      TP_RETURN_IF_ERROR(AddSplit(split));
    for (const auto& operands : probe_.rule.partial)
      TP_RETURN_IF_ERROR(AddPartial(operands));
    return std::move(program_);
  }

 private:
  Value* Input(const std::string& name, const ValueSpec& spec) {
    Value*& value = inputs_[name];
    if (value == nullptr) {
      ArgumentInfo info;
      info.name = name;
      value = function_->AddArgument(spec.type, info);
      program_.inputs.push_back({name, spec});
    }
    return value;
  }

  bool Skip() { return only_ >= 0 && count_++ != only_; }

  void Place(Op& op, const Strategy& strategy) {
    if (!placed_) return;
    for (int i = 0; i < op.num_results(); ++i)
      op.result(i)->set_spec({strategy.results[i]});
  }

  // A case whose op nothing splits.
  absl::Status AddWhole() {
    if (Skip()) return absl::OkStatus();
    return AddCase("replicated", operands_, ReplicateStrategy(*probe_.op));
  }

  absl::Status AddSplit(const FactorSharding& split) {
    ++program_.splits;
    if (Skip()) return absl::OkStatus();
    const Strategy strategy = SplitStrategy(*probe_.op, probe_.rule, split);
    const Factor& factor = probe_.rule.factors[split.factor];
    // A reduced factor shows in the operands only, so those must lie so.
    const bool feed = sample_.dense || factor.kind == FactorKind::kReduce ||
                      program_.splits % 3 == 0;
    std::vector<Value*> operands = operands_;
    for (size_t i = 0; feed && i < operands.size(); ++i) {
      if (!strategy.operands[i].is_shard()) continue;
      TP_ASSIGN_OR_RETURN(Op * copy,
                          builder_->Create("aten.clone", {operands[i]}));
      if (placed_) copy->result()->set_spec({strategy.operands[i]});
      operands[i] = copy->result();
    }
    return AddCase(
        absl::StrCat("split ", factor.name, " of ", factor.size.ToString(),
                     " as ", split.within.left.ToString(), "x[",
                     split.within.size.ToString(), "]x",
                     split.within.right.ToString(), feed ? " (fed)" : ""),
        operands, strategy);
  }

  absl::Status AddPartial(llvm::ArrayRef<int> which) {
    ++program_.partials;
    if (Skip()) return absl::OkStatus();
    std::vector<Value*> operands = operands_;
    std::string what = "partial";
    for (int i : which) {
      TP_ASSIGN_OR_RETURN(operands[i], PartialValue(i));
      if (operands[i] == nullptr) {
        ++program_.unproducible;
        return absl::OkStatus();
      }
      absl::StrAppend(&what, " ", i);
    }
    return AddCase(what, operands, PartialStrategy(*probe_.op, which));
  }

  // A sum over ranks that is due, of the type of that operand; null where no
  // op makes one.
  absl::StatusOr<Value*> PartialValue(int operand) {
    const TensorType& type = sample_.operands[operand].type;
    if (!IsFloatingPoint(type.dtype) && type.dtype != DType::kI64)
      return nullptr;
    if (type.ndim() == 2 && IsFloatingPoint(type.dtype) && operand % 2 == 0) {
      Value* a = Input(absl::StrCat("x", operand),
                       SpecOf({type.dtype, {type.dims[0], kTerms}}));
      Value* b = Input(absl::StrCat("y", operand),
                       SpecOf({type.dtype, {kTerms, type.dims[1]}}));
      TP_ASSIGN_OR_RETURN(Op * product, builder_->Create("aten.mm", {a, b}));
      if (placed_) product->result()->set_spec({Placement::Partial()});
      return product->result();
    }
    ValueSpec spec = SpecOf(type);
    spec.type.dims.insert(spec.type.dims.begin(), SymExpr(kTerms));
    Value* terms = Input(absl::StrCat("t", operand), spec);
    TP_ASSIGN_OR_RETURN(Op * sum,
                        builder_->Create("aten.sum.dim_IntList", {terms},
                                         {{"dim", IntList(0)}}));
    if (placed_) sum->result()->set_spec({Placement::Partial()});
    return sum->result();
  }

  absl::Status AddCase(std::string what, llvm::ArrayRef<Value*> operands,
                       const Strategy& strategy) {
    Case entry;
    entry.what = absl::StrCat(what, " over ", ranks_, " ranks");
    entry.first_result = static_cast<int>(function_->body().results().size());
    TP_ASSIGN_OR_RETURN(entry.op, sample_.Make(*builder_, operands));
    entry.strategy = strategy;
    Place(*entry.op, strategy);
    for (int i = 0; i < entry.op->num_results(); ++i)
      function_->body().results().push_back(entry.op->result(i));
    if (!strategy.results.empty() && !strategy.results[0].is_replicate() &&
        !sample_.values_undefined && !sample_.random) {
      const int which = rotate_ % entry.op->num_results();
      for (int tried = 0; tried < kConsumers; ++tried) {
        TP_ASSIGN_OR_RETURN(Value * consumed, Consume(rotate_++ % kConsumers,
                                                      entry.op->result(which),
                                                      strategy.results[which]));
        if (consumed == nullptr) continue;
        function_->body().results().push_back(consumed);
        if (++entry.chains == kConsumersPerCase) break;
      }
    }
    entry.num_results = static_cast<int>(function_->body().results().size()) -
                        entry.first_result;
    program_.cases.push_back(std::move(entry));
    return absl::OkStatus();
  }

  // Appends an op that takes the value as it lies and says how its result
  // then lies; null where it cannot.
  absl::StatusOr<Value*> Follow(absl::StatusOr<Op*> made, Value* value,
                                const Placement& placement) {
    TP_RETURN_IF_ERROR(made.status());
    Op& op = **made;
    TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(op));
    std::optional<Strategy> strategy;
    if (placement.is_shard()) {
      if (auto split = SplitOfOperand(rule, 0, placement, ranks_))
        strategy = SplitStrategy(op, rule, *split);
    } else {
      for (const auto& operands : rule.partial) {
        bool fits = placement.reduce() == ReduceKind::kSum;
        for (int i = 0; i < op.num_operands(); ++i)
          fits &= llvm::is_contained(operands, i) == (op.operand(i) == value);
        if (fits) strategy = PartialStrategy(op, operands);
      }
    }
    if (!strategy) {
      function_->body().ops().pop_back();
      return nullptr;
    }
    Place(op, *strategy);
    return op.result();
  }

  static constexpr int kConsumers = 8;
  absl::StatusOr<Value*> Consume(int which, Value* value,
                                 const Placement& placement) {
    const TensorType& type = value->type();
    const int ndim = type.ndim();
    const int dim = placement.is_shard() ? placement.dim() : 0;
    const bool is_bool = type.dtype == DType::kBool;
    const bool is_f64 = type.dtype == DType::kF64;
    const auto make = [&](const char* name, std::vector<OperandArg> operands,
                          std::vector<NamedAttribute> attributes = {}) {
      return Follow(
          builder_->Create(name, std::move(operands), std::move(attributes)),
          value, placement);
    };
    switch (which) {
      case 0:
        return make(is_bool ? "aten.logical_not" : "aten.neg", {value});
      case 1:
        if (ndim < 2) return nullptr;
        return make("aten.transpose.int", {value},
                    {{"dim0", int64_t{dim}}, {"dim1", (dim + 1) % ndim}});
      case 2:
        if (ndim < 2) return nullptr;
        return make("aten.reshape", {value},
                    {{"shape", IntList(type.num_elements())}});
      case 3: {  // the dim taken apart where the box is cut
        if (ndim == 0) return nullptr;
        const DimFactor box =
            placement.is_shard() ? placement.factor() : DimFactor();
        Dims dims = type.dims;
        if (!IsOne(box.left)) {
          dims[dim] = box.left;
          dims.insert(dims.begin() + dim + 1, box.size * box.right);
        } else if (!IsOne(box.right)) {
          dims[dim] = box.size;
          dims.insert(dims.begin() + dim + 1, box.right);
        } else if (auto half = ExactDiv(dims[dim], 2)) {
          dims[dim] = *half;
          dims.insert(dims.begin() + dim + 1, SymExpr(2));
        } else {
          return nullptr;
        }
        return make("aten.reshape", {value},
                    {{"shape", Attribute::Ints(dims)}});
      }
      case 4: {
        if (ndim == 0 || !is_f64) return nullptr;
        Value* matrix = Input(absl::StrCat("m", matrices_++),
                              SpecOf({DType::kF64, {type.dims.back(), 3}}));
        return make("aten.matmul", {value, matrix});
      }
      case 5:
        if (ndim == 0) return nullptr;
        return make("aten.sum.dim_IntList", {value}, {{"dim", IntList(dim)}});
      case 6: {  // to another placement: all_to_all, reduce_scatter
        if (ndim == 0) return nullptr;
        int to = (dim + 1) % ndim;
        if (IsOne(type.dims[to])) return nullptr;
        TP_ASSIGN_OR_RETURN(Op * copy, builder_->Create("aten.clone", {value}));
        if (placed_) copy->result()->set_spec({PlainShard(type, to)});
        return copy->result();
      }
      default: {
        if (is_bool) return nullptr;
        if (placement.is_partial())
          return make("aten.add.Tensor", {value, value});
        Value* other = Input(absl::StrCat("o", others_++), SpecOf(type));
        return make("aten.add.Tensor", {value, other});
      }
    }
  }

  const Sample& sample_;
  const Probe& probe_;
  const int ranks_;
  const bool placed_;
  const int only_;
  CaseProgram program_;
  Module* module_ = nullptr;
  Function* function_ = nullptr;
  std::optional<Builder> builder_;
  std::map<std::string, Value*> inputs_;
  std::vector<Value*> operands_;
  int count_ = 0;
  int rotate_ = 0;
  int matrices_ = 0;
  int others_ = 0;
};

}  // namespace

absl::StatusOr<Probe> ProbeSample(const Sample& sample) {
  Probe probe;
  probe.module = std::make_unique<Module>();
  DeclareSymbol(sample, *probe.module);
  Function* function = probe.module->AddFunction("forward");
  std::vector<Value*> operands;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    ArgumentInfo info;
    info.name = OperandName(static_cast<int>(i));
    operands.push_back(
        sample.present[i] ? function->AddArgument(sample.operands[i].type, info)
                          : nullptr);
  }
  Builder builder(*probe.module, function->body());
  TP_ASSIGN_OR_RETURN(probe.op, sample.Make(builder, operands));
  TP_ASSIGN_OR_RETURN(probe.rule, RuleOf(*probe.op));
  return probe;
}

std::vector<FactorSharding> SplitsOf(const OpRule& rule) {
  std::vector<FactorSharding> splits;
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.kind == FactorKind::kWhole) continue;
    splits.push_back({f, {1, factor.size, 1}});
    if (!factor.size.is_constant()) continue;
    const int64_t size = factor.size.constant();
    for (int64_t part : {2, 3}) {
      if (size % part != 0 || size == part) continue;
      if (!factor.one_range) splits.push_back({f, {part, size / part, 1}});
      splits.push_back({f, {1, size / part, part}});
    }
    if (size % 4 == 0 && size > 4 && !factor.one_range)
      splits.push_back({f, {2, size / 4, 2}});
  }
  return splits;
}

absl::StatusOr<CaseProgram> MakeCases(const Sample& sample, int ranks,
                                      bool placed, int only) {
  TP_ASSIGN_OR_RETURN(Probe probe, ProbeSample(sample));
  return CaseMaker(sample, probe, ranks, placed, only).Make();
}

}  // namespace tp::soundness
