#include "frontend/input_binding.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "frontend/torch_types.h"
#include "ir/status.h"

namespace tp {
namespace {

// One tensor or scalar in the method's arguments, counted depth first.
struct Leaf {
  std::string name;      // the argument's, "" for a part of a nested one
  std::string position;  // "input_0"
  c10::TypePtr type;     // without Optional
  bool optional = false;
  const c10::IValue* otherwise = nullptr;  // the default value
  // One per example, null where it is not given.
  std::vector<const ExampleTensor*> given;

  const std::string& label() const { return name.empty() ? position : name; }
  bool is_tensor() const { return type->kind() == c10::TypeKind::TensorType; }
  bool is_given() const {
    return std::any_of(given.begin(), given.end(),
                       [](const ExampleTensor* t) { return t != nullptr; });
  }
};

bool IsOutput(const ExampleTensor& tensor) {
  return llvm::StringRef(tensor.name).starts_with("output_");
}

class Binding {
 public:
  Binding(const c10::FunctionSchema& schema, const ImportOptions& options,
          ImportContext& context, Function& function, ImportedModel& model)
      : schema_(schema),
        options_(options),
        context_(context),
        function_(function),
        model_(model) {}

  absl::StatusOr<std::vector<AbstractValue>> Run() {
    list_length_ = ListLength();
    model_.example_sizes.assign(options_.examples.size(), SymbolValues());
    for (size_t i = 1; i < schema_.arguments().size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      const auto& otherwise = argument.default_value();
      TP_RETURN_IF_ERROR(AddLeaves(argument.type(), argument.name(),
                                   otherwise ? &*otherwise : nullptr));
    }
    TP_RETURN_IF_ERROR(FindTensors());
    TP_RETURN_IF_ERROR(NameDims());
    std::vector<AbstractValue> values;
    for (size_t i = 1; i < schema_.arguments().size(); ++i) {
      TP_ASSIGN_OR_RETURN(AbstractValue value,
                          Make(schema_.arguments()[i].type()));
      values.push_back(std::move(value));
    }
    return values;
  }

 private:
  // How many tensors are left for an argument that is a list: what the first
  // example has more than all other arguments need.
  int64_t ListLength() const {
    int64_t others = 0;
    for (size_t i = 1; i < schema_.arguments().size(); ++i)
      others += CountTensors(schema_.arguments()[i].type());
    int64_t given = 0;
    if (!options_.examples.empty())
      for (const ExampleTensor& tensor : options_.examples[0])
        given += !IsOutput(tensor);
    return std::max<int64_t>(0, given - others);
  }

  static int64_t CountTensors(const c10::TypePtr& type) {
    if (type->kind() == c10::TypeKind::TensorType) return 1;
    int64_t count = 0;
    if (type->kind() == c10::TypeKind::TupleType)
      for (const c10::TypePtr& element : type->containedTypes())
        count += CountTensors(element);
    return count;
  }

  absl::Status AddLeaves(const c10::TypePtr& type, const std::string& name,
                         const c10::IValue* otherwise) {
    switch (type->kind()) {
      case c10::TypeKind::TupleType:
        for (const c10::TypePtr& element : type->containedTypes())
          TP_RETURN_IF_ERROR(AddLeaves(element, "", nullptr));
        return absl::OkStatus();
      case c10::TypeKind::ListType:
        for (int64_t i = 0; i < list_length_; ++i)
          TP_RETURN_IF_ERROR(AddLeaves(type->containedTypes()[0], "", nullptr));
        return absl::OkStatus();
      case c10::TypeKind::OptionalType: {
        const size_t first = leaves_.size();
        TP_RETURN_IF_ERROR(
            AddLeaves(type->containedTypes()[0], name, otherwise));
        for (size_t i = first; i < leaves_.size(); ++i)
          leaves_[i].optional = true;
        return absl::OkStatus();
      }
      case c10::TypeKind::TensorType:
      case c10::TypeKind::IntType:
      case c10::TypeKind::FloatType:
      case c10::TypeKind::BoolType:
      case c10::TypeKind::StringType:
      case c10::TypeKind::NumberType: {
        Leaf leaf;
        leaf.name = name;
        leaf.position = absl::StrCat("input_", leaves_.size());
        leaf.type = type;
        leaf.otherwise = otherwise;
        leaves_.push_back(std::move(leaf));
        return absl::OkStatus();
      }
      default:
        return absl::UnimplementedError(absl::StrCat(
            "argument '", name, "' of the model is a ", type->repr_str(),
            "; supported are tensors, numbers, strings, and tuples and lists "
            "of tensors"));
    }
  }

  std::string Describe() const {
    std::string text = "the model takes:";
    for (const Leaf& leaf : leaves_) {
      absl::StrAppend(&text, "\n  ", leaf.label(), ": ", leaf.type->repr_str());
      if (!leaf.name.empty())
        absl::StrAppend(&text, " (or ", leaf.position, ")");
      if (leaf.optional || leaf.otherwise != nullptr)
        absl::StrAppend(&text, ", may be left out");
      if (!leaf.is_tensor())
        absl::StrAppend(&text, ", as --arg ", leaf.label(), "=VALUE");
    }
    if (leaves_.empty()) text = "the model takes no inputs";
    return absl::StrCat(text,
                        "\nPass a safetensors file with such tensors by "
                        "--inputs FILE");
  }

  absl::Status FindTensors() {
    for (Leaf& leaf : leaves_) leaf.given.resize(options_.examples.size());
    for (size_t i = 0; i < options_.examples.size(); ++i) {
      for (const ExampleTensor& tensor : options_.examples[i]) {
        if (IsOutput(tensor)) continue;
        auto leaf = std::find_if(
            leaves_.begin(), leaves_.end(),
            [&](const Leaf& leaf) { return leaf.name == tensor.name; });
        if (leaf == leaves_.end())
          leaf = std::find_if(
              leaves_.begin(), leaves_.end(),
              [&](const Leaf& leaf) { return leaf.position == tensor.name; });
        if (leaf == leaves_.end())
          return absl::InvalidArgumentError(
              absl::StrCat("inputs file ", i + 1, " has a tensor '",
                           tensor.name, "', but ", Describe()));
        if (leaf->given[i] != nullptr)
          return absl::InvalidArgumentError(
              absl::StrCat("inputs file ", i + 1, " gives '", leaf->name,
                           "' twice, by name and by position"));
        leaf->given[i] = &tensor;
      }
    }
    for (const auto& [name, text] : options_.arguments) {
      auto named = [&, &name = name](const Leaf& leaf) {
        return leaf.label() == name || leaf.position == name;
      };
      auto leaf = std::find_if(leaves_.begin(), leaves_.end(), named);
      if (leaf == leaves_.end() || leaf->is_tensor())
        return absl::InvalidArgumentError(
            absl::StrCat("--arg ", name, "=", text, ": ",
                         leaf == leaves_.end() ? "there is no such argument; "
                                               : "it is a tensor; ",
                         Describe()));
    }
    for (const Leaf& leaf : leaves_) {
      if (!leaf.is_tensor()) continue;
      const bool left_out = leaf.optional || leaf.otherwise != nullptr;
      if (!leaf.is_given() && left_out) continue;
      TP_RETURN_IF_ERROR(CheckAgreement(leaf));
    }
    return absl::OkStatus();
  }

  absl::Status CheckAgreement(const Leaf& leaf) const {
    if (options_.examples.empty())
      return absl::InvalidArgumentError(
          absl::StrCat("no example inputs are given; ", Describe()));
    const ExampleTensor* first = leaf.given[0];
    for (size_t i = 0; i < leaf.given.size(); ++i) {
      const ExampleTensor* tensor = leaf.given[i];
      if (tensor == nullptr)
        return absl::InvalidArgumentError(
            absl::StrCat("inputs file ", i + 1, " has no tensor '",
                         leaf.label(), "'; ", Describe()));
      if (first == nullptr) continue;
      if (tensor->dtype != first->dtype ||
          tensor->sizes.size() != first->sizes.size())
        return absl::InvalidArgumentError(absl::StrCat(
            "'", leaf.label(), "' has ", first->sizes.size(), " dims of ",
            std::string(Name(first->dtype)), " in inputs file 1, but ",
            tensor->sizes.size(), " dims of ", std::string(Name(tensor->dtype)),
            " in inputs file ", i + 1));
    }
    return absl::OkStatus();
  }

  // Sizes of a dim in each example.
  static std::vector<int64_t> SizesOf(const Leaf& leaf, size_t dim) {
    std::vector<int64_t> sizes;
    for (const ExampleTensor* tensor : leaf.given)
      sizes.push_back(tensor->sizes[dim]);
    return sizes;
  }

  // Parses --dynamic into dim_names_.
  absl::Status ReadDynamic() {
    for (const std::string& text : options_.dynamic) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(text, absl::MaxSplits(':', 1));
      auto leaf =
          std::find_if(leaves_.begin(), leaves_.end(), [&](const Leaf& leaf) {
            return leaf.label() == parts.first || leaf.position == parts.first;
          });
      if (leaf == leaves_.end() || !leaf->is_tensor() || !leaf->is_given())
        return absl::InvalidArgumentError(absl::StrCat(
            "--dynamic '", text, "': there is no such input; ", Describe()));
      for (const auto piece : absl::StrSplit(parts.second, ',')) {
        const std::pair<std::string, std::string> dim =
            absl::StrSplit(piece, absl::MaxSplits('=', 1));
        int64_t index = 0;
        const int64_t ndim = leaf->given[0]->sizes.size();
        const bool named =
            !dim.second.empty() && absl::ascii_isalpha(dim.second[0]) &&
            std::all_of(dim.second.begin(), dim.second.end(), [](char c) {
              return absl::ascii_isalnum(c) || c == '_';
            });
        if (!absl::SimpleAtoi(dim.first, &index) || index < -ndim ||
            index >= ndim || !named)
          return absl::InvalidArgumentError(
              absl::StrCat("--dynamic '", text, "': '", piece,
                           "' is not DIM=NAME with DIM below ", ndim));
        dim_names_[{leaf - leaves_.begin(), index < 0 ? index + ndim : index}] =
            dim.second;
      }
    }
    return absl::OkStatus();
  }

  std::string FreshName(const Leaf& leaf, size_t dim) const {
    auto taken = [&](const std::string& name) {
      for (const SymbolInfo& symbol : context_.module.assumptions().symbols())
        if (symbol.name == name) return true;
      for (const auto& [place, given] : dim_names_)
        if (given == name) return true;
      return false;
    };
    const std::string prefix = Prefix();
    if (dim == 0 && !taken(prefix + "batch")) return prefix + "batch";
    const ExampleTensor& tensor = *leaf.given[0];
    if (dim == 1 && tensor.sizes.size() == 2 &&
        !IsFloatingPoint(tensor.dtype) && !taken(prefix + "seq"))
      return prefix + "seq";
    for (int i = 0;; ++i)
      if (std::string name = absl::StrCat(prefix, "s", i); !taken(name))
        return name;
  }

  // Of the symbols of every function but the first of a module.
  std::string Prefix() const {
    return context_.module.functions().size() > 1
               ? absl::StrCat(function_.name(), "_")
               : "";
  }

  // Decides for each dim whether it is a number or a symbol.
  absl::Status NameDims() {
    TP_RETURN_IF_ERROR(ReadDynamic());
    std::map<std::string, std::vector<int64_t>> sizes_of_name;
    std::map<std::vector<int64_t>, SymExpr> by_sizes;
    std::map<std::string, SymExpr> by_name;
    dims_.resize(leaves_.size());
    // Names given by hand come first, so that equal dims elsewhere take them.
    for (bool by_hand : {true, false}) {
      for (size_t i = 0; i < leaves_.size(); ++i) {
        const Leaf& leaf = leaves_[i];
        if (!leaf.is_tensor() || !leaf.is_given()) continue;
        dims_[i].resize(leaf.given[0]->sizes.size());
        for (size_t dim = 0; dim < dims_[i].size(); ++dim) {
          auto given = dim_names_.find({i, dim});
          if ((given != dim_names_.end()) != by_hand) continue;
          const std::vector<int64_t> sizes = SizesOf(leaf, dim);
          const bool differs =
              std::any_of(sizes.begin(), sizes.end(),
                          [&](int64_t size) { return size != sizes[0]; });
          SymExpr& result = dims_[i][dim];
          result = sizes[0];
          if (options_.static_sizes && differs)
            return absl::InvalidArgumentError(absl::StrCat(
                "--static compiles in the sizes of inputs file 1, but dim ",
                dim, " of '", leaf.label(), "' is [",
                absl::StrJoin(sizes, ", "),
                "] in the inputs files: give one file, or leave --static out"));
          if (options_.static_sizes || (!by_hand && !differs)) continue;
          if (!by_hand) {
            if (auto same = by_sizes.find(sizes); same != by_sizes.end()) {
              result = same->second;
              continue;
            }
          }
          const std::string name =
              by_hand ? Prefix() + given->second : FreshName(leaf, dim);
          auto [known, is_new] = sizes_of_name.try_emplace(name, sizes);
          if (!is_new && known->second != sizes)
            return absl::InvalidArgumentError(
                absl::StrCat("--dynamic gives the name '", name,
                             "' to dims of different sizes: dim ", dim, " of '",
                             leaf.label(), "' is ", sizes[0], ", another is ",
                             known->second[0]));
          if (is_new) {
            for (const SymbolInfo& other :
                 context_.module.assumptions().symbols())
              if (other.name == name)
                return absl::InvalidArgumentError(
                    absl::StrCat("--dynamic gives the name '", name,
                                 "', which a size of another entry has"));
            by_name[name] = context_.module.assumptions().AddSymbol(
                {name, sizes[0], leaf.label(), static_cast<int>(dim)});
            for (size_t k = 0; k < sizes.size(); ++k)
              model_.example_sizes[k][name] = sizes[k];
          }
          result = by_name[name];
          if (differs) by_sizes.try_emplace(sizes, result);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<AbstractValue> Make(const c10::TypePtr& type) {
    switch (type->kind()) {
      case c10::TypeKind::TupleType: {
        std::vector<AbstractValue> items;
        for (const c10::TypePtr& element : type->containedTypes()) {
          TP_ASSIGN_OR_RETURN(AbstractValue item, Make(element));
          items.push_back(std::move(item));
        }
        return AbstractValue::MakeTuple(std::move(items));
      }
      case c10::TypeKind::ListType: {
        std::vector<AbstractValue> items;
        for (int64_t i = 0; i < list_length_; ++i) {
          TP_ASSIGN_OR_RETURN(AbstractValue item,
                              Make(type->containedTypes()[0]));
          items.push_back(std::move(item));
        }
        return AbstractValue::MakeList(std::move(items));
      }
      case c10::TypeKind::OptionalType:
        return Make(type->containedTypes()[0]);
      default:
        break;
    }
    const size_t index = next_leaf_++;
    const Leaf& leaf = leaves_[index];
    if (!leaf.is_tensor()) {
      TP_ASSIGN_OR_RETURN(AbstractValue value, MakeScalar(leaf));
      AddArgument(leaf, ToAttribute(value).value_or(Attribute()));
      return value;
    }
    model_.arguments.push_back({leaf.label(),
                                leaf.is_given() ? ModelArgument::Kind::kTensor
                                                : ModelArgument::Kind::kAbsent,
                                ""});
    if (!leaf.is_given()) return NoneValue{};
    TensorType tensor_type{leaf.given[0]->dtype, {}};
    for (const SymExpr& dim : dims_[index]) tensor_type.dims.push_back(dim);
    Value* value = function_.AddArgument(
        std::move(tensor_type),
        ArgumentInfo{ArgumentKind::kInput, leaf.label(), {}});
    return context_.aliases.NewOwned(value, TensorStorage::Owner::kInput,
                                     leaf.label());
  }

  void AddArgument(const Leaf& leaf, const Attribute& scalar) {
    ModelArgument argument;
    argument.name = leaf.label();
    argument.kind = scalar.is_none() ? ModelArgument::Kind::kAbsent
                                     : ModelArgument::Kind::kScalar;
    if (!scalar.is_none())
      argument.value =
          scalar.is_string() ? scalar.as_string() : scalar.ToString();
    model_.arguments.push_back(std::move(argument));
  }

  absl::StatusOr<AbstractValue> MakeScalar(const Leaf& leaf) {
    for (const auto& [name, text] : options_.arguments) {
      if (name != leaf.label() && name != leaf.position) continue;
      context_.AddNote(
          absl::StrCat("argument ", name, " = ", text, " is compiled in"));
      return ParseScalar(leaf, text);
    }
    if (leaf.is_given()) {
      const std::optional<Attribute>& scalar = leaf.given[0]->scalar;
      if (!scalar)
        return absl::InvalidArgumentError(
            absl::StrCat("'", leaf.label(), "' is a ", leaf.type->repr_str(),
                         " argument: give a tensor of one element, or --arg ",
                         leaf.label(), "=VALUE"));
      for (const ExampleTensor* tensor : leaf.given)
        if (tensor == nullptr || tensor->scalar != scalar)
          return absl::InvalidArgumentError(
              absl::StrCat("the scalar '", leaf.label(),
                           "' is compiled in, but differs "
                           "between the inputs files"));
      context_.AddNote(absl::StrCat("argument ", leaf.label(), " = ",
                                    scalar->ToString(), " is compiled in"));
      return ConvertScalar(leaf, *scalar);
    }
    if (leaf.otherwise != nullptr) {
      const c10::IValue& value = *leaf.otherwise;
      if (value.isInt()) return SymExpr(value.toInt());
      if (value.isDouble()) return value.toDouble();
      if (value.isBool()) return value.toBool();
      if (value.isString()) return value.toStringRef();
      return NoneValue{};
    }
    if (leaf.optional) return NoneValue{};
    return absl::InvalidArgumentError(
        absl::StrCat("argument '", leaf.label(), "' is not given: pass --arg ",
                     leaf.label(), "=VALUE; ", Describe()));
  }

  static absl::StatusOr<AbstractValue> ParseScalar(const Leaf& leaf,
                                                   const std::string& text) {
    const auto kind = leaf.type->kind();
    int64_t integer = 0;
    double real = 0;
    bool flag = false;
    const bool number = kind == c10::TypeKind::NumberType;
    if (kind == c10::TypeKind::StringType) return text;
    if ((number || kind == c10::TypeKind::IntType) &&
        absl::SimpleAtoi(text, &integer))
      return SymExpr(integer);
    if ((number || kind == c10::TypeKind::FloatType) &&
        absl::SimpleAtod(text, &real))
      return real;
    if (kind == c10::TypeKind::BoolType && absl::SimpleAtob(text, &flag))
      return flag;
    return absl::InvalidArgumentError(absl::StrCat(
        "--arg ", leaf.label(), "=", text, ": not a ", leaf.type->repr_str()));
  }

  static absl::StatusOr<AbstractValue> ConvertScalar(const Leaf& leaf,
                                                     const Attribute& scalar) {
    const std::optional<double> number =
        scalar.is_bool() ? std::optional<double>(scalar.as_bool())
                         : scalar.AsNumber();
    switch (leaf.type->kind()) {
      case c10::TypeKind::IntType:
        if (scalar.is_int()) return scalar.as_int();
        break;
      case c10::TypeKind::FloatType:
        if (number) return *number;
        break;
      case c10::TypeKind::BoolType:
        if (number) return *number != 0;
        break;
      case c10::TypeKind::NumberType:
        return FromAttribute(scalar);
      default:
        break;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", leaf.label(), "' = ", scalar.ToString(), ": not a ",
                     leaf.type->repr_str()));
  }

  const c10::FunctionSchema& schema_;
  const ImportOptions& options_;
  ImportContext& context_;
  Function& function_;
  ImportedModel& model_;
  int64_t list_length_ = 0;
  std::vector<Leaf> leaves_;
  std::map<std::pair<size_t, size_t>, std::string> dim_names_;
  std::vector<std::vector<SymExpr>> dims_;
  size_t next_leaf_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<AbstractValue>> BindInputs(
    const c10::FunctionSchema& schema, const ImportOptions& options,
    ImportContext& context, Function& function, ImportedModel& model) {
  return Binding(schema, options, context, function, model).Run();
}

}  // namespace tp
