#include "ir/weights_by_name.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "llvm/ADT/StringSet.h"

namespace tp {
namespace {

constexpr size_t kShownProblems = 8;

std::string Shape(DType dtype, llvm::ArrayRef<int64_t> sizes) {
  return absl::StrCat(std::string(Name(dtype)), "[", absl::StrJoin(sizes, ","),
                      "]");
}

// Problems of one kind, the first ones in full.
class Problems {
 public:
  explicit Problems(std::string title) : title_(std::move(title)) {}
  void Add(std::string problem) {
    if (shown_.size() < kShownProblems) shown_.push_back(std::move(problem));
    ++count_;
  }
  void AppendTo(std::string& text) const {
    if (count_ == 0) return;
    absl::StrAppend(&text, text.empty() ? "" : "; ", count_, " ", title_, ": ",
                    absl::StrJoin(shown_, ", "),
                    count_ > shown_.size() ? ", ..." : "");
  }

 private:
  std::string title_;
  std::vector<std::string> shown_;
  size_t count_ = 0;
};

absl::StatusOr<bool> SameBytes(const WeightSource& source, const WeightInfo& a,
                               const WeightInfo& b) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) return false;
  TP_ASSIGN_OR_RETURN(Bytes x, source.View(a));
  TP_ASSIGN_OR_RETURN(Bytes y, source.View(b));
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0);
}

std::vector<std::string> NamesOf(const ArgumentInfo& info) {
  std::vector<std::string> names = {info.name};
  names.insert(names.end(), info.aliases.begin(), info.aliases.end());
  return names;
}

// A prefix that one side has and the other has not, as a hint.
std::string PrefixHint(const Function& function, const WeightSource& given) {
  for (const ArgumentInfo& info : function.arguments()) {
    if (info.kind != ArgumentKind::kParameter) continue;
    for (const WeightInfo& weight : given.weights()) {
      const llvm::StringRef ours = info.name, theirs = weight.name;
      if (ours != theirs && ours.ends_with("." + theirs.str()))
        return absl::StrCat("; the model's names begin with \"",
                            ours.drop_back(theirs.size()).str(),
                            "\", those given do not");
      if (ours != theirs && theirs.ends_with("." + ours.str()))
        return absl::StrCat("; the names given begin with \"",
                            theirs.drop_back(ours.size()).str(),
                            "\", the model's do not");
    }
  }
  return "";
}

class ReplacedWeights : public WeightSource {
 public:
  ReplacedWeights(std::shared_ptr<const WeightSource> model,
                  std::shared_ptr<const WeightSource> given)
      : model_(std::move(model)), given_(std::move(given)) {}

  void Replace(const std::string& name, const WeightInfo& weight) {
    WeightInfo renamed = weight;
    renamed.name = name;
    given_names_[name] = weight.name;
    Add(std::move(renamed));
  }
  void Keep(const WeightInfo& weight) { Add(weight); }

  absl::StatusOr<Bytes> View(const WeightInfo& weight) const override {
    auto given = given_names_.find(weight.name);
    if (given == given_names_.end()) return model_->View(weight);
    TP_ASSIGN_OR_RETURN(const WeightInfo* info, given_->Get(given->second));
    return given_->View(*info);
  }

 private:
  std::shared_ptr<const WeightSource> model_;
  std::shared_ptr<const WeightSource> given_;
  llvm::StringMap<std::string> given_names_;
};

}  // namespace

absl::StatusOr<llvm::SmallVector<int64_t, 4>> WholeSizes(const Value& weight) {
  Dims dims = weight.type().dims;
  for (const Placement& placement : weight.spec())
    if (placement.is_shard() && placement.dim() < static_cast<int>(dims.size()))
      dims[placement.dim()] = placement.factor().dim_size();
  llvm::SmallVector<int64_t, 4> sizes;
  for (const SymExpr& dim : dims) {
    const std::optional<int64_t> size = dim.AsConstant();
    if (!size)
      return absl::InvalidArgumentError(
          absl::StrCat("a weight has the symbolic size ", dim.ToString()));
    sizes.push_back(*size);
  }
  return sizes;
}

absl::StatusOr<MatchedWeights> MatchWeights(const Function& function,
                                            const WeightSource& given,
                                            const MatchOptions& options) {
  MatchedWeights matched;
  matched.weights.resize(function.arguments().size());
  llvm::StringSet<> known;
  for (const std::string& name : options.known) known.insert(name);
  Problems missing("missing"), wrong("of another shape or dtype"),
      untied("tied, but with different values");
  for (size_t i = 0; i < function.arguments().size(); ++i) {
    const ArgumentInfo& info = function.arguments()[i];
    if (!info.is_weight()) continue;
    const WeightInfo*& found = matched.weights[i];
    for (const std::string& name : NamesOf(info)) {
      known.insert(name);
      // Constants of the code have no name that others know.
      if (info.kind == ArgumentKind::kConstant) continue;
      const WeightInfo* weight = given.Find(name);
      if (weight == nullptr) continue;
      if (found == nullptr) {
        found = weight;
        continue;
      }
      TP_ASSIGN_OR_RETURN(bool same, SameBytes(given, *found, *weight));
      if (!same) untied.Add(absl::StrCat(found->name, " and ", name));
    }
    if (found == nullptr) {
      if (info.kind == ArgumentKind::kParameter)
        missing.Add(info.name);
      else if (info.kind == ArgumentKind::kBuffer)
        matched.kept.push_back(info.name);
      continue;
    }
    const Value& value = *function.body().arguments()[i];
    TP_ASSIGN_OR_RETURN(const auto sizes, WholeSizes(value));
    if (found->dtype != value.type().dtype || found->sizes != sizes)
      wrong.Add(absl::StrCat(found->name, " is ",
                             Shape(found->dtype, found->sizes), ", not ",
                             Shape(value.type().dtype, sizes)));
  }
  Problems unexpected("that the model has not");
  if (!options.allow_unexpected)
    for (const WeightInfo& weight : given.weights())
      if (!known.contains(weight.name)) unexpected.Add(weight.name);
  std::string text;
  missing.AppendTo(text);
  const bool hint = !text.empty();
  unexpected.AppendTo(text);
  wrong.AppendTo(text);
  untied.AppendTo(text);
  if (text.empty()) return matched;
  return absl::InvalidArgumentError(
      absl::StrCat("the weights do not fit the model: ", text,
                   hint ? PrefixHint(function, given) : ""));
}

absl::StatusOr<std::shared_ptr<const WeightSource>> ReplaceWeights(
    const Function& function, std::shared_ptr<const WeightSource> model,
    std::shared_ptr<const WeightSource> given, std::vector<std::string>* kept) {
  MatchOptions options;
  for (const WeightInfo& weight : model->weights())
    options.known.push_back(weight.name);
  TP_ASSIGN_OR_RETURN(MatchedWeights matched,
                      MatchWeights(function, *given, options));
  auto replaced = std::make_shared<ReplacedWeights>(model, given);
  for (size_t i = 0; i < matched.weights.size(); ++i) {
    const ArgumentInfo& info = function.arguments()[i];
    if (!info.is_weight()) continue;
    if (matched.weights[i] != nullptr) {
      replaced->Replace(info.name, *matched.weights[i]);
      continue;
    }
    TP_ASSIGN_OR_RETURN(const WeightInfo* own, model->Get(info.name));
    replaced->Keep(*own);
  }
  if (kept != nullptr) *kept = std::move(matched.kept);
  return replaced;
}

}  // namespace tp
