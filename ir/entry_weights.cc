#include "ir/entry_weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace tp {
namespace {

// Where a weight is used, and where its bytes are.
struct SharedWeight {
  std::vector<std::string> names;  // the first is the weight's
  bool is_parameter = false;
  size_t source = 0;
  const WeightInfo* info = nullptr;
  std::vector<std::pair<Function*, size_t>> uses;  // arguments
};

class SharedWeights : public WeightSource {
 public:
  explicit SharedWeights(
      llvm::ArrayRef<std::shared_ptr<const WeightSource>> sources)
      : sources_(sources.begin(), sources.end()) {}

  void AddShared(const SharedWeight& weight) {
    WeightInfo info = *weight.info;
    info.name = weight.names[0];
    info.storage = absl::StrCat(weight.source, "/", info.storage);
    origin_[info.name] = {weight.source, weight.info};
    Add(std::move(info));
  }

  absl::StatusOr<Bytes> View(const WeightInfo& weight) const override {
    const auto& [source, info] = origin_.find(weight.name)->second;
    return sources_[source]->View(*info);
  }

 private:
  std::vector<std::shared_ptr<const WeightSource>> sources_;
  llvm::StringMap<std::pair<size_t, const WeightInfo*>> origin_;
};

std::string TypeText(const WeightInfo& info) {
  return absl::StrCat(std::string(Name(info.dtype)), "[",
                      absl::StrJoin(info.sizes, ","), "]");
}

// The elements in row-major order; without a copy where they lie so.
absl::StatusOr<Bytes> ElementsOf(const WeightSource& source,
                                 const WeightInfo& info) {
  TP_ASSIGN_OR_RETURN(Bytes storage, source.View(info));
  if (info.IsContiguous() && info.offset == 0 &&
      static_cast<int64_t>(storage.size()) == info.NumBytes())
    return storage;
  auto copy = std::make_shared<std::vector<uint8_t>>(info.NumBytes());
  TP_RETURN_IF_ERROR(CopyBlock(info, storage, WholeBlock(info.sizes),
                               copy->data(), copy->size()));
  return Bytes(copy->data(), copy->size(), copy);
}

absl::StatusOr<bool> SameElements(const WeightSource& a, const WeightInfo& x,
                                  const WeightSource& b, const WeightInfo& y) {
  TP_ASSIGN_OR_RETURN(Bytes left, ElementsOf(a, x));
  TP_ASSIGN_OR_RETURN(Bytes right, ElementsOf(b, y));
  return left.size() == right.size() &&
         (left.empty() ||
          std::memcmp(left.data(), right.data(), left.size()) == 0);
}

class Sharing {
 public:
  Sharing(Module& module,
          llvm::ArrayRef<std::shared_ptr<const WeightSource>> sources)
      : module_(module), sources_(sources) {}

  absl::StatusOr<std::shared_ptr<const WeightSource>> Run() {
    for (size_t f = 0; f < module_.functions().size(); ++f)
      TP_RETURN_IF_ERROR(AddFunction(*module_.functions()[f], f));
    auto shared = std::make_shared<SharedWeights>(sources_);
    for (const SharedWeight& weight : weights_) {
      for (const auto& [function, argument] : weight.uses) {
        ArgumentInfo& info = function->arguments()[argument];
        info.name = weight.names[0];
        info.aliases.assign(weight.names.begin() + 1, weight.names.end());
        if (weight.is_parameter) info.kind = ArgumentKind::kParameter;
      }
      shared->AddShared(weight);
    }
    return std::shared_ptr<const WeightSource>(std::move(shared));
  }

 private:
  absl::Status AddFunction(Function& function, size_t source) {
    for (size_t i = 0; i < function.arguments().size(); ++i) {
      ArgumentInfo& info = function.arguments()[i];
      if (!info.is_weight()) continue;
      TP_ASSIGN_OR_RETURN(const WeightInfo* bytes,
                          sources_[source]->Get(info.name));
      std::vector<std::string> names = {info.name};
      names.insert(names.end(), info.aliases.begin(), info.aliases.end());
      if (info.kind == ArgumentKind::kConstant && source > 0)
        names = {absl::StrCat(function.name(), ".", info.name)};
      size_t index = weights_.size();
      for (const std::string& name : names) {
        auto known = by_name_.find(name);
        if (known == by_name_.end()) continue;
        if (index != weights_.size() && index != known->second)
          return Untied(weights_[index].names[0], name, function);
        index = known->second;
      }
      if (index == weights_.size()) {
        weights_.push_back({{}, false, source, bytes, {}});
      } else {
        TP_RETURN_IF_ERROR(Check(weights_[index], source, *bytes, function));
      }
      SharedWeight& weight = weights_[index];
      weight.is_parameter |= info.kind == ArgumentKind::kParameter;
      weight.uses.push_back({&function, i});
      for (std::string& name : names) {
        if (!by_name_.try_emplace(name, index).second) continue;
        weight.names.push_back(std::move(name));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Check(const SharedWeight& weight, size_t source,
                     const WeightInfo& info, const Function& function) {
    if (weight.uses.back().first == &function)
      return Untied(weight.names[0], info.name, function);
    const std::string entries = absl::StrCat(
        "weight '", weight.names[0], "' of @",
        weight.uses.front().first->name(), " and @", function.name());
    if (weight.info->dtype != info.dtype || weight.info->sizes != info.sizes)
      return absl::InvalidArgumentError(
          absl::StrCat(entries, " has two types, ", TypeText(*weight.info),
                       " and ", TypeText(info),
                       ": the entries of a package are methods of one model"));
    TP_ASSIGN_OR_RETURN(bool same,
                        SameElements(*sources_[weight.source], *weight.info,
                                     *sources_[source], info));
    if (same) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        entries,
        " has two contents: the entries of a package share one set of weights; "
        "export them from the same model, or rename the weight"));
  }

  static absl::Status Untied(const std::string& a, const std::string& b,
                             const Function& function) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", a, "' and '", b,
        "' are one weight in one entry and two in another "
        "(@",
        function.name(), "): export the entries from the same model"));
  }

  Module& module_;
  llvm::ArrayRef<std::shared_ptr<const WeightSource>> sources_;
  std::vector<SharedWeight> weights_;
  llvm::StringMap<size_t> by_name_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const WeightSource>> ShareWeights(
    Module& module,
    llvm::ArrayRef<std::shared_ptr<const WeightSource>> sources) {
  TP_CHECK(sources.size() == module.functions().size(),
           "weights are shared by function");
  return Sharing(module, sources).Run();
}

}  // namespace tp
