#include "ir/value_names.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/op_def.h"
#include "ir/sha256.h"
#include "llvm/ADT/StringRef.h"

namespace tp {
namespace {

// What the compiler inserts after a plan is found.
bool IsInserted(const Op& op) {
  return IsPin(op) || HasTrait(op, kCollective | kBoundary) ||
         op.Is("tp.reshard") || op.Is("tp.broadcast");
}

std::string ShortName(const Op& op) {
  llvm::StringRef name = op.base_name();
  name.consume_front("aten.");
  return name.str();
}

std::string Stem(const Op& op) {
  return absl::StrCat(op.location().module_path, ":", ShortName(op));
}

void AddFunction(const Function& function, const std::string& prefix,
                 std::vector<NamedValue>& named) {
  const auto& arguments = function.body().arguments();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!function.arguments()[i].is_weight())
      named.push_back(
          {absl::StrCat(prefix, "input:", function.arguments()[i].name),
           arguments[i].get(), &function});
  std::map<std::string, int> count;
  ForEachOp(function.body(), [&](const Op& op) {
    if (!IsInserted(op)) ++count[Stem(op)];
  });
  std::map<std::string, int> seen;
  ForEachOp(function.body(), [&](const Op& op) {
    if (IsInserted(op)) return;
    std::string name = Stem(op);
    const int number = ++seen[name];
    if (count[name] > 1) absl::StrAppend(&name, ".", number);
    for (int i = 0; i < op.num_results(); ++i)
      named.push_back(
          {absl::StrCat(prefix, name, i == 0 ? "" : absl::StrCat("/", i)),
           op.result(i), &function});
  });
}

}  // namespace

bool IsPin(const Op& op) {
  return op.Is("aten.alias") && op.attribute(kPinAttribute) != nullptr;
}

bool IsPlanned(const Module& module, const Function& function) {
  return module.function("reduce_gradients") == nullptr ||
         (function.name() != "backward" &&
          function.name() != "reduce_gradients");
}

std::vector<NamedValue> NamedValues(const Module& module) {
  int planned = 0;
  for (const auto& function : module.functions())
    planned += IsPlanned(module, *function);
  std::vector<NamedValue> named;
  for (const auto& function : module.functions())
    if (IsPlanned(module, *function))
      AddFunction(*function,
                  planned > 1 ? absl::StrCat("@", function->name(), " ") : "",
                  named);
  return named;
}

std::string PlanFingerprint(const Module& module) {
  std::string text = module.mesh().ToString() + "\n";
  for (const auto& function : module.functions()) {
    if (!IsPlanned(module, *function)) continue;
    for (size_t i = 0; i < function->arguments().size(); ++i)
      if (function->arguments()[i].is_weight())
        absl::StrAppend(&text, function->arguments()[i].name, " ",
                        ToString(function->body().arguments()[i]->type()),
                        "\n");
  }
  for (const NamedValue& named : NamedValues(module))
    absl::StrAppend(&text, named.name, " ", ToString(named.value->type()),
                    "\n");
  Sha256 hash;
  hash.Update(llvm::StringRef(text));
  return hash.FinishHex();
}

std::string NearNames(const std::string& name, std::vector<std::string> names) {
  // Escapes and wildcards are no part of what was meant.
  std::string meant;
  for (char c : name)
    if (c != '\\' && c != '*' && c != '^' && c != '$') meant += c;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<std::pair<unsigned, std::string>> ranked;
  for (std::string& other : names) {
    // People leave out the first components.
    unsigned best = ~0u;
    if (meant.size() > 2 && llvm::StringRef(other).contains(meant)) best = 1;
    for (llvm::StringRef rest = other; !rest.empty();
         rest = rest.split('.').second)
      best = std::min(best, rest.edit_distance(meant));
    ranked.push_back({best, std::move(other)});
  }
  std::stable_sort(
      ranked.begin(), ranked.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  if (ranked.size() > 3) ranked.resize(3);
  return absl::StrJoin(ranked, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, "\"", entry.second, "\"");
  });
}

}  // namespace tp
