// The grammar ([x] optional, {x} any number of times; words in quotes):
//
//   module    = "tpir" "1" {mesh | rank | symbol | guard} {function}
//   mesh      = "mesh" "@m" "=" "[" axis ":" int {"," axis ":" int} "]"
//   rank      = "rank" int
//   symbol    = "symbol" name "=" int ["from" string ":" int]
//   guard     = "guard" size relation size ["because" string] [loc]
//   function  = "func" "@" name "(" [argument {"," argument}] ")" "->" results
//               "{" {op} "return" [values] "}"
//   argument  = value ":" type [kind string] ["frozen"] ["fed"]
//               {"alias" string}
//   kind      = "input" | "param" | "buffer" | "const"
//   results   = result | "(" [result {"," result}] ")"
//   result    = tensor [("to" | "state") value | "feeds" "@" name string]
//   op        = [value [":" int] "="] name "(" [operand {"," operand}] ")"
//               [attributes] {region} [":" type {"," type}] [loc]
//   operand   = value | "none" | "[" [operand {"," operand}] "]"
//   attributes= "{" [name "=" attribute {"," name "=" attribute}] "}"
//   region    = "{" "^" "(" [value ":" type {...}] ")" {op} "yield" [values]
//   "}" type      = tensor ["<" placement {"," placement} ">"] tensor    =
//   dtype "[" [size {"," size}] "]" placement = [axis ":"] ("R" | "S(" ... ")"
//   | "P(" reduction ")") loc       = "loc" [string [":" int [":" int]]] ["in"
//   string] value     = "%" (name | int) ["#" int]
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/cursor.h"
#include "ir/status.h"
#include "ir/text.h"
#include "ir/tokens.h"
#include "ir/verifier.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace tp {
namespace {

// Nesting deeper than these comes from hostile input only.
constexpr int kMaxListDepth = 32;
constexpr int kMaxRegionDepth = 32;
constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

class Parser {
 public:
  Parser(llvm::StringRef text, llvm::StringRef file_name)
      : cursor_(text, file_name), module_(std::make_unique<Module>()) {}

  absl::StatusOr<std::unique_ptr<Module>> Run() {
    TP_RETURN_IF_ERROR(ParseModule());
    VerifyResult verified = VerifyWithSubject(*module_);
    if (verified.status.ok()) return std::move(module_);
    return cursor_.ErrorAt(PositionOf(verified),
                           std::string(verified.status.message()));
  }

 private:
  // A name a function gave to a value.
  struct Definition {
    Value* value = nullptr;
    const char* position = nullptr;
    bool visible = true;  // false after the region that defined it
  };

  // `%x`, `%0`, `%1#2`: the words before and after the '#'.
  struct ValueName {
    const char* position = nullptr;
    std::string name;
    int64_t result = -1;

    std::string ToString() const {
      return result < 0 ? absl::StrCat("%", name)
                        : absl::StrCat("%", name, "#", result);
    }
    // The name the value keeps: numbers are given anew when printing.
    std::string KeptName() const { return llvm::isDigit(name[0]) ? "" : name; }
  };

  const char* PositionOf(const VerifyResult& verified) const {
    if (verified.op) return positions_.lookup(verified.op);
    if (verified.argument) return positions_.lookup(verified.argument);
    if (verified.function) return positions_.lookup(verified.function);
    if (verified.symbol >= 0) return symbol_positions_[verified.symbol];
    if (verified.guard >= 0) return guard_positions_[verified.guard];
    return rank_position_ ? rank_position_ : start_;
  }

  absl::Status ParseModule() {
    start_ = cursor_.position();
    TP_RETURN_IF_ERROR(cursor_.Expect("tpir"));
    const char* position = cursor_.position();
    TP_ASSIGN_OR_RETURN(int64_t version, cursor_.ReadInteger());
    if (version != 1)
      return cursor_.ErrorAt(
          position, absl::StrCat("version ", version,
                                 " of the text format is "
                                 "not known; this program reads version 1"));
    while (!cursor_.AtEnd()) {
      if (cursor_.Consume("func")) {
        TP_RETURN_IF_ERROR(ParseFunction());
      } else if (!module_->functions().empty()) {
        return cursor_.ErrorExpected("'func' or the end of the file");
      } else if (cursor_.Consume("mesh")) {
        TP_RETURN_IF_ERROR(ParseMesh());
      } else if (cursor_.Consume("rank")) {
        rank_position_ = cursor_.position();
        TP_ASSIGN_OR_RETURN(int64_t rank, cursor_.ReadInteger());
        module_->set_rank(rank);
      } else if (cursor_.Consume("symbol")) {
        TP_RETURN_IF_ERROR(ParseSymbol());
      } else if (cursor_.Consume("guard")) {
        TP_RETURN_IF_ERROR(ParseGuard());
      } else {
        return cursor_.ErrorExpected(
            "'mesh', 'rank', 'symbol', 'guard' or 'func'");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseMesh() {
    const char* position = cursor_.position();
    if (module_->mesh().ndim() > 0)
      return cursor_.Error("a module has one mesh");
    TP_RETURN_IF_ERROR(cursor_.Expect("@m"));
    TP_RETURN_IF_ERROR(cursor_.Expect("="));
    TP_RETURN_IF_ERROR(cursor_.Expect("["));
    std::string axes;
    do {
      TP_ASSIGN_OR_RETURN(std::string name,
                          cursor_.ReadIdentifier("the name of a mesh axis"));
      TP_RETURN_IF_ERROR(cursor_.Expect(":"));
      TP_ASSIGN_OR_RETURN(int64_t size, cursor_.ReadInteger());
      absl::StrAppend(&axes, axes.empty() ? "" : ",", name, "=", size);
    } while (cursor_.Consume(","));
    TP_RETURN_IF_ERROR(cursor_.Expect("]"));
    absl::StatusOr<Mesh> mesh = Mesh::Parse(axes);
    if (!mesh.ok())
      return cursor_.ErrorAt(position, std::string(mesh.status().message()));
    module_->set_mesh(*std::move(mesh));
    return absl::OkStatus();
  }

  absl::Status ParseSymbol() {
    const char* position = cursor_.position();
    SymbolInfo symbol;
    TP_ASSIGN_OR_RETURN(symbol.name,
                        cursor_.ReadIdentifier("the name of a symbol"));
    if (llvm::StringRef(symbol.name).contains('.'))
      return cursor_.ErrorAt(position, "the name of a symbol has no dots");
    for (const SymbolInfo& other : module_->assumptions().symbols())
      if (other.name == symbol.name)
        return cursor_.ErrorAt(position, absl::StrCat("symbol '", symbol.name,
                                                      "' is declared twice"));
    TP_RETURN_IF_ERROR(cursor_.Expect("="));
    TP_ASSIGN_OR_RETURN(symbol.hint, cursor_.ReadInteger());
    if (cursor_.Consume("from")) {
      TP_ASSIGN_OR_RETURN(symbol.input, cursor_.ReadString());
      TP_RETURN_IF_ERROR(cursor_.Expect(":"));
      TP_ASSIGN_OR_RETURN(symbol.dim, cursor_.ReadInteger(kMaxInt));
    }
    module_->assumptions().AddSymbol(std::move(symbol));
    symbol_positions_.push_back(position);
    return absl::OkStatus();
  }

  absl::Status ParseGuard() {
    const char* position = cursor_.position();
    Guard guard;
    TP_ASSIGN_OR_RETURN(guard.lhs, cursor_.ReadSymExpr());
    bool found = false;
    // Longer ones first: "<" is the start of "<=".
    for (Relation relation : {Relation::kEq, Relation::kNe, Relation::kLe,
                              Relation::kGe, Relation::kLt, Relation::kGt}) {
      if (found || !cursor_.Consume(tp::ToString(relation))) continue;
      guard.relation = relation;
      found = true;
    }
    if (!found) return cursor_.ErrorExpected("one of == != < <= > >=");
    TP_ASSIGN_OR_RETURN(guard.rhs, cursor_.ReadSymExpr());
    if (cursor_.Consume("because")) {
      TP_ASSIGN_OR_RETURN(guard.reason, cursor_.ReadString());
    }
    TP_ASSIGN_OR_RETURN(guard.location, ParseLocation());
    module_->assumptions().AddGuard(std::move(guard));
    // An equal one may be there already.
    guard_positions_.resize(module_->assumptions().guards().size(), position);
    return absl::OkStatus();
  }

  absl::StatusOr<Location> ParseLocation() {
    Location location;
    if (!cursor_.Consume("loc")) return location;
    if (cursor_.Peek() == '"') {
      TP_ASSIGN_OR_RETURN(location.file, cursor_.ReadString());
      if (cursor_.Consume(":")) {
        TP_ASSIGN_OR_RETURN(location.line, cursor_.ReadInteger(kMaxInt));
        if (cursor_.Consume(":")) {
          TP_ASSIGN_OR_RETURN(location.column, cursor_.ReadInteger(kMaxInt));
        }
      }
    }
    if (cursor_.Consume("in")) {
      TP_ASSIGN_OR_RETURN(location.module_path, cursor_.ReadString());
    }
    if (location.empty())
      return cursor_.ErrorExpected("a file name or 'in' after 'loc'");
    return location;
  }

  absl::Status ParseFunction() {
    const char* position = cursor_.position();
    TP_RETURN_IF_ERROR(cursor_.Expect("@"));
    TP_ASSIGN_OR_RETURN(std::string name,
                        cursor_.ReadIdentifier("the name of a function"));
    Function* function = module_->AddFunction(name);
    positions_[function] = position;
    names_.clear();
    TP_RETURN_IF_ERROR(cursor_.Expect("("));
    if (!cursor_.Consume(")")) {
      do {
        TP_RETURN_IF_ERROR(ParseArgument(*function));
      } while (cursor_.Consume(","));
      TP_RETURN_IF_ERROR(cursor_.Expect(")"));
    }
    TP_RETURN_IF_ERROR(cursor_.Expect("->"));
    std::vector<TensorType> results;
    TP_RETURN_IF_ERROR(ParseResultTypes(*function, results));
    TP_RETURN_IF_ERROR(cursor_.Expect("{"));
    const char* returns = nullptr;
    TP_RETURN_IF_ERROR(ParseBody(function->body(), "return", 0, returns));
    return CheckResultTypes(*function, results, returns);
  }

  absl::Status ParseResultTypes(Function& function,
                                std::vector<TensorType>& types) {
    const bool several = cursor_.Consume("(");
    if (several && cursor_.Consume(")")) return absl::OkStatus();
    do {
      TP_ASSIGN_OR_RETURN(TensorType type, ParseTensorType());
      const bool carried = cursor_.Consume("to");
      if (carried || cursor_.Consume("state")) {
        // Only arguments are defined so far.
        TP_ASSIGN_OR_RETURN(Value * argument, ParseValue());
        function.SetResultInfo(types.size(), {argument->index(), carried});
      } else if (cursor_.Consume("feeds")) {
        ResultInfo info;
        TP_RETURN_IF_ERROR(cursor_.Expect("@"));
        TP_ASSIGN_OR_RETURN(info.feeds_function,
                            cursor_.ReadIdentifier("the name of a function"));
        TP_ASSIGN_OR_RETURN(info.feeds_input, cursor_.ReadString());
        function.SetResultInfo(types.size(), info);
      }
      types.push_back(std::move(type));
    } while (several && cursor_.Consume(","));
    return several ? cursor_.Expect(")") : absl::OkStatus();
  }

  absl::Status CheckResultTypes(const Function& function,
                                llvm::ArrayRef<TensorType> declared,
                                const char* position) {
    llvm::ArrayRef<Value*> results = function.body().results();
    if (results.size() != declared.size())
      return cursor_.ErrorAt(
          position,
          absl::StrCat("@", function.name(), " returns ", results.size(),
                       " values, but declares ", declared.size()));
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i]->type() != declared[i])
        return cursor_.ErrorAt(
            position,
            absl::StrCat("@", function.name(), " returns ",
                         tp::ToString(results[i]->type()), " as result ", i,
                         ", but declares ", tp::ToString(declared[i])));
    return absl::OkStatus();
  }

  absl::Status ParseArgument(Function& function) {
    TP_ASSIGN_OR_RETURN(ValueName name, ParseValueName());
    TP_RETURN_IF_ERROR(cursor_.Expect(":"));
    TensorType type;
    ShardingSpec spec;
    TP_RETURN_IF_ERROR(ParseType(type, spec));
    ArgumentInfo info;
    info.name = name.KeptName();
    for (const auto& [word, kind] :
         {std::pair("input", ArgumentKind::kInput),
          std::pair("param", ArgumentKind::kParameter),
          std::pair("buffer", ArgumentKind::kBuffer),
          std::pair("const", ArgumentKind::kConstant)}) {
      if (!cursor_.Consume(word)) continue;
      info.kind = kind;
      TP_ASSIGN_OR_RETURN(info.name, cursor_.ReadString());
      break;
    }
    info.frozen = cursor_.Consume("frozen");
    info.fed = cursor_.Consume("fed");
    while (cursor_.Consume("alias")) {
      TP_ASSIGN_OR_RETURN(std::string alias, cursor_.ReadString());
      info.aliases.push_back(std::move(alias));
    }
    Value* value = function.AddArgument(std::move(type), std::move(info));
    value->set_spec(std::move(spec));
    value->set_name(name.KeptName());
    return Define(name, value);
  }

  // Ops, then the values after `terminator`, then "}". `terminator_position`
  // is set to where those values are named.
  absl::Status ParseBody(Block& block, llvm::StringRef terminator, int depth,
                         const char*& terminator_position) {
    while (true) {
      terminator_position = cursor_.position();
      if (cursor_.Consume(terminator)) break;
      if (cursor_.Peek() != '%' && cursor_.PeekIdentifier().empty())
        return cursor_.ErrorExpected(
            absl::StrCat("an op or '", terminator.str(), "'"));
      TP_RETURN_IF_ERROR(ParseOp(block, depth));
    }
    if (cursor_.Peek() == '%') {
      do {
        TP_ASSIGN_OR_RETURN(Value * value, ParseValue());
        block.results().push_back(value);
      } while (cursor_.Consume(","));
    }
    return cursor_.Expect("}");
  }

  absl::Status ParseOp(Block& block, int depth) {
    ValueName name;
    int64_t named_results = 0;
    if (cursor_.Peek() == '%') {
      TP_ASSIGN_OR_RETURN(name, ParseValueName());
      if (name.result >= 0)
        return cursor_.ErrorAt(name.position,
                               "several results are defined together, as in "
                               "%x:2 = ...");
      named_results = 1;
      if (cursor_.Consume(":")) {
        TP_ASSIGN_OR_RETURN(named_results, cursor_.ReadInteger(kMaxInt));
      }
      TP_RETURN_IF_ERROR(cursor_.Expect("="));
    }
    const char* position = cursor_.position();
    TP_ASSIGN_OR_RETURN(std::string op_name,
                        cursor_.ReadIdentifier("the name of an op"));
    auto op = std::make_unique<Op>(std::move(op_name), Location());
    positions_[op.get()] = position;
    TP_RETURN_IF_ERROR(ParseOperands(*op));
    if (cursor_.Peek() == '{' && !AtRegion())
      TP_RETURN_IF_ERROR(ParseAttributes(*op));
    while (AtRegion()) TP_RETURN_IF_ERROR(ParseRegion(*op, depth + 1));
    TP_RETURN_IF_ERROR(ParseResults(*op, named_results));
    TP_ASSIGN_OR_RETURN(Location location, ParseLocation());
    op->set_location(std::move(location));
    TP_RETURN_IF_ERROR(DefineResults(name, *op));
    block.Append(std::move(op));
    return absl::OkStatus();
  }

  absl::Status ParseOperands(Op& op) {
    TP_RETURN_IF_ERROR(cursor_.Expect("("));
    if (cursor_.Consume(")")) return absl::OkStatus();
    do {
      if (cursor_.Consume("[")) {
        std::vector<Value*> values;
        if (!cursor_.Consume("]")) {
          do {
            TP_ASSIGN_OR_RETURN(Value * value, ParseOperand());
            values.push_back(value);
          } while (cursor_.Consume(","));
          TP_RETURN_IF_ERROR(cursor_.Expect("]"));
        }
        op.AddOperandList(values);
      } else {
        TP_ASSIGN_OR_RETURN(Value * value, ParseOperand());
        op.AddOperand(value);
      }
    } while (cursor_.Consume(","));
    return cursor_.Expect(")");
  }

  // Null for "none".
  absl::StatusOr<Value*> ParseOperand() {
    if (cursor_.Consume("none")) return nullptr;
    if (cursor_.Peek() != '%')
      return cursor_.ErrorExpected("a value, 'none' or a list of them");
    return ParseValue();
  }

  absl::Status ParseAttributes(Op& op) {
    TP_RETURN_IF_ERROR(cursor_.Expect("{"));
    if (cursor_.Consume("}")) return absl::OkStatus();
    do {
      const char* position = cursor_.position();
      TP_ASSIGN_OR_RETURN(std::string name,
                          cursor_.ReadIdentifier("the name of an attribute"));
      if (op.attribute(name) != nullptr)
        return cursor_.ErrorAt(
            position, absl::StrCat("attribute '", name, "' is given twice"));
      TP_RETURN_IF_ERROR(cursor_.Expect("="));
      TP_ASSIGN_OR_RETURN(Attribute value, ParseAttribute(0));
      op.SetAttribute(name, std::move(value));
    } while (cursor_.Consume(","));
    return cursor_.Expect("}");
  }

  absl::StatusOr<Attribute> ParseAttribute(int depth) {
    if (cursor_.Peek() == '"') return cursor_.ReadString();
    if (cursor_.PeekFloat()) return cursor_.ReadFloat();
    if (cursor_.Consume("none")) return Attribute();
    if (cursor_.Consume("true")) return Attribute(true);
    if (cursor_.Consume("false")) return Attribute(false);
    if (std::optional<DType> dtype =
            ParseDType(std::string_view(cursor_.PeekIdentifier()))) {
      cursor_.Skip(cursor_.PeekIdentifier().size());
      return Attribute(*dtype);
    }
    if (cursor_.Peek() != '[') return cursor_.ReadSymExpr();
    if (depth >= kMaxListDepth)
      return cursor_.Error("lists are nested too deeply");
    cursor_.Skip(1);
    Attribute::List list;
    if (cursor_.Consume("]")) return Attribute(std::move(list));
    do {
      TP_ASSIGN_OR_RETURN(Attribute element, ParseAttribute(depth + 1));
      list.push_back(std::move(element));
    } while (cursor_.Consume(","));
    TP_RETURN_IF_ERROR(cursor_.Expect("]"));
    return Attribute(std::move(list));
  }

  // A region's brace is followed by the '^' of its arguments.
  bool AtRegion() {
    return cursor_.Peek() == '{' &&
           cursor_.Rest().drop_front(1).ltrim().starts_with("^");
  }

  absl::Status ParseRegion(Op& op, int depth) {
    if (depth > kMaxRegionDepth)
      return cursor_.Error("regions are nested too deeply");
    TP_RETURN_IF_ERROR(cursor_.Expect("{"));
    TP_RETURN_IF_ERROR(cursor_.Expect("^"));
    TP_RETURN_IF_ERROR(cursor_.Expect("("));
    Block* region = op.AddRegion();
    std::vector<std::string>* outer = region_names_;
    std::vector<std::string> names;
    region_names_ = &names;
    if (!cursor_.Consume(")")) {
      do {
        TP_ASSIGN_OR_RETURN(ValueName name, ParseValueName());
        TP_RETURN_IF_ERROR(cursor_.Expect(":"));
        TensorType type;
        ShardingSpec spec;
        TP_RETURN_IF_ERROR(ParseType(type, spec));
        Value* value = region->AddArgument(std::move(type));
        value->set_spec(std::move(spec));
        value->set_name(name.KeptName());
        TP_RETURN_IF_ERROR(Define(name, value));
      } while (cursor_.Consume(","));
      TP_RETURN_IF_ERROR(cursor_.Expect(")"));
    }
    const char* yields = nullptr;
    TP_RETURN_IF_ERROR(ParseBody(*region, "yield", depth, yields));
    for (const std::string& name : names) names_[name].visible = false;
    region_names_ = outer;
    return absl::OkStatus();
  }

  absl::Status ParseResults(Op& op, int64_t named_results) {
    const char* position = cursor_.position();
    if (cursor_.Consume(":")) {
      do {
        TensorType type;
        ShardingSpec spec;
        TP_RETURN_IF_ERROR(ParseType(type, spec));
        op.AddResult(std::move(type))->set_spec(std::move(spec));
      } while (cursor_.Consume(","));
    }
    if (op.num_results() == named_results) return absl::OkStatus();
    return cursor_.ErrorAt(
        position, absl::StrCat("this op names ", named_results,
                               named_results == 1 ? " result" : " results",
                               " before '=', but has ", op.num_results(),
                               op.num_results() == 1 ? " type" : " types"));
  }

  absl::Status DefineResults(ValueName name, Op& op) {
    if (op.num_results() == 0) return absl::OkStatus();
    op.result()->set_name(name.KeptName());
    if (op.num_results() == 1) return Define(name, op.result());
    // The group's name is taken too, so that %x and %x#0 never differ.
    TP_RETURN_IF_ERROR(Define(name, nullptr));
    for (name.result = 0; name.result < op.num_results(); ++name.result)
      TP_RETURN_IF_ERROR(
          Define(name, op.result(static_cast<int>(name.result))));
    return absl::OkStatus();
  }

  absl::Status ParseType(TensorType& type, ShardingSpec& spec) {
    TP_ASSIGN_OR_RETURN(type, ParseTensorType());
    if (cursor_.Peek() != '<') return absl::OkStatus();
    return ParseSpec(type, spec);
  }

  absl::StatusOr<TensorType> ParseTensorType() {
    std::optional<DType> dtype =
        ParseDType(std::string_view(cursor_.PeekIdentifier()));
    if (!dtype) return cursor_.ErrorExpected("a type, as f32[batch,96]");
    cursor_.Skip(cursor_.PeekIdentifier().size());
    TensorType type{*dtype, {}};
    TP_RETURN_IF_ERROR(cursor_.Expect("["));
    if (cursor_.Consume("]")) return type;
    do {
      TP_ASSIGN_OR_RETURN(SymExpr size, cursor_.ReadSymExpr());
      type.dims.push_back(std::move(size));
    } while (cursor_.Consume(","));
    TP_RETURN_IF_ERROR(cursor_.Expect("]"));
    return type;
  }

  absl::Status ParseSpec(const TensorType& type, ShardingSpec& spec) {
    const Mesh& mesh = module_->mesh();
    if (mesh.ndim() == 0)
      return cursor_.Error("a placement needs a mesh, and none is declared");
    TP_RETURN_IF_ERROR(cursor_.Expect("<"));
    std::vector<std::optional<Placement>> placements(mesh.ndim());
    do {
      int axis = 0;
      llvm::StringRef word = cursor_.PeekIdentifier();
      if (!word.empty() && cursor_.Peek(word.size()) == ':') {
        axis = mesh.AxisIndex(word);
        if (axis < 0)
          return cursor_.Error(absl::StrCat("the mesh ", mesh.ToString(),
                                            " has no axis '", word.str(), "'"));
        cursor_.Skip(word.size() + 1);
      } else if (mesh.ndim() > 1) {
        return cursor_.Error(absl::StrCat(
            "on the mesh ", mesh.ToString(),
            " every placement names its axis, as in <", mesh.axis(0).name,
            ": R, ", mesh.axis(1).name, ": R>"));
      }
      if (placements[axis])
        return cursor_.Error(absl::StrCat("axis '", mesh.axis(axis).name,
                                          "' has two placements"));
      TP_ASSIGN_OR_RETURN(placements[axis], ParsePlacement(type));
    } while (cursor_.Consume(","));
    TP_RETURN_IF_ERROR(cursor_.Expect(">"));
    for (int axis = 0; axis < mesh.ndim(); ++axis) {
      if (!placements[axis])
        return cursor_.Error(
            absl::StrCat("axis '", mesh.axis(axis).name, "' has no placement"));
      spec.push_back(*std::move(placements[axis]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Placement> ParsePlacement(const TensorType& type) {
    int depth = 0;
    llvm::StringRef text = cursor_.Rest().take_while([&](char c) {
      if (c == '(') ++depth;
      if (c == ')') --depth;
      return c != '\n' && depth >= 0 && (depth > 0 || (c != ',' && c != '>'));
    });
    absl::StatusOr<Placement> placement =
        tp::ParsePlacement(text, WholeDims(text, type));
    if (!placement.ok())
      return cursor_.Error(std::string(placement.status().message()));
    cursor_.Skip(text.size());
    return placement;
  }

  // The dims that the box in a placement is of. In a rank program types are
  // local and boxes global: the split dim is what the box multiplies to.
  Dims WholeDims(llvm::StringRef placement, const TensorType& type) const {
    Dims dims = type.dims;
    auto [head, box] = placement.split(':');
    if (!module_->rank() || box.empty() || !head.consume_front("S("))
      return dims;
    size_t dim = 0;
    if (head.trim().getAsInteger(10, dim) || dim >= dims.size()) return dims;
    std::string product(box.substr(0, box.rfind(')')));
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"x[", "*("},
          {"]x", ")*"},
          {"[", "("},
          {"]", ")"}}) {
      if (size_t at = product.find(from); at != std::string::npos)
        product.replace(at, from.size(), to);
    }
    if (absl::StatusOr<SymExpr> size = SymExpr::Parse(product); size.ok())
      dims[dim] = *size;
    return dims;
  }

  absl::StatusOr<ValueName> ParseValueName() {
    ValueName name;
    name.position = cursor_.position();
    if (cursor_.Peek() != '%') return cursor_.ErrorExpected("a value, as %x");
    const char next = cursor_.Peek(1);
    cursor_.Skip(1);
    if (llvm::isDigit(next)) {
      TP_ASSIGN_OR_RETURN(int64_t number, cursor_.ReadInteger(kMaxInt));
      name.name = absl::StrCat(number);
    } else {
      TP_ASSIGN_OR_RETURN(
          name.name, cursor_.ReadIdentifier("a name or a number after '%'"));
    }
    if (cursor_.Consume("#")) {
      TP_ASSIGN_OR_RETURN(name.result, cursor_.ReadInteger(kMaxInt));
    }
    return name;
  }

  absl::StatusOr<Value*> ParseValue() {
    TP_ASSIGN_OR_RETURN(ValueName name, ParseValueName());
    auto found = names_.find(name.ToString());
    if (found == names_.end())
      return cursor_.ErrorAt(
          name.position,
          absl::StrCat(name.ToString(), " is not defined before this use"));
    if (!found->second.visible)
      return cursor_.ErrorAt(name.position,
                             absl::StrCat(name.ToString(),
                                          " is defined inside a region and "
                                          "not seen outside of it"));
    if (found->second.value == nullptr)
      return cursor_.ErrorAt(
          name.position,
          absl::StrCat(name.ToString(), " has several results; name one, as ",
                       name.ToString(), "#0"));
    return found->second.value;
  }

  absl::Status Define(const ValueName& name, Value* value) {
    const std::string text = name.ToString();
    const bool inserted =
        names_.try_emplace(text, Definition{value, name.position, true}).second;
    if (!inserted)
      return cursor_.ErrorAt(name.position,
                             absl::StrCat(text, " is defined twice"));
    if (value != nullptr) positions_[value] = name.position;
    if (region_names_ != nullptr) region_names_->push_back(text);
    return absl::OkStatus();
  }

  Cursor cursor_;
  std::unique_ptr<Module> module_;
  const char* start_ = nullptr;
  llvm::StringMap<Definition> names_;  // of the function being read
  // Names the innermost region defines; null outside of regions.
  std::vector<std::string>* region_names_ = nullptr;
  // Where ops, values and functions are in the text.
  llvm::DenseMap<const void*, const char*> positions_;
  std::vector<const char*> symbol_positions_;
  std::vector<const char*> guard_positions_;
  const char* rank_position_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> Parse(llvm::StringRef text,
                                              llvm::StringRef file_name) {
  return Parser(text, file_name).Run();
}

}  // namespace tp
