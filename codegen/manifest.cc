#include "codegen/manifest.h"

#include <set>

#include "ir/package_manifest.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace tp {
namespace {

using llvm::json::Array;
using llvm::json::Object;

Array DimsJson(const TensorType& type) {
  Array dims;
  for (const SymExpr& dim : type.dims) dims.push_back(dim.ToString());
  return dims;
}

Object TensorJson(std::string name, const TensorType& type) {
  return Object{{"name", std::move(name)},
                {"dtype", std::string(Name(type.dtype))},
                {"dims", DimsJson(type)}};
}

Object EntryJson(const Function& function) {
  Array inputs;
  for (size_t i = 0; i < function.arguments().size(); ++i)
    if (!function.arguments()[i].is_weight())
      inputs.push_back(TensorJson(function.arguments()[i].name,
                                  function.body().arguments()[i]->type()));
  Array outputs;
  Array state;
  int index = 0;
  for (size_t i = 0; i < function.body().results().size(); ++i) {
    const ResultInfo info = function.result_info(i);
    const TensorType& type = function.body().results()[i]->type();
    std::string becomes;
    if (info.argument >= 0) becomes = function.arguments()[info.argument].name;
    if (!info.is_output) {
      state.push_back(TensorJson(std::move(becomes), type));
      continue;
    }
    Object output = TensorJson("output_" + std::to_string(index++), type);
    if (info.argument >= 0) output["becomes"] = std::move(becomes);
    if (info.feeds())
      output["feeds"] =
          Object{{"entry", info.feeds_function}, {"input", info.feeds_input}};
    outputs.push_back(std::move(output));
  }
  Object entry{{"name", function.name()},
               {"inputs", std::move(inputs)},
               {"outputs", std::move(outputs)}};
  // What a call leaves for the next one besides its outputs.
  if (!state.empty()) entry["state"] = std::move(state);
  return entry;
}

Array SymbolsJson(const Assumptions& assumptions) {
  Array symbols;
  for (const SymbolInfo& symbol : assumptions.symbols())
    symbols.push_back(Object{{"name", symbol.name},
                             {"hint", symbol.hint},
                             {"input", symbol.input},
                             {"dim", symbol.dim}});
  return symbols;
}

Array GuardsJson(const Assumptions& assumptions) {
  Array guards;
  for (const Guard& guard : assumptions.guards())
    guards.push_back(Object{{"lhs", guard.lhs.ToString()},
                            {"relation", ToString(guard.relation)},
                            {"rhs", guard.rhs.ToString()},
                            {"reason", guard.reason},
                            {"where", ToString(guard.location)}});
  return guards;
}

template <typename Range>
Array Strings(const Range& range) {
  Array strings;
  for (const std::string& text : range) strings.push_back(text);
  return strings;
}

Array ArgumentsJson(const std::vector<ModelArgument>& arguments) {
  Array list;
  for (const ModelArgument& argument : arguments) {
    Object object{{"name", argument.name}};
    if (argument.kind == ModelArgument::Kind::kScalar)
      object["value"] = argument.value;
    if (argument.kind == ModelArgument::Kind::kAbsent) object["absent"] = true;
    list.push_back(std::move(object));
  }
  return list;
}

// "lib::op.overload" of every op that is not LibTorch's or ours.
Array CustomOperators(const Module& module) {
  std::set<std::string> names;
  for (const auto& function : module.functions()) {
    for (const auto& op : function->body().ops()) {
      auto [space, rest] = llvm::StringRef(op->name()).split('.');
      if (space != "aten" && space != "tp")
        names.insert(space.str() + "::" + rest.str());
    }
  }
  return Strings(names);
}

}  // namespace

std::string ManifestJson(const Module& planned, const ManifestInfo& info) {
  Array mesh;
  for (const MeshAxis& axis : planned.mesh().axes())
    mesh.push_back(Object{{"name", axis.name}, {"size", axis.size}});
  Array entries;
  for (size_t i = 0; i < planned.functions().size(); ++i) {
    Object entry = EntryJson(*planned.functions()[i]);
    if (info.arguments.size() > 1 && i < info.arguments.size())
      entry["arguments"] = ArgumentsJson(info.arguments[i]);
    entries.push_back(std::move(entry));
  }
  Object files;
  for (const PackageFile& file : info.files) {
    Object entry{{"sha256", file.sha256}, {"bytes", file.bytes}};
    if (!file.checksum.empty()) entry["xxh3_1mib"] = file.checksum;
    files[file.name] = std::move(entry);
  }
  Array ranks;
  for (int64_t bytes : info.rank_weight_bytes)
    ranks.push_back(Object{{"weight_bytes", bytes}});
  Object root{{"format_version", kPackageFormatVersion},
              {"tool_version", info.tool_version},
              {"torch_version", info.torch_version},
              {"model", info.model},
              {"mesh", std::move(mesh)},
              {"entries", std::move(entries)},
              {"arguments", ArgumentsJson(info.arguments.empty()
                                              ? std::vector<ModelArgument>()
                                              : info.arguments[0])},
              {"symbols", SymbolsJson(planned.assumptions())},
              {"guards", GuardsJson(planned.assumptions())},
              {"files", std::move(files)},
              {"schedule_sha256", info.schedule_sha256},
              {"ranks", std::move(ranks)},
              {"notes", Strings(info.notes)}};
  Array operators = CustomOperators(planned);
  if (!operators.empty()) {
    root["operators"] = std::move(operators);
    root["libraries"] = Strings(info.libraries);
  }
  if (info.search) {
    // The same model gives the same package, however long it takes.
    SearchReport report = *info.search;
    report.seconds.reset();
    root["search"] = report.ToJson();
  }
  if (info.generate) root["generate"] = info.generate->ToJson();
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", llvm::json::Value(std::move(root))) << "\n";
  return text;
}

}  // namespace tp
