#include <string>

#include "absl/strings/str_cat.h"
#include "ir/text.h"
#include "ir/tokens.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace tp {
namespace {

// "%x", "%0" or "%1#2" for every value of a function.
class ValueNames {
 public:
  explicit ValueNames(const Function& function) { AddBlock(function.body()); }

  std::string operator()(const Value* value) const {
    if (value == nullptr) return "none";
    auto found = names_.find(value);
    return found == names_.end() ? "%<undefined>" : found->second;
  }

 private:
  void AddBlock(const Block& block) {
    for (const std::unique_ptr<Value>& argument : block.arguments())
      names_[argument.get()] = Unique(argument->name());
    for (const std::unique_ptr<Op>& op : block.ops()) {
      AddResults(*op);  // first: they stand in front of the regions
      for (const std::unique_ptr<Block>& region : op->regions())
        AddBlock(*region);
    }
  }

  void AddResults(const Op& op) {
    if (op.num_results() == 0) return;
    const std::string name = Unique(op.result()->name());
    if (op.num_results() == 1) names_[op.result()] = name;
    for (int i = 0; op.num_results() > 1 && i < op.num_results(); ++i)
      names_[op.result(i)] = absl::StrCat(name, "#", i);
  }

  std::string Unique(llvm::StringRef wanted) {
    if (wanted.empty()) return absl::StrCat("%", next_number_++);
    // Names of digits are those of numbered values.
    std::string base = llvm::isDigit(wanted[0]) ? "_" : "";
    for (char c : wanted) {
      const bool valid = llvm::isAlnum(c) || c == '_' || c == '.';
      base += valid ? c : '_';
    }
    if (base[0] == '.') base[0] = '_';
    std::string name = base;
    // A suffix may itself be taken, by a value of that very name.
    while (!used_.try_emplace(name, 0).second)
      name = absl::StrCat(base, "_", ++used_[base]);
    return absl::StrCat("%", name);
  }

  llvm::DenseMap<const Value*, std::string> names_;
  llvm::StringMap<int> used_;  // name -> suffixes tried
  int next_number_ = 0;
};

std::string LocationText(const Location& location) {
  if (location.empty()) return "";
  std::string text = " loc";
  if (!location.file.empty()) {
    absl::StrAppend(&text, " ", Quote(location.file));
    if (location.line > 0) {
      absl::StrAppend(&text, ":", location.line);
      if (location.column > 0) absl::StrAppend(&text, ":", location.column);
    }
  }
  if (!location.module_path.empty())
    absl::StrAppend(&text, " in ", Quote(location.module_path));
  return text;
}

// A plain shard of a rank program says how long the whole dim is: the type is
// local.
std::string PlacementText(const Placement& placement, const TensorType& type) {
  if (placement.is_shard() && placement.factor().left == SymExpr(1) &&
      placement.factor().right == SymExpr(1) && placement.dim() < type.ndim() &&
      !(type.dims[placement.dim()] == placement.factor().size))
    return absl::StrCat("S(", placement.dim(), ":[",
                        placement.factor().size.ToString(), "])");
  return placement.ToString();
}

// " <S(0)>", " <dp: S(0), tp: R>", or "" while undecided.
std::string SpecText(const Value& value, const Mesh& mesh) {
  const llvm::ArrayRef<Placement> spec = value.spec();
  if (spec.empty()) return "";
  const bool named =
      spec.size() > 1 && static_cast<int>(spec.size()) == mesh.ndim();
  std::string text = " <";
  for (size_t axis = 0; axis < spec.size(); ++axis)
    absl::StrAppend(&text, axis == 0 ? "" : ", ",
                    named ? absl::StrCat(mesh.axis(axis).name, ": ") : "",
                    PlacementText(spec[axis], value.type()));
  return text + ">";
}

std::string TypeText(const Value& value, const Mesh& mesh) {
  return absl::StrCat(ToString(value.type()), SpecText(value, mesh));
}

std::string AttributesText(const Op& op) {
  if (op.attributes().empty()) return "";
  std::string text = " {";
  llvm::interleave(
      op.attributes(),
      [&](const NamedAttribute& attribute) {
        absl::StrAppend(&text, attribute.name, " = ",
                        attribute.value.ToString());
      },
      [&] { text += ", "; });
  return text + "}";
}

// "aten.cat([%a, none], %b) {dim = 1}"; `name` writes an operand.
template <typename NameFn>
std::string CallText(const Op& op, NameFn name) {
  std::string text = absl::StrCat(op.name(), "(");
  auto comma = [&] { text += ", "; };
  auto operand = [&](const Value* value) { text += name(value); };
  llvm::interleave(
      op.slots(),
      [&](const OperandSlot& slot) {
        if (slot.is_list) text += "[";
        llvm::interleave(op.operands().slice(slot.begin, slot.size), operand,
                         comma);
        if (slot.is_list) text += "]";
      },
      comma);
  return absl::StrCat(text, ")", AttributesText(op));
}

std::string ResultTypesText(const Op& op, const Mesh& mesh) {
  std::string text;
  for (int i = 0; i < op.num_results(); ++i)
    absl::StrAppend(&text, i == 0 ? " : " : ", ",
                    TypeText(*op.result(i), mesh));
  return text;
}

class FunctionPrinter {
 public:
  FunctionPrinter(const Module& module, const Function& function,
                  std::string& out)
      : mesh_(module.mesh()),
        function_(function),
        names_(function),
        out_(out) {}

  void Print() {
    PrintHeader();
    out_ += " {\n";
    PrintBody(function_.body(), "return", 2);
    out_ += "}\n";
  }

 private:
  // One argument a line where they are many or long (weights are).
  void PrintHeader() {
    const std::vector<ArgumentInfo>& infos = function_.arguments();
    const bool lines =
        infos.size() > 3 || llvm::any_of(infos, [](const ArgumentInfo& info) {
          return info.is_weight();
        });
    absl::StrAppend(&out_, "func @", function_.name(), "(");
    for (size_t i = 0; i < infos.size(); ++i) {
      if (i > 0) out_ += ",";
      out_ += lines ? "\n    " : i > 0 ? " " : "";
      PrintArgument(*function_.body().arguments()[i], infos[i]);
    }
    out_ += ") -> ";
    llvm::ArrayRef<Value*> results = function_.body().results();
    if (results.size() != 1) out_ += "(";
    for (size_t i = 0; i < results.size(); ++i) {
      absl::StrAppend(&out_, i > 0 ? ", " : "", ToString(results[i]->type()));
      const ResultInfo info = function_.result_info(i);
      if (info.feeds())
        absl::StrAppend(&out_, " feeds @", info.feeds_function, " ",
                        Quote(info.feeds_input));
      if (info.argument < 0) continue;
      absl::StrAppend(
          &out_, info.is_output ? " to " : " state ",
          names_(function_.body().arguments()[info.argument].get()));
    }
    if (results.size() != 1) out_ += ")";
  }

  void PrintArgument(const Value& value, const ArgumentInfo& info) {
    const std::string name = names_(&value);
    absl::StrAppend(&out_, name, ": ", TypeText(value, mesh_));
    switch (info.kind) {
      case ArgumentKind::kInput: {
        // The parser takes the value's name where none is given.
        const std::string implied = value.name().empty() ? "" : name.substr(1);
        if (info.name != implied)
          absl::StrAppend(&out_, " input ", Quote(info.name));
        break;
      }
      case ArgumentKind::kParameter:
        absl::StrAppend(&out_, " param ", Quote(info.name));
        break;
      case ArgumentKind::kBuffer:
        absl::StrAppend(&out_, " buffer ", Quote(info.name));
        break;
      case ArgumentKind::kConstant:
        absl::StrAppend(&out_, " const ", Quote(info.name));
        break;
    }
    if (info.frozen) absl::StrAppend(&out_, " frozen");
    if (info.fed) absl::StrAppend(&out_, " fed");
    for (const std::string& alias : info.aliases)
      absl::StrAppend(&out_, " alias ", Quote(alias));
  }

  void PrintBody(const Block& block, llvm::StringRef terminator, int indent) {
    for (const std::unique_ptr<Op>& op : block.ops()) PrintOp(*op, indent);
    out_.append(indent, ' ');
    out_ += terminator;
    for (size_t i = 0; i < block.results().size(); ++i)
      absl::StrAppend(&out_, i > 0 ? ", " : " ", names_(block.results()[i]));
    out_ += "\n";
  }

  void PrintOp(const Op& op, int indent) {
    out_.append(indent, ' ');
    if (op.num_results() > 0) {
      const std::string name = names_(op.result());
      out_ += name.substr(0, name.find('#'));
      if (op.num_results() > 1) absl::StrAppend(&out_, ":", op.num_results());
      out_ += " = ";
    }
    out_ += CallText(op, names_);
    for (const std::unique_ptr<Block>& region : op.regions())
      PrintRegion(*region, indent);
    absl::StrAppend(&out_, ResultTypesText(op, mesh_));
    std::string location = LocationText(op.location());
    if (!location.empty()) absl::StrAppend(&out_, " ", location);
    out_ += "\n";
  }

  void PrintRegion(const Block& region, int indent) {
    out_ += " { ^(";
    for (size_t i = 0; i < region.arguments().size(); ++i) {
      const Value& argument = *region.arguments()[i];
      absl::StrAppend(&out_, i > 0 ? ", " : "", names_(&argument), ": ",
                      TypeText(argument, mesh_));
    }
    out_ += ")\n";
    PrintBody(region, "yield", indent + 2);
    out_.append(indent, ' ');
    out_ += "}";
  }

  const Mesh& mesh_;
  const Function& function_;
  ValueNames names_;
  std::string& out_;
};

void PrintAssumptions(const Assumptions& assumptions, std::string& out) {
  for (const SymbolInfo& symbol : assumptions.symbols()) {
    absl::StrAppend(&out, "symbol ", symbol.name, " = ", symbol.hint);
    if (!symbol.input.empty())
      absl::StrAppend(&out, " from ", Quote(symbol.input), ":", symbol.dim);
    out += "\n";
  }
  for (const Guard& guard : assumptions.guards()) {
    absl::StrAppend(&out, "guard ", guard.ToString());
    if (!guard.reason.empty())
      absl::StrAppend(&out, " because ", Quote(guard.reason));
    absl::StrAppend(&out, LocationText(guard.location), "\n");
  }
}

}  // namespace

std::string Print(const Module& module) {
  std::string out = "tpir 1\n";
  if (module.mesh().ndim() > 0)
    absl::StrAppend(&out, "mesh @m = ", module.mesh().ToString(), "\n");
  if (module.rank()) absl::StrAppend(&out, "rank ", *module.rank(), "\n");
  PrintAssumptions(module.assumptions(), out);
  for (size_t i = 0; i < module.functions().size(); ++i) {
    if (i > 0) out += "\n";
    FunctionPrinter(module, *module.functions()[i], out).Print();
  }
  return out;
}

std::string Print(const Op& op) {
  // Without its function a value has only the name it prefers; the types say
  // more than a number would.
  auto name = [](const Value* value) -> std::string {
    if (value == nullptr) return "none";
    return absl::StrCat("%", value->name().empty() ? "?" : value->name(), ": ",
                        TypeText(*value, Mesh()));
  };
  std::string text =
      absl::StrCat(CallText(op, name), ResultTypesText(op, Mesh()));
  std::string location = LocationText(op.location());
  if (!location.empty()) absl::StrAppend(&text, " ", location);
  return text;
}

}  // namespace tp
