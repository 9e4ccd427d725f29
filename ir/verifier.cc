#include "ir/verifier.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "ir/text.h"
#include "ir/tokens.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

namespace tp {
namespace {

constexpr int kMaxRegionDepth = 64;

class Verifier {
 public:
  explicit Verifier(const Module& module) : module_(module) {}

  VerifyResult Run() {
    result_.status = VerifyModule();
    return std::move(result_);
  }

 private:
  template <typename... Parts>
  static absl::Status Error(const Parts&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  }

  absl::Status VerifyModule() {
    TP_RETURN_IF_ERROR(VerifyMesh());
    const Assumptions& assumptions = module_.assumptions();
    for (const SymbolInfo& symbol : assumptions.symbols()) {
      ++result_.symbol;
      TP_RETURN_IF_ERROR(VerifySymbol(symbol));
    }
    result_.symbol = -1;
    for (const Guard& guard : assumptions.guards()) {
      ++result_.guard;
      const std::string what = absl::StrCat("guard ", guard.ToString());
      TP_RETURN_IF_ERROR(VerifySymbolsOf(guard.lhs, what));
      TP_RETURN_IF_ERROR(VerifySymbolsOf(guard.rhs, what));
    }
    result_.guard = -1;
    llvm::StringSet<> names;
    for (const std::unique_ptr<Function>& function : module_.functions()) {
      result_.function = function.get();
      if (!IsIdentifier(function->name()))
        return Error("'", function->name(), "' is not a name for a function");
      if (!names.insert(function->name()).second)
        return Error("two functions are named @", function->name());
      TP_RETURN_IF_ERROR(VerifyFunction(*function));
    }
    result_.function = nullptr;
    return absl::OkStatus();
  }

  absl::Status VerifyMesh() const {
    const Mesh& mesh = module_.mesh();
    llvm::StringSet<> names;
    for (const MeshAxis& axis : mesh.axes()) {
      if (!IsIdentifier(axis.name))
        return Error("'", axis.name, "' is not a name for a mesh axis");
      if (!names.insert(axis.name).second)
        return Error("two mesh axes are named '", axis.name, "'");
      if (axis.size < 1)
        return Error("mesh axis '", axis.name, "' has size ", axis.size);
    }
    if (module_.rank() &&
        (*module_.rank() < 0 || *module_.rank() >= mesh.num_ranks()))
      return Error("rank ", *module_.rank(), " is not on the mesh ",
                   mesh.ToString());
    return absl::OkStatus();
  }

  absl::Status VerifySymbol(const SymbolInfo& symbol) {
    if (!IsIdentifier(symbol.name) ||
        symbol.name.find('.') != std::string::npos)
      return Error("'", symbol.name, "' is not a name for a symbol");
    if (IsReservedWord(symbol.name))
      return Error("a symbol cannot be named '", symbol.name,
                   "': the word means something else");
    if (!symbols_.insert(symbol.name).second)
      return Error("symbol '", symbol.name, "' is declared twice");
    if (symbol.hint < 0)
      return Error("symbol '", symbol.name, "' has the negative hint ",
                   symbol.hint);
    return VerifyBinding(symbol);
  }

  // The input and dim that a symbol is read from exist.
  absl::Status VerifyBinding(const SymbolInfo& symbol) const {
    if (symbol.input.empty() || module_.functions().empty())
      return absl::OkStatus();
    bool found = false;
    for (const std::unique_ptr<Function>& function : module_.functions()) {
      const auto& values = function->body().arguments();
      for (size_t i = 0; i < function->arguments().size(); ++i) {
        const ArgumentInfo& info = function->arguments()[i];
        if (info.is_weight() || info.name != symbol.input) continue;
        found = true;
        if (i < values.size() && symbol.dim >= 0 &&
            symbol.dim < values[i]->type().ndim())
          return absl::OkStatus();
      }
    }
    if (!found)
      return Error("symbol '", symbol.name, "' is read from the input \"",
                   symbol.input, "\", which no function has");
    return Error("symbol '", symbol.name, "' is read from dim ", symbol.dim,
                 " of the input \"", symbol.input, "\", which has no such dim");
  }

  absl::Status VerifySymbolsOf(const SymExpr& expr,
                               llvm::StringRef what) const {
    if (expr.is_constant()) return absl::OkStatus();
    llvm::StringSet<> used;
    expr.CollectSymbols(used);
    std::set<std::string> unknown;  // sorted: the same error every time
    for (const auto& entry : used)
      if (!symbols_.contains(entry.getKey()))
        unknown.insert(entry.getKey().str());
    if (unknown.empty()) return absl::OkStatus();
    return Error(what.str(), ": symbol '", *unknown.begin(),
                 "' is not declared");
  }

  absl::Status VerifySymbolsOf(const Attribute& attribute,
                               llvm::StringRef what) const {
    if (attribute.is_int()) return VerifySymbolsOf(attribute.as_int(), what);
    if (!attribute.is_list()) return absl::OkStatus();
    for (const Attribute& element : attribute.as_list())
      TP_RETURN_IF_ERROR(VerifySymbolsOf(element, what));
    return absl::OkStatus();
  }

  absl::Status VerifyFunction(const Function& function) {
    const Block& body = function.body();
    if (function.arguments().size() != body.arguments().size())
      return Error("@", function.name(), " describes ",
                   function.arguments().size(), " arguments but has ",
                   body.arguments().size());
    llvm::StringSet<> inputs, weights;
    for (size_t i = 0; i < function.arguments().size(); ++i) {
      const ArgumentInfo& info = function.arguments()[i];
      result_.argument = body.arguments()[i].get();
      llvm::StringSet<>& names = info.is_weight() ? weights : inputs;
      const char* kind = info.is_weight() ? "weight" : "input";
      if (info.is_weight() && info.name.empty())
        return Error("argument ", i, " of @", function.name(),
                     " is a weight without a name");
      if (!info.name.empty() && !names.insert(info.name).second)
        return Error("two arguments of @", function.name(), " are the ", kind,
                     " \"", info.name, "\"");
      for (const std::string& alias : info.aliases)
        if (!names.insert(alias).second)
          return Error("two arguments of @", function.name(), " are the ", kind,
                       " \"", alias, "\"");
    }
    result_.argument = nullptr;
    TP_RETURN_IF_ERROR(VerifyResultInfos(function));
    defined_.clear();
    return VerifyBlock(body, absl::StrCat("@", function.name()), nullptr, 0);
  }

  // A result becomes an argument of its type; only an input may change its
  // sizes from call to call, as a cache that grows does.
  absl::Status VerifyResultInfos(const Function& function) {
    llvm::SmallDenseSet<int> taken;
    for (size_t i = 0; i < function.body().results().size(); ++i) {
      const ResultInfo info = function.result_info(i);
      const Value* result = function.body().results()[i];
      if (info.feeds()) {
        TP_RETURN_IF_ERROR(VerifyFed(function, i, info));
        continue;
      }
      if (info.argument < 0) {
        if (!info.is_output)
          return Error("result ", i, " of @", function.name(),
                       " is neither an output nor an argument's");
        continue;
      }
      if (info.argument >= static_cast<int>(function.arguments().size()))
        return Error("result ", i, " of @", function.name(),
                     " becomes an argument that is not there");
      const Value* argument = function.body().arguments()[info.argument].get();
      result_.argument = argument;
      const ArgumentInfo& of = function.arguments()[info.argument];
      if (!taken.insert(info.argument).second)
        return Error("two results of @", function.name(), " become \"", of.name,
                     "\"");
      if (result == nullptr) continue;  // VerifyBlock reports it
      const TensorType& from = result->type();
      const TensorType& to = argument->type();
      const bool same =
          of.is_weight() ? from == to
                         : from.dtype == to.dtype && from.ndim() == to.ndim();
      if (!same)
        return Error("result ", i, " of @", function.name(), " is ",
                     ToString(from), ", but becomes \"", of.name,
                     "\", which is ", ToString(to));
    }
    result_.argument = nullptr;
    return absl::OkStatus();
  }

  absl::Status VerifyFed(const Function& function, size_t index,
                         const ResultInfo& info) const {
    const Function* of = module_.function(info.feeds_function);
    const int argument = of == nullptr ? -1 : of->FindInput(info.feeds_input);
    if (argument < 0 || of == &function || info.argument >= 0)
      return Error("result ", index, " of @", function.name(), " feeds @",
                   info.feeds_function, " \"", info.feeds_input,
                   "\", which is no input of another function");
    if (!of->arguments()[argument].fed)
      return Error("the input \"", info.feeds_input, "\" of @",
                   info.feeds_function, " is fed, but does not say so");
    const Value* result = function.body().results()[index];
    if (result == nullptr) return absl::OkStatus();
    const TensorType& from = result->type();
    const TensorType& to = of->body().arguments()[argument]->type();
    if (from.dtype != to.dtype || from.ndim() != to.ndim())
      return Error("result ", index, " of @", function.name(), " is ",
                   ToString(from), ", but feeds \"", info.feeds_input,
                   "\" of @", info.feeds_function, ", which is ", ToString(to));
    return absl::OkStatus();
  }

  // `what` names the block in errors, `owner` is the op it is a region of.
  absl::Status VerifyBlock(const Block& block, const std::string& what,
                           const Op* owner, int depth) {
    result_.op = owner;
    if (depth > kMaxRegionDepth)
      return Error(what, ": regions are nested too deeply");
    llvm::SmallVector<const Value*, 16> scope;
    auto define = [&](const Value* value) {
      defined_.insert(value);
      scope.push_back(value);
    };
    for (size_t i = 0; i < block.arguments().size(); ++i) {
      const Value& argument = *block.arguments()[i];
      result_.argument = &argument;
      if (argument.op() != nullptr || argument.index() != static_cast<int>(i))
        return Error(what, ": argument ", i, " believes to be value ",
                     argument.index(), " of something else");
      TP_RETURN_IF_ERROR(
          VerifyValue(argument, absl::StrCat(what, ": argument ", i)));
      define(&argument);
    }
    result_.argument = nullptr;
    for (const std::unique_ptr<Op>& op : block.ops()) {
      result_.op = op.get();
      if (absl::Status status = VerifyOp(*op, depth); !status.ok())
        return status;
      for (int i = 0; i < op->num_results(); ++i) define(op->result(i));
    }
    result_.op = owner;
    for (const Value* result : block.results())
      if (result == nullptr || !defined_.contains(result))
        return Error(what, " returns a value that is not defined in it");
    // What a region defines is not seen outside of it.
    for (const Value* value : scope) defined_.erase(value);
    return absl::OkStatus();
  }

  absl::Status VerifyOp(const Op& op, int depth) {
    absl::Status status = VerifyOpParts(op, depth);
    if (status.ok() || result_.op != &op) return status;
    // Errors from the op table name the op already.
    if (absl::StrContains(status.message(), op.name())) return status;
    // Only here: nested ops have named themselves.
    std::string where = op.name();
    if (!op.location().empty())
      absl::StrAppend(&where, " at ", ToString(op.location()));
    return Annotate(status, where);
  }

  absl::Status VerifyOpParts(const Op& op, int depth) {
    if (!IsIdentifier(op.name()) || op.name().find('.') == std::string::npos)
      return Error("an op's name is <namespace>.<op>[.<overload>]");
    TP_RETURN_IF_ERROR(VerifyOperands(op));
    llvm::StringSet<> names;
    for (const NamedAttribute& attribute : op.attributes()) {
      if (!IsIdentifier(attribute.name))
        return Error("'", attribute.name, "' is not a name for an attribute");
      if (!names.insert(attribute.name).second)
        return Error("attribute '", attribute.name, "' is given twice");
      TP_RETURN_IF_ERROR(VerifySymbolsOf(
          attribute.value, absl::StrCat("attribute '", attribute.name, "'")));
    }
    for (int i = 0; i < op.num_results(); ++i) {
      const Value& result = *op.result(i);
      if (result.op() != &op || result.index() != i)
        return Error("result ", i, " believes to be value ", result.index(),
                     " of something else");
      TP_RETURN_IF_ERROR(VerifyValue(result, absl::StrCat("result ", i)));
    }
    TP_RETURN_IF_ERROR(VerifyRule(op));
    for (size_t i = 0; i < op.regions().size(); ++i)
      TP_RETURN_IF_ERROR(VerifyBlock(
          *op.regions()[i], absl::StrCat("region ", i), &op, depth + 1));
    result_.op = &op;
    return VerifyRegions(op);
  }

  absl::Status VerifyOperands(const Op& op) const {
    int begin = 0;
    for (const OperandSlot& slot : op.slots()) {
      if (slot.begin != begin || slot.size < 0 ||
          (!slot.is_list && slot.size != 1))
        return Error("the operand slots do not cover the operands in order");
      begin += slot.size;
    }
    if (begin != op.num_operands())
      return Error("the operand slots cover ", begin, " of ", op.num_operands(),
                   " operands");
    for (int i = 0; i < op.num_operands(); ++i)
      if (op.operand(i) != nullptr && !defined_.contains(op.operand(i)))
        return Error("operand ", i, " is not defined before its use");
    return absl::OkStatus();
  }

  absl::Status VerifyValue(const Value& value, const std::string& what) const {
    for (int dim = 0; dim < value.type().ndim(); ++dim) {
      const SymExpr& size = value.type().dims[dim];
      TP_RETURN_IF_ERROR(VerifySymbolsOf(size, what));
      if (size.is_constant() && size.constant() < 0)
        return Error(what, ": dim ", dim, " has the negative size ",
                     size.ToString());
    }
    return VerifySpec(value, what);
  }

  absl::Status VerifySpec(const Value& value, const std::string& what) const {
    llvm::ArrayRef<Placement> spec = value.spec();
    if (spec.empty()) return absl::OkStatus();
    if (static_cast<int>(spec.size()) != module_.mesh().ndim())
      return Error(what, ": ", spec.size(), " placements on a mesh of ",
                   module_.mesh().ndim(), " axes");
    for (const Placement& placement : spec) {
      if (!placement.is_shard()) continue;
      const TensorType& type = value.type();
      if (placement.dim() < 0 || placement.dim() >= type.ndim())
        return Error(what, ": ", placement.ToString(),
                     " splits a dim that a tensor of ", type.ndim(),
                     " dims has not");
      TP_RETURN_IF_ERROR(VerifySymbolsOf(placement.factor().dim_size(), what));
      // In a rank program types are local and boxes global.
      if (module_.rank()) continue;
      const SymExpr& size = type.dims[placement.dim()];
      if (!IsSameSize(placement.factor().dim_size(), size))
        return Error(what, ": the box of ", placement.ToString(), " holds ",
                     placement.factor().dim_size().ToString(),
                     " indices, but dim ", placement.dim(), " of ",
                     tp::ToString(type), " has ", size.ToString());
    }
    return absl::OkStatus();
  }

  bool IsSameSize(const SymExpr& a, const SymExpr& b) const {
    return a == b ||
           module_.assumptions().Known(a, Relation::kEq, b).value_or(false);
  }

  // Rules are about whole tensors, and about ops that stay in a plan.
  absl::Status VerifyRule(const Op& op) const {
    const OpDef* def = FindOpDef(op);
    if (module_.rank() || def == nullptr ||
        (def->traits & (kCollective | kDecompose)) ||
        llvm::StringRef(op.name()).starts_with("tp."))
      return absl::OkStatus();
    TP_ASSIGN_OR_RETURN(OpRule rule, RuleOf(op));
    if (static_cast<int>(rule.operands.size()) != op.num_operands())
      return Error("it has ", op.num_operands(),
                   " operands, but its rule is for ", rule.operands.size(),
                   ": ", rule.ToString());
    if (static_cast<int>(rule.results.size()) != op.num_results())
      return Error("it has ", op.num_results(),
                   " results, but its rule is for ", rule.results.size(), ": ",
                   rule.ToString());
    return absl::OkStatus();
  }

  // Whether a value of type `from` may be handed to one of type `to`: equal, up
  // to sizes of `to` that are whatever the data says.
  bool Fits(const TensorType& from, const TensorType& to) const {
    if (from.dtype != to.dtype || from.ndim() != to.ndim()) return false;
    for (int dim = 0; dim < to.ndim(); ++dim) {
      if (!IsSameSize(from.dims[dim], to.dims[dim]) &&
          !module_.assumptions().DependsOnData(to.dims[dim]))
        return false;
    }
    return true;
  }

  static bool IsScalar(const Value* value, DType dtype) {
    return value != nullptr && value->type().dtype == dtype &&
           value->type().ndim() == 0;
  }

  absl::Status VerifyRegions(const Op& op) const {
    if (op.name() == "tp.if") return VerifyIf(op);
    if (op.name() == "tp.loop") return VerifyLoop(op);
    return absl::OkStatus();
  }

  absl::Status VerifyIf(const Op& op) const {
    if (op.num_operands() != 1 || !IsScalar(op.operand(0), DType::kBool))
      return Error("its operand is one bool[]");
    if (op.regions().size() != 2) return Error("it has two regions");
    for (const std::unique_ptr<Block>& region : op.regions()) {
      if (!region->arguments().empty())
        return Error("its regions have no arguments");
      if (static_cast<int>(region->results().size()) != op.num_results())
        return Error("a region yields ", region->results().size(),
                     " values for ", op.num_results(), " results");
      for (int i = 0; i < op.num_results(); ++i)
        if (!Fits(region->results()[i]->type(), op.result(i)->type()))
          return Error("a region yields ",
                       tp::ToString(region->results()[i]->type()),
                       " for result ", i);
    }
    return absl::OkStatus();
  }

  absl::Status VerifyLoop(const Op& op) const {
    if (op.slots().size() != 3 || op.slots()[0].is_list ||
        op.slots()[1].is_list || !op.slots()[2].is_list)
      return Error("its operands are a limit, a condition and a list");
    if (op.operand(0) != nullptr && !IsScalar(op.operand(0), DType::kI64))
      return Error("its limit is an i64[]");
    const bool conditional = op.operand(1) != nullptr;
    if (conditional && !IsScalar(op.operand(1), DType::kBool))
      return Error("its condition is a bool[]");
    if (!conditional && op.operand(0) == nullptr)
      return Error("it has neither a limit nor a condition");
    const int carried = op.num_operands() - 2;
    if (op.regions().size() != 1 || carried != op.num_results())
      return Error("it has one region and as many results as carried values");
    const Block& body = *op.regions()[0];
    if (static_cast<int>(body.arguments().size()) != carried + 1 ||
        !IsScalar(body.arguments()[0].get(), DType::kI64))
      return Error("its region takes an i64[] and the carried values");
    const int first = conditional ? 1 : 0;
    if (static_cast<int>(body.results().size()) != carried + first ||
        (conditional && !IsScalar(body.results()[0], DType::kBool)))
      return Error("its region yields ", conditional ? "a bool[] and " : "",
                   "the carried values");
    for (int i = 0; i < carried; ++i) {
      const TensorType& inside = body.arguments()[i + 1]->type();
      const TensorType& next = body.results()[i + first]->type();
      if (op.operand(i + 2) == nullptr ||
          !Fits(op.operand(i + 2)->type(), inside) || !Fits(next, inside) ||
          !Fits(next, op.result(i)->type()))
        return Error("carried value ", i,
                     " has another type before, in or after the loop");
    }
    return absl::OkStatus();
  }

  const Module& module_;
  VerifyResult result_;
  llvm::StringSet<> symbols_;
  llvm::DenseSet<const Value*> defined_;
};

}  // namespace

VerifyResult VerifyWithSubject(const Module& module) {
  return Verifier(module).Run();
}

absl::Status Verify(const Module& module) {
  return VerifyWithSubject(module).status;
}

}  // namespace tp
