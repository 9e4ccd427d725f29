#include "runtime/program.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/schedule.h"
#include "ir/status.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace tp {
namespace {

// Pointwise ops with an in-place form of the same arguments. `commutes`: the
// second operand's memory serves as well.
struct InPlaceRow {
  const char* name;
  bool commutes;
};
constexpr InPlaceRow kInPlaceRows[] = {
    {"aten.add.Tensor", true},
    {"aten.add.Scalar", false},
    {"aten.sub.Tensor", false},
    {"aten.sub.Scalar", false},
    {"aten.mul.Tensor", true},
    {"aten.mul.Scalar", false},
    {"aten.div.Tensor", false},
    {"aten.div.Scalar", false},
    {"aten.pow.Tensor_Scalar", false},
    {"aten.masked_fill.Scalar", false},
    {"aten.clamp", false},
    {"aten.gelu", false},
    {"aten.relu", false},
    {"aten.silu", false},
    {"aten.tanh", false},
    {"aten.sigmoid", false},
    {"aten.exp", false},
    {"aten.neg", false},
    {"aten.rsqrt", false},
    {"aten.sqrt", false},
    {"aten.cos", false},
    {"aten.sin", false},
};

std::optional<InstructionKind> TpKind(llvm::StringRef name) {
  static const std::pair<const char*, InstructionKind> kRows[] = {
      {"tp.all_reduce", InstructionKind::kAllReduce},
      {"tp.all_gather", InstructionKind::kAllGather},
      {"tp.reduce_scatter", InstructionKind::kReduceScatter},
      {"tp.all_to_all", InstructionKind::kAllToAll},
      {"tp.slice", InstructionKind::kSlice},
      {"tp.copy", InstructionKind::kCopy},
      {"tp.enter", InstructionKind::kEnter},
      {"tp.leave", InstructionKind::kLeave},
      {"tp.segment_grad", InstructionKind::kSegmentGrad},
      {"tp.refill", InstructionKind::kRefill},
      {"tp.dropout_mask", InstructionKind::kDropoutMask},
      {"tp.sym", InstructionKind::kSym},
      {"tp.embedding_shard", InstructionKind::kEmbeddingShard},
      {"tp.gather_shard", InstructionKind::kGatherShard},
      {"tp.broadcast", InstructionKind::kBroadcast},
      {"tp.if", InstructionKind::kIf},
      {"tp.loop", InstructionKind::kLoop},
      {"tp.raise", InstructionKind::kRaise},
  };
  for (const auto& [row, kind] : kRows) {
    if (name == row) return kind;
  }
  return std::nullopt;
}

bool IsBoundary(InstructionKind kind) {
  return kind == InstructionKind::kEnter || kind == InstructionKind::kLeave ||
         kind == InstructionKind::kSegmentGrad ||
         kind == InstructionKind::kRefill;
}

std::string SourceOf(const Location& location) {
  if (location.file.empty()) return "";
  return absl::StrCat(location.file, ":", location.line);
}

std::string Place(const Op& op) {
  const std::string where = ToString(op.location());
  return where.empty() ? op.name() : absl::StrCat(op.name(), " at ", where);
}

// Positions of the operands of a matrix product.
struct ProductRow {
  const char* name;
  int input;
  int weight;
  int bias;         // -1: has none
  bool transposed;  // the weight is [in, out]
};
constexpr ProductRow kProductRows[] = {
    {"aten.linear", 0, 1, 2, false},
    {"aten.mm", 0, 1, -1, true},
    {"aten.matmul", 0, 1, -1, true},
    {"aten.addmm", 1, 2, 0, true},
};

// The type that all ranks' parts of a value make up.
TensorType WholeType(const Value& value) {
  TensorType type = value.type();
  for (const Placement& placement : value.spec()) {
    if (placement.is_shard())
      type.dims[placement.dim()] = placement.factor().dim_size();
  }
  return type;
}

bool IsControl(InstructionKind kind) {
  return kind == InstructionKind::kIf || kind == InstructionKind::kLoop ||
         kind == InstructionKind::kRaise;
}

bool DependsOnData(const Attribute& attribute, const Assumptions& assumptions) {
  if (attribute.is_int()) return assumptions.DependsOnData(attribute.as_int());
  if (!attribute.is_list()) return false;
  return llvm::any_of(attribute.as_list(), [&](const Attribute& item) {
    return DependsOnData(item, assumptions);
  });
}

bool DependsOnData(const Value& value, const Assumptions& assumptions) {
  return llvm::any_of(value.type().dims, [&](const SymExpr& size) {
    return assumptions.DependsOnData(size);
  });
}

// Whether an instruction can be bound only when it runs. An ATen op of the
// table (`is_aten`) looks at the dims of its operands itself.
bool IsLate(const Op& op, bool is_aten, const Assumptions& assumptions) {
  for (const NamedAttribute& attribute : op.attributes())
    if (DependsOnData(attribute.value, assumptions)) return true;
  if (is_aten && op.attribute("empty_if") == nullptr) return false;
  for (const Value* operand : op.operands())
    if (operand != nullptr && DependsOnData(*operand, assumptions)) return true;
  for (int i = 0; i < op.num_results(); ++i)
    if (DependsOnData(*op.result(i), assumptions)) return true;
  return false;
}

bool IsTransposeOfMatrix(const Op& op) {
  return (op.Is("aten.t") || op.Is("aten.transpose.int")) &&
         op.operand(0)->type().ndim() == 2;
}

}  // namespace

class ProgramBuilder {
 public:
  ProgramBuilder(Program& program, at::Device device)
      : program_(program),
        device_(device),
        is_trained_(program.module().function("backward") != nullptr) {}

  absl::Status Build(const Function& function) {
    AddArguments(function);
    AddAssumptions();
    TP_RETURN_IF_ERROR(AddOps(function.body(), program_.instructions_));
    TP_RETURN_IF_ERROR(AddResults(function));
    program_.num_registers_ = static_cast<int>(program_.constant_.size());
    FindProducts(program_.instructions_);
    FindCaptured();
    MarkLastUses();
    CutSegments();
    return absl::OkStatus();
  }

 private:
  // `lasting`: nothing frees it. `fixed`: equal in every call of equal sizes.
  int NewRegister(const Value* value, bool lasting, bool fixed) {
    const int reg = static_cast<int>(program_.constant_.size());
    program_.constant_.push_back(lasting);
    fixed_.push_back(fixed);
    registers_[value] = reg;
    return reg;
  }

  void AddArguments(const Function& function) {
    const auto& arguments = function.body().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const ArgumentInfo& info = function.arguments()[i];
      const bool carried = function.IsCarried(static_cast<int>(i));
      const bool changes = carried || (is_trained_ && info.is_trainable());
      const int reg = NewRegister(arguments[i].get(), info.is_weight(),
                                  info.is_weight() && !changes);
      auto& list = info.is_weight() ? program_.weights_ : program_.inputs_;
      const llvm::ArrayRef<Placement> spec = arguments[i]->spec();
      positions_.push_back(static_cast<int>(list.size()));
      list.push_back(
          {info,
           info.is_weight() ? arguments[i]->type() : WholeType(*arguments[i]),
           reg, ShardingSpec(spec.begin(), spec.end()), carried});
    }
  }

  // A size belongs to the function with the input that it is read from: of
  // the same name there may be one in every function, but its dim then is
  // another symbol.
  void AddAssumptions() {
    const Assumptions& assumptions = program_.module().assumptions();
    const bool alone =
        llvm::count_if(program_.module().functions(), [](const auto& function) {
          return function->name() != "backward" &&
                 function->name() != "reduce_gradients";
        }) == 1;
    llvm::StringSet<> others;
    for (const SymbolInfo& symbol : assumptions.symbols()) {
      if (symbol.input.empty() || alone || ReadsHere(symbol))
        program_.symbols_.push_back(symbol);
      else
        others.insert(symbol.name);
    }
    for (const Guard& guard : assumptions.guards()) {
      llvm::StringSet<> used;
      guard.lhs.CollectSymbols(used);
      guard.rhs.CollectSymbols(used);
      if (llvm::none_of(used, [&](const auto& entry) {
            return others.contains(entry.getKey());
          }))
        program_.guards_.push_back(guard);
    }
  }

  bool ReadsHere(const SymbolInfo& symbol) const {
    return llvm::any_of(program_.inputs_, [&](const ProgramArgument& input) {
      return input.info.name == symbol.input &&
             symbol.dim < input.type.ndim() &&
             input.type.dims[symbol.dim].AsSymbol() ==
                 std::optional<llvm::StringRef>(symbol.name);
    });
  }

  absl::Status AddResults(const Function& function) {
    for (size_t i = 0; i < function.body().results().size(); ++i) {
      const Value* value = function.body().results()[i];
      if (!registers_.count(value)) {
        return absl::InvalidArgumentError(
            "the function returns a value nobody computes");
      }
      ProgramResult result;
      result.reg = registers_[value];
      const ResultInfo info = function.result_info(i);
      result.is_output = info.is_output;
      result.feeds_function = info.feeds_function;
      result.feeds_input = info.feeds_input;
      if (info.argument >= 0) {
        (function.arguments()[info.argument].is_weight() ? result.weight
                                                         : result.input) =
            positions_[info.argument];
      }
      result.type = WholeType(*value);
      result.spec = ShardingSpec(value->spec().begin(), value->spec().end());
      program_.results_.push_back(std::move(result));
    }
    return absl::OkStatus();
  }

  absl::Status AddOps(const Block& block, std::vector<Instruction>& list) {
    for (const std::unique_ptr<Op>& op : block.ops()) {
      absl::Status status = AddOp(*op, list);
      if (status.ok()) continue;
      // Of a region, the innermost op says where.
      if (absl::StartsWith(status.message(), "rank ")) return status;
      return Annotate(status,
                      absl::StrCat("rank ", program_.rank(), ": ", Place(*op)));
    }
    return absl::OkStatus();
  }

  absl::Status AddOp(const Op& op, std::vector<Instruction>& list) {
    Instruction instruction;
    instruction.op = &op;
    instruction.index = program_.num_instructions_++;
    instruction.module_path = op.location().module_path;
    instruction.source = SourceOf(op.location());
    bool fixed = depth_ == 0;
    for (const Value* value : op.operands()) {
      Operand operand;
      if (value != nullptr) {
        TP_ASSIGN_OR_RETURN(operand.reg, RegisterOf(value));
        fixed = fixed && fixed_[operand.reg];
      }
      instruction.operands.push_back(operand);
    }
    TP_RETURN_IF_ERROR(SetKernel(op, instruction));
    const bool control = IsControl(instruction.kind);
    instruction.late =
        !control && IsLate(op, instruction.call && !instruction.call->flattens,
                           program_.module().assumptions());
    // An op that nobody described may do something else each time.
    const bool unknown = instruction.call && instruction.call->flattens;
    instruction.hoisted = fixed && !unknown &&
                          !IsCollective(instruction.kind) &&
                          !IsBoundary(instruction.kind) && !control &&
                          !instruction.late && !HasTrait(op, kRandom);
    TP_RETURN_IF_ERROR(AddRegions(op, instruction));
    for (int i = 0; i < op.num_results(); ++i) {
      instruction.results.push_back(
          NewRegister(op.result(i), instruction.hoisted, instruction.hoisted));
      if (control) AddSizes(*op.result(i), instruction.sizes);
    }
    list.push_back(std::move(instruction));
    return absl::OkStatus();
  }

  absl::StatusOr<int> RegisterOf(const Value* value) {
    auto found = registers_.find(value);
    if (found == registers_.end())
      return absl::InvalidArgumentError("uses a value before it is made");
    return found->second;
  }

  absl::Status AddRegions(const Op& op, Instruction& instruction) {
    ++depth_;
    for (const std::unique_ptr<Block>& block : op.regions()) {
      ProgramRegion& region = instruction.regions.emplace_back();
      for (const auto& argument : block->arguments()) {
        region.arguments.push_back(
            NewRegister(argument.get(), /*lasting=*/false, /*fixed=*/false));
        AddSizes(*argument, region.sizes);
      }
      TP_RETURN_IF_ERROR(AddOps(*block, region.instructions));
      for (const Value* result : block->results()) {
        TP_ASSIGN_OR_RETURN(int reg, RegisterOf(result));
        region.results.push_back({reg, false});
      }
    }
    --depth_;
    return absl::OkStatus();
  }

  // The sizes that only this value knows.
  void AddSizes(const Value& value, std::vector<DataSize>& sizes) {
    for (int dim = 0; dim < value.type().ndim(); ++dim) {
      const SymExpr& size = value.type().dims[dim];
      for (const SymbolInfo& symbol :
           program_.module().assumptions().symbols()) {
        if (!symbol.input.empty()) continue;
        std::optional<int64_t> offset =
            (size - SymExpr::Symbol(symbol.name)).AsConstant();
        if (offset) sizes.push_back({symbol.name, value.index(), dim, *offset});
      }
    }
  }

  absl::Status SetKernel(const Op& op, Instruction& instruction) {
    if (std::optional<InstructionKind> kind = TpKind(op.name())) {
      instruction.kind = *kind;
      if (IsBoundary(*kind) || IsControl(*kind)) return absl::OkStatus();
      const int operands = *kind == InstructionKind::kSym              ? 0
                           : *kind == InstructionKind::kDropoutMask    ? 0
                           : *kind == InstructionKind::kEmbeddingShard ? 2
                           : *kind == InstructionKind::kGatherShard    ? 2
                                                                       : 1;
      if (op.num_operands() != operands || op.num_results() != 1 ||
          (operands > 0 && llvm::is_contained(op.operands(), nullptr))) {
        return absl::InvalidArgumentError("has the wrong number of operands");
      }
      if (IsCollective(*kind)) {
        instruction.collective_index = num_collectives_++;
      }
      return absl::OkStatus();
    }
    TP_ASSIGN_OR_RETURN(instruction.call, ResolveAten(op, device_));
    SetInPlace(op, instruction);
    return absl::OkStatus();
  }

  void SetInPlace(const Op& op, Instruction& instruction) {
    for (const InPlaceRow& row : kInPlaceRows) {
      if (op.name() != row.name) continue;
      auto [space, rest] = llvm::StringRef(op.name()).split('.');
      auto [base, overload] = rest.split('.');
      auto handle =
          FindVariant(*instruction.call,
                      absl::StrCat("aten::", base.str(), "_"), overload.str());
      if (!handle) return;
      // The alpha of add scales the second operand only.
      const int choices =
          row.commutes && op.attribute("alpha") == nullptr ? 2 : 1;
      for (int i = 0; i < choices; ++i) {
        if (op.operand(i)->type() == op.result()->type()) {
          instruction.in_place.push_back({*handle, i});
        }
      }
      return;
    }
  }

  void FindProducts(std::vector<Instruction>& instructions) {
    for (Instruction& instruction : instructions) {
      for (const ProductRow& row : kProductRows) {
        if (!instruction.hoisted && instruction.op->Is(row.name))
          instruction.product = ProductOf(*instruction.op, row);
      }
      for (ProgramRegion& region : instruction.regions)
        FindProducts(region.instructions);
    }
  }

  std::optional<MatrixProduct> ProductOf(const Op& op, const ProductRow& row) {
    const Value* matrix = op.operand(row.weight);
    const TensorType& type = op.result()->type();
    MatrixProduct product;
    product.input = row.input;
    product.weight_operand = row.weight;
    product.transposed = row.transposed;
    if (row.bias >= 0 && row.bias < op.num_operands() &&
        op.operand(row.bias) != nullptr) {
      const TensorType& bias = op.operand(row.bias)->type();
      if (bias.ndim() != 1 || bias.dtype != type.dtype ||
          bias.dims[0] != type.dims.back())
        return std::nullopt;
      product.bias = row.bias;
    }
    const bool plain = llvm::all_of(op.attributes(), [](const auto& attribute) {
      return attribute.name == "empty_if" || attribute.name == "identity";
    });
    if (matrix->type().ndim() != 2 || !plain ||
        type.dtype != matrix->type().dtype ||
        type.dtype != op.operand(row.input)->type().dtype)
      return std::nullopt;
    MatrixProduct of_weight = product;
    if (matrix->op() != nullptr && IsTransposeOfMatrix(*matrix->op())) {
      matrix = matrix->op()->operand(0);
      of_weight.transposed = !product.transposed;
    }
    of_weight.weight = registers_[matrix];
    for (const ProgramArgument& weight : program_.weights_) {
      if (weight.reg == of_weight.weight && !weight.carried) return of_weight;
    }
    return product;
  }

  void FindCaptured() {
    auto& instructions = program_.instructions_;
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].kind != InstructionKind::kEnter) continue;
      std::set<int> made(instructions[i].results.begin(),
                         instructions[i].results.end());
      std::set<int> captured;
      for (size_t k = i + 1; k < instructions.size() &&
                             instructions[k].kind != InstructionKind::kLeave;
           ++k) {
        if (instructions[k].hoisted) continue;
        for (const Operand& operand : instructions[k].operands) {
          if (operand.reg >= 0 && made.count(operand.reg) == 0 &&
              !program_.constant_[operand.reg])
            captured.insert(operand.reg);
        }
        made.insert(instructions[k].results.begin(),
                    instructions[k].results.end());
      }
      instructions[i].captured.assign(captured.begin(), captured.end());
    }
  }

  void MarkLastUses() {
    std::vector<bool> needed = program_.constant_;
    for (const ProgramResult& result : program_.results_)
      needed[result.reg] = true;
    MarkLastUses(program_.instructions_, needed);
  }

  // From the last instruction to the first; `needed`: what is read behind the
  // place that was reached.
  static void MarkLastUses(std::vector<Instruction>& instructions,
                           std::vector<bool>& needed) {
    for (auto it = instructions.rbegin(); it != instructions.rend(); ++it) {
      for (int& reg : it->results) {
        if (!needed[reg]) reg = -1;
      }
      if (it->kind == InstructionKind::kIf) MarkBranches(*it, needed);
      if (it->kind == InstructionKind::kLoop) MarkLoop(*it, needed);
      MarkOperands(it->operands, needed);
      // Memory is reused only where its value is read for the last time.
      llvm::erase_if(it->in_place, [&](const InPlace& choice) {
        return !it->operands[choice.operand].last_use;
      });
    }
  }

  template <typename Operands>
  static void MarkOperands(Operands& operands, std::vector<bool>& needed) {
    for (size_t i = operands.size(); i-- > 0;) {
      Operand& operand = operands[i];
      if (operand.reg < 0 || needed[operand.reg]) continue;
      operand.last_use = true;
      needed[operand.reg] = true;
    }
  }

  static void MarkRegion(ProgramRegion& region, std::vector<bool>& needed) {
    MarkOperands(region.results, needed);
    MarkLastUses(region.instructions, needed);
    for (int& reg : region.arguments) {
      if (!needed[reg]) reg = -1;
    }
  }

  // What one branch reads for the last time, the other lets go.
  static void MarkBranches(Instruction& branch, std::vector<bool>& needed) {
    const std::vector<bool> after = needed;
    std::vector<std::vector<bool>> before;
    for (ProgramRegion& region : branch.regions) {
      before.push_back(after);
      MarkRegion(region, before.back());
    }
    const std::vector<bool> inside = RegistersMadeIn(branch, needed.size());
    for (size_t reg = 0; reg < needed.size(); ++reg) {
      if (inside[reg] || after[reg]) continue;
      for (size_t i = 0; i < before.size(); ++i) {
        if (before[i][reg])
          needed[reg] = true;
        else if (before[1 - i][reg])
          branch.regions[i].frees.push_back(static_cast<int>(reg));
      }
    }
  }

  // What comes from outside is read in every round; it goes after the last.
  static void MarkLoop(Instruction& loop, std::vector<bool>& needed) {
    const std::vector<bool> inside = RegistersMadeIn(loop, needed.size());
    const std::vector<bool> after = needed;
    ProgramRegion& body = loop.regions[0];
    std::vector<bool> read(needed.size(), false);
    const auto read_register = [&](const Operand& operand) {
      if (operand.reg >= 0) read[operand.reg] = true;
    };
    Program::ForEachInstruction(
        body.instructions, [&](const Instruction& nested) {
          for (const Operand& operand : nested.operands) read_register(operand);
          for (const ProgramRegion& region : nested.regions)
            for (const Operand& operand : region.results)
              read_register(operand);
        });
    for (const Operand& operand : body.results) read_register(operand);
    for (size_t reg = 0; reg < needed.size(); ++reg) {
      if (!read[reg] || inside[reg]) continue;
      if (!needed[reg]) loop.frees.push_back(static_cast<int>(reg));
      needed[reg] = true;
    }
    std::vector<bool> in_body = needed;
    MarkRegion(body, in_body);
  }

  static std::vector<bool> RegistersMadeIn(const Instruction& instruction,
                                           size_t count) {
    std::vector<bool> made(count, false);
    const auto make = [&](int reg) {
      if (reg >= 0) made[reg] = true;
    };
    for (const ProgramRegion& region : instruction.regions) {
      for (int reg : region.arguments) make(reg);
      Program::ForEachInstruction(
          region.instructions, [&](const Instruction& nested) {
            for (int reg : nested.results) make(reg);
            for (const ProgramRegion& inner : nested.regions)
              for (int reg : inner.arguments) make(reg);
          });
    }
    return made;
  }

  void CutSegments() {
    const int count = static_cast<int>(program_.instructions_.size());
    Segment segment;
    for (int i = 0; i < count; ++i) {
      if (!IsCollective(program_.instructions_[i].kind)) continue;
      segment.end = i;
      program_.segments_.push_back(segment);
      segment.begin = i + 1;
    }
    segment.end = count;
    program_.segments_.push_back(segment);
  }

  Program& program_;
  at::Device device_;
  const bool is_trained_;
  std::vector<bool> fixed_;     // by register
  std::vector<int> positions_;  // of arguments in inputs() or weights()
  llvm::DenseMap<const Value*, int> registers_;
  int64_t num_collectives_ = 0;
  int depth_ = 0;  // of regions
};

bool IsCollective(InstructionKind kind) {
  return kind == InstructionKind::kAllReduce ||
         kind == InstructionKind::kAllGather ||
         kind == InstructionKind::kReduceScatter ||
         kind == InstructionKind::kAllToAll ||
         kind == InstructionKind::kBroadcast;
}

absl::StatusOr<std::unique_ptr<Program>> Program::Compile(
    std::shared_ptr<const Module> module, const std::string& function,
    at::Device device) {
  const Function* body = module->function(function);
  if (body == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the program has no function @", function));
  }
  std::unique_ptr<Program> program(new Program());
  program->module_ = std::move(module);
  program->function_ = body;
  TP_RETURN_IF_ERROR(ProgramBuilder(*program, device).Build(*body));
  return program;
}

std::string Describe(const Program& program, const Instruction& instruction) {
  return absl::StrCat("rank ", program.rank(), ": ", Place(*instruction.op));
}

}  // namespace tp
