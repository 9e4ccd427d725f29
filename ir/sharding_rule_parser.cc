// The rule notation, for one op whose types are known.
//
// The text is split into dims of tensors first (`...` becomes as many names as
// it covers, aligned to the right); then every name gets the size that the
// dims it stands for have; compound dims give the one size still missing.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/sharding_rule.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace tp {
namespace {

struct Marker {
  FactorKind kind = FactorKind::kPass;
  ReduceKind reduce = ReduceKind::kSum;
};

struct NamedFactor {
  std::string name;
  Marker marker;
};

// A dim as written: an ellipsis, or names (none for `1`).
struct DimNotation {
  bool ellipsis = false;
  Marker marker;  // of the ellipsis
  llvm::SmallVector<NamedFactor, 2> names;
};

struct TensorNotation {
  bool described = true;  // false: `_`
  std::vector<DimNotation> dims;
};

struct Notation {
  std::vector<TensorNotation> operands;
  std::vector<TensorNotation> results;
};

class NotationParser {
 public:
  explicit NotationParser(llvm::StringRef text) : text_(text) {}

  absl::StatusOr<Notation> Parse(bool has_operands, bool has_results) {
    if (text_.count("->") != 1) return Error("expected exactly one '->'");
    const auto [left, right] = text_.split("->");
    Notation notation;
    TP_ASSIGN_OR_RETURN(notation.operands, ParseTensors(left, has_operands));
    TP_ASSIGN_OR_RETURN(notation.results, ParseTensors(right, has_results));
    return notation;
  }

 private:
  absl::Status Error(const std::string& why) {
    return absl::InternalError(absl::StrCat("rule '", text_.str(), "': ", why));
  }

  absl::StatusOr<std::vector<TensorNotation>> ParseTensors(llvm::StringRef text,
                                                           bool has_tensors) {
    std::vector<TensorNotation> tensors;
    if (text.trim().empty() && !has_tensors) return tensors;
    llvm::SmallVector<llvm::StringRef, 4> parts;
    text.split(parts, ',');
    for (llvm::StringRef part : parts) {
      TP_ASSIGN_OR_RETURN(TensorNotation tensor, ParseTensor(part.trim()));
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  absl::StatusOr<TensorNotation> ParseTensor(llvm::StringRef text) {
    TensorNotation tensor;
    if (text == "_") {
      tensor.described = false;
      return tensor;
    }
    bool ellipsis = false;
    while (!(text = text.ltrim()).empty()) {
      TP_ASSIGN_OR_RETURN(DimNotation dim, ParseDim(text));
      if (dim.ellipsis && std::exchange(ellipsis, true))
        return Error("two '...' in one tensor");
      tensor.dims.push_back(std::move(dim));
    }
    return tensor;
  }

  absl::StatusOr<DimNotation> ParseDim(llvm::StringRef& text) {
    DimNotation dim;
    if (text.consume_front("...")) {
      dim.ellipsis = true;
      TP_ASSIGN_OR_RETURN(dim.marker, ParseMarker(text));
      return dim;
    }
    if (text.consume_front("1")) return dim;
    if (!text.consume_front("(")) {
      TP_ASSIGN_OR_RETURN(NamedFactor factor, ParseFactor(text));
      dim.names.push_back(std::move(factor));
      return dim;
    }
    while (!(text = text.ltrim()).consume_front(")")) {
      TP_ASSIGN_OR_RETURN(NamedFactor factor, ParseFactor(text));
      dim.names.push_back(std::move(factor));
    }
    TP_ASSIGN_OR_RETURN(Marker marker, ParseMarker(text));
    if (marker.kind != FactorKind::kPass)
      for (NamedFactor& factor : dim.names) factor.marker = marker;
    return dim;
  }

  absl::StatusOr<NamedFactor> ParseFactor(llvm::StringRef& text) {
    const llvm::StringRef name =
        text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (name.empty() || llvm::isDigit(name.front()))
      return Error(absl::StrCat("expected a factor at '", text.str(), "'"));
    text = text.drop_front(name.size());
    TP_ASSIGN_OR_RETURN(Marker marker, ParseMarker(text));
    return NamedFactor{name.str(), marker};
  }

  absl::StatusOr<Marker> ParseMarker(llvm::StringRef& text) {
    if (text.consume_front("^"))
      return Marker{FactorKind::kWhole, ReduceKind::kSum};
    if (!text.consume_front("+")) return Marker{};
    const llvm::StringRef name = text.take_while(llvm::isAlpha);
    text = text.drop_front(name.size());
    const std::optional<ReduceKind> reduce =
        name.empty() ? ReduceKind::kSum : ParseReduceKind(name);
    if (!reduce)
      return Error(absl::StrCat("unknown reduction '", name.str(), "'"));
    return Marker{FactorKind::kReduce, *reduce};
  }

  llvm::StringRef text_;
};

// The names of a dim of one tensor of the op.
struct DimNames {
  const SymExpr* size = nullptr;
  llvm::SmallVector<int, 2> factors;  // indices into RuleResolver::factors_
  int tensor = 0;                     // operands, then results
  int dim = 0;
};

class RuleResolver {
 public:
  RuleResolver(llvm::StringRef notation, const Op& op)
      : notation_(notation), op_(op) {}

  absl::StatusOr<OpRule> Resolve(llvm::StringRef partial) {
    TP_ASSIGN_OR_RETURN(const Notation notation,
                        NotationParser(notation_).Parse(op_.num_operands() > 0,
                                                        op_.num_results() > 0));
    TP_RETURN_IF_ERROR(NameDims(notation));
    TP_RETURN_IF_ERROR(ResolveSizes());
    return BuildRule(partial);
  }

 private:
  struct FactorState {
    std::string name;
    Marker marker;
    std::optional<SymExpr> size;
    std::string size_from;   // "operand 1", for messages
    bool has_one = false;    // stands for some dim of constant size 1
    bool undecided = false;  // sizes that may differ: never split
  };

  absl::Status Error(absl::StatusCode code, const std::string& why) const {
    const std::string where = ToString(op_.location());
    return absl::Status(
        code, absl::StrCat(op_.name(), where.empty() ? "" : " at ", where, ": ",
                           why, " (rule '", notation_.str(), "')"));
  }

  int num_tensors() const { return op_.num_operands() + op_.num_results(); }

  // Null for an absent operand.
  const TensorType* TypeOf(int tensor) const {
    const Value* value = tensor < op_.num_operands()
                             ? op_.operand(tensor)
                             : op_.result(tensor - op_.num_operands());
    return value == nullptr ? nullptr : &value->type();
  }

  std::string TensorName(int tensor) const {
    return tensor < op_.num_operands()
               ? absl::StrCat("operand ", tensor)
               : absl::StrCat("result ", tensor - op_.num_operands());
  }

  absl::Status NameDims(const Notation& notation) {
    std::vector<const TensorNotation*> tensors(num_tensors());
    for (int i = 0; i < op_.num_operands(); ++i) {
      if (i < static_cast<int>(notation.operands.size()))
        tensors[i] = &notation.operands[i];
      else if (op_.operand(i) != nullptr)
        return Error(absl::StatusCode::kInternal,
                     absl::StrCat("operand ", i, " is not described"));
    }
    if (static_cast<int>(notation.operands.size()) > op_.num_operands())
      return Error(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("it has ", op_.num_operands(),
                                " operands where the op takes ",
                                notation.operands.size()));
    if (static_cast<int>(notation.results.size()) != op_.num_results())
      return Error(absl::StatusCode::kInternal,
                   absl::StrCat("describes ", notation.results.size(),
                                " results of ", op_.num_results()));
    for (int i = 0; i < op_.num_results(); ++i)
      tensors[op_.num_operands() + i] = &notation.results[i];

    int longest = 0;  // of what the ellipses cover
    std::vector<int> covered(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorType* type = TypeOf(static_cast<int>(i));
      if (type == nullptr || !tensors[i] || !tensors[i]->described) continue;
      const bool ellipsis = llvm::any_of(
          tensors[i]->dims, [](const DimNotation& d) { return d.ellipsis; });
      const int named = static_cast<int>(tensors[i]->dims.size()) - ellipsis;
      covered[i] = type->ndim() - named;
      if (covered[i] < 0 || (!ellipsis && covered[i] > 0))
        return Error(
            absl::StatusCode::kInvalidArgument,
            absl::StrCat(TensorName(static_cast<int>(i)), " has ", type->ndim(),
                         " dims (", ToString(*type), ") where the op takes ",
                         ellipsis ? "at least " : "", named));
      longest = std::max(longest, covered[i]);
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorType* type = TypeOf(static_cast<int>(i));
      if (type == nullptr || !tensors[i] || !tensors[i]->described) continue;
      int dim = 0;
      for (const DimNotation& written : tensors[i]->dims) {
        const int count = written.ellipsis ? covered[i] : 1;
        for (int k = 0; k < count; ++k, ++dim) {
          DimNames names{&type->dims[dim], {}, static_cast<int>(i), dim};
          if (written.ellipsis) {
            const std::string name =
                absl::StrCat("d", longest - covered[i] + k);
            TP_RETURN_IF_ERROR(AddName({name, written.marker}, names));
          }
          for (const NamedFactor& factor : written.names)
            TP_RETURN_IF_ERROR(AddName(factor, names));
          dims_.push_back(std::move(names));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddName(const NamedFactor& named, DimNames& dim) {
    auto [found, added] =
        ids_.try_emplace(named.name, static_cast<int>(factors_.size()));
    if (added) factors_.push_back({named.name, {}, {}, "", false, false});
    FactorState& factor = factors_[found->second];
    if (named.marker.kind != FactorKind::kPass) {
      if (factor.marker.kind != FactorKind::kPass &&
          (factor.marker.kind != named.marker.kind ||
           factor.marker.reduce != named.marker.reduce))
        return Error(absl::StatusCode::kInternal,
                     absl::StrCat("two markers for '", named.name, "'"));
      factor.marker = named.marker;
    }
    for (const DimNames& other : dims_)
      if (other.tensor == dim.tensor &&
          llvm::is_contained(other.factors, found->second))
        return Error(absl::StatusCode::kInternal,
                     absl::StrCat("'", named.name, "' twice in one tensor"));
    dim.factors.push_back(found->second);
    return absl::OkStatus();
  }

  // Takes `size` for the factor, or compares it with the one it has.
  absl::Status Unify(int id, const SymExpr& size, const DimNames& dim) {
    FactorState& factor = factors_[id];
    if (!factor.size) {
      factor.size = size;
      factor.size_from = TensorName(dim.tensor);
      return absl::OkStatus();
    }
    if (*factor.size == size) return absl::OkStatus();
    if ((*factor.size - size).is_constant())
      return Error(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("dim ", dim.dim, " of ", TensorName(dim.tensor),
                                " has size ", size.ToString(), " where '",
                                factor.name, "' is ", factor.size->ToString(),
                                " in ", factor.size_from));
    factor.undecided = true;
    return absl::OkStatus();
  }

  absl::Status ResolveSizes() {
    for (const DimNames& dim : dims_) {
      if (dim.factors.size() != 1) continue;
      if (*dim.size == 1)
        factors_[dim.factors[0]].has_one = true;
      else
        TP_RETURN_IF_ERROR(Unify(dim.factors[0], *dim.size, dim));
    }
    bool pending = true;
    for (bool ones_taken = false; pending;) {
      bool progress = false;
      pending = false;
      for (const DimNames& dim : dims_) {
        if (dim.factors.size() < 2 || *dim.size == 1) continue;
        TP_ASSIGN_OR_RETURN(const bool resolved, ResolveCompound(dim));
        const bool news = resolved && !llvm::is_contained(done_, &dim);
        if (news) done_.push_back(&dim);
        progress |= news;
        pending |= !resolved;
      }
      if (!pending || progress) continue;
      if (std::exchange(ones_taken, true))
        return Error(absl::StatusCode::kInternal,
                     "more than one unknown size in a compound dim");
      // A factor seen only in dims of size 1 has that size.
      for (FactorState& factor : factors_)
        if (!factor.size && factor.has_one) factor.size = 1;
    }
    return absl::OkStatus();
  }

  // Checks a compound dim, or derives the one unknown size; false if there
  // are several.
  absl::StatusOr<bool> ResolveCompound(const DimNames& dim) {
    SymExpr product = 1;
    int unknown = -1;
    for (int id : dim.factors) {
      if (factors_[id].size)
        product = product * *factors_[id].size;
      else if (unknown >= 0)
        return false;
      else
        unknown = id;
    }
    std::optional<SymExpr> rest = ExactDiv(*dim.size, product);
    const bool wrong = unknown >= 0 ? !rest : product != *dim.size;
    if (wrong && dim.size->is_constant() && product.is_constant())
      return Error(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("dim ", dim.dim, " of ", TensorName(dim.tensor),
                                " has size ", dim.size->ToString(),
                                ", which is not what its parts of ",
                                product.ToString(), " make"));
    if (wrong)
      for (int id : dim.factors) factors_[id].undecided = true;
    if (unknown >= 0) {
      factors_[unknown].size = rest ? *rest : FloorDiv(*dim.size, product);
      factors_[unknown].size_from = TensorName(dim.tensor);
    }
    return true;
  }

  absl::StatusOr<OpRule> BuildRule(llvm::StringRef partial) {
    RuleBuilder builder(op_);
    std::vector<int> ids;
    for (const FactorState& factor : factors_)
      ids.push_back(builder.AddFactor(
          factor.name, factor.size.value_or(1),
          factor.undecided ? FactorKind::kWhole : factor.marker.kind,
          factor.marker.reduce));
    for (const DimNames& dim : dims_) {
      for (int id : dim.factors) {
        if (dim.tensor < op_.num_operands())
          builder.Operand(dim.tensor, dim.dim, ids[id]);
        else
          builder.Result(dim.tensor - op_.num_operands(), dim.dim, ids[id]);
      }
    }
    builder.Partial(partial);
    OpRule rule = std::move(builder).Build();
    // What Build() had to make whole is a mistake in the notation.
    for (const Factor& factor : rule.factors) {
      const FactorState& state = factors_[ids_.lookup(factor.name)];
      if (factor.kind == FactorKind::kWhole && !state.undecided &&
          state.marker.kind != FactorKind::kWhole)
        return Error(absl::StatusCode::kInternal,
                     absl::StrCat("'", factor.name,
                                  "' must be in every result, or be marked "
                                  "'+' and in none, or be marked '^'"));
    }
    return rule;
  }

  llvm::StringRef notation_;
  const Op& op_;
  std::vector<FactorState> factors_;
  llvm::StringMap<int> ids_;
  std::vector<DimNames> dims_;
  std::vector<const DimNames*> done_;  // resolved compound dims
};

}  // namespace

absl::StatusOr<OpRule> ParseRule(llvm::StringRef notation,
                                 llvm::StringRef partial, const Op& op) {
  return RuleResolver(notation, op).Resolve(partial);
}

}  // namespace tp
