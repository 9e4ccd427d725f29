#include "frontend/unknown_op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontend/op_probe.h"
#include "frontend/view_ops.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace tp {
namespace {

using Values = std::vector<AbstractValue>;

struct Sample {
  SymbolValues symbols;
  ProbedReturns returns;
};

bool SameForm(const ProbedReturns& a, const ProbedReturns& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].tensors.size() != b[i].tensors.size()) return false;
    for (size_t k = 0; k < a[i].tensors.size(); ++k)
      if (a[i].tensors[k].dtype != b[i].tensors[k].dtype ||
          a[i].tensors[k].sizes.size() != b[i].tensors[k].sizes.size())
        return false;
  }
  return true;
}

bool SameSizes(const ProbedReturns& a, const ProbedReturns& b) {
  if (!SameForm(a, b)) return false;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a[i].tensors.size(); ++k)
      if (a[i].tensors[k].sizes != b[i].tensors[k].sizes) return false;
  return true;
}

// Sizes and numbers among the arguments.
void CollectSizes(llvm::ArrayRef<AbstractValue> arguments,
                  std::vector<SymExpr>& sizes) {
  for (const AbstractValue& argument : arguments) {
    if (argument.is_tensor()) {
      const Dims& dims = argument.as_tensor()->type().dims;
      sizes.insert(sizes.end(), dims.begin(), dims.end());
    } else if (argument.is_int()) {
      sizes.push_back(argument.as_int());
    } else if (argument.items() != nullptr) {
      CollectSizes(*argument.items(), sizes);
    }
  }
}

class ResultTypes {
 public:
  ResultTypes(const c10::OperatorHandle& handle,
              llvm::ArrayRef<AbstractValue> arguments, ImportContext& context)
      : handle_(handle), arguments_(arguments), context_(context) {
    std::vector<SymExpr> sizes;
    CollectSizes(arguments, sizes);
    for (const SymExpr& size : sizes) {
      size.CollectSymbols(symbols_);
      if (!llvm::is_contained(sizes_, size)) sizes_.push_back(size);
    }
  }

  // Types of the tensors of every return.
  absl::StatusOr<std::vector<std::vector<TensorType>>> Find() {
    TP_RETURN_IF_ERROR(AskFirst());
    AskOthers();
    bool open = false;
    std::vector<std::vector<TensorType>> types = TypesBy(open);
    if (!open) return types;
    // Known for these sizes only.
    for (const auto& symbol : symbols_)
      TP_RETURN_IF_ERROR(
          context_
              .Concrete(
                  SymExpr::Symbol(symbol.first()),
                  absl::StrCat("the sizes of what ",
                               toString(handle_.operator_name()), " gives"))
              .status());
    samples_.resize(1);
    symbols_.clear();
    return TypesBy(open);
  }

 private:
  absl::Status AskFirst() {
    SymbolValues hints;
    for (const SymbolInfo& symbol : context_.module.assumptions().symbols())
      hints[symbol.name] = symbol.hint;
    auto asked = ProbeOp(handle_, arguments_, hints, ProbeKind::kMeta);
    if (!asked.ok()) {
      const std::string reason(asked.status().message());
      kind_ = ProbeKind::kZeros;
      asked = ProbeOp(handle_, arguments_, hints, ProbeKind::kZeros);
      auto ones = ProbeOp(handle_, arguments_, hints, ProbeKind::kOnes);
      if (!asked.ok()) {
        asked = ones;
        kind_ = ProbeKind::kOnes;
      }
      if (!asked.ok())
        return absl::UnimplementedError(absl::StrCat(
            "its results are not known: its meta kernel says \"", reason,
            "\", a trial run \"", asked.status().message(), "\""));
      if (ones.ok() && !SameSizes(*asked, *ones))
        return absl::UnimplementedError(
            "the sizes of its results depend on data");
    }
    samples_.push_back({std::move(hints), *std::move(asked)});
    return absl::OkStatus();
  }

  bool BreaksGuards(const SymbolValues& symbols) const {
    for (const Guard& guard : context_.module.assumptions().guards()) {
      absl::StatusOr<int64_t> lhs = guard.lhs.Evaluate(symbols);
      absl::StatusOr<int64_t> rhs = guard.rhs.Evaluate(symbols);
      if (lhs.ok() && rhs.ok() && !Holds(*lhs, guard.relation, *rhs))
        return true;
    }
    return false;
  }

  void Ask(const SymbolValues& symbols) {
    if (BreaksGuards(symbols)) return;
    auto asked = ProbeOp(handle_, arguments_, symbols, kind_);
    // The op may want sizes that fit each other.
    if (!asked.ok() || !SameForm(*asked, samples_[0].returns)) return;
    samples_.push_back({symbols, *std::move(asked)});
  }

  void AskOthers() {
    if (symbols_.empty()) return;
    const SymbolValues hints = samples_[0].symbols;
    for (const SymbolValues& example : context_.example_sizes) Ask(example);
    for (int64_t step : {1, 2, 5, 6}) {
      SymbolValues all = hints;
      int64_t more = step;
      for (const auto& symbol : symbols_) {
        SymbolValues one = hints;
        one[symbol.first()] += step;
        Ask(one);
        all[symbol.first()] += more++;
      }
      Ask(all);
    }
  }

  std::vector<int64_t> Across(size_t result, size_t tensor, size_t dim) const {
    std::vector<int64_t> sizes;
    for (const Sample& sample : samples_)
      sizes.push_back(sample.returns[result].tensors[tensor].sizes[dim]);
    return sizes;
  }

  bool Fits(const SymExpr& expr, const std::vector<int64_t>& sizes) const {
    for (size_t i = 0; i < samples_.size(); ++i) {
      absl::StatusOr<int64_t> value = expr.Evaluate(samples_[i].symbols);
      if (!value.ok() || *value != sizes[i]) return false;
    }
    return true;
  }

  // Whether some symbol was never asked at another value.
  bool IsOpen() const {
    for (const auto& symbol : symbols_) {
      bool varies = false;
      for (const Sample& sample : samples_)
        varies |= sample.symbols.lookup(symbol.first()) !=
                  samples_[0].symbols.lookup(symbol.first());
      if (!varies) return true;
    }
    return false;
  }

  // A size that agrees with all answers: a number, a size among the arguments,
  // or one computed from one or two of them.
  std::optional<SymExpr> Explain(const std::vector<int64_t>& sizes) const {
    if (SymExpr(sizes[0]).is_constant() && Fits(sizes[0], sizes))
      return SymExpr(sizes[0]);
    for (const SymExpr& size : sizes_)
      if (Fits(size, sizes)) return size;
    for (const SymExpr& a : sizes_) {
      if (a.is_constant()) continue;
      absl::StatusOr<int64_t> hint = a.Evaluate(samples_[0].symbols);
      if (!hint.ok()) continue;
      for (int64_t divisor : {1, 2, 3, 4, 8, 16}) {
        for (int64_t rest = 0; rest < divisor; ++rest) {
          const SymExpr base = FloorDiv(a + SymExpr(rest), SymExpr(divisor));
          absl::StatusOr<int64_t> value = base.Evaluate(samples_[0].symbols);
          if (!value.ok()) continue;
          const SymExpr shifted = base + SymExpr(sizes[0] - *value);
          if (Fits(shifted, sizes)) return shifted;
          if (*value != 0 && sizes[0] % *value == 0) {
            const SymExpr scaled = base * SymExpr(sizes[0] / *value);
            if (Fits(scaled, sizes)) return scaled;
          }
        }
      }
      for (const SymExpr& b : sizes_) {
        for (const SymExpr& both : {a + b, a * b, Max(a, b), Min(a, b)})
          if (Fits(both, sizes)) return both;
      }
    }
    return std::nullopt;
  }

  std::vector<std::vector<TensorType>> TypesBy(bool& open) const {
    open = IsOpen();
    std::vector<std::vector<TensorType>> types;
    const ProbedReturns& first = samples_[0].returns;
    for (size_t i = 0; i < first.size(); ++i) {
      auto& list = types.emplace_back();
      for (size_t k = 0; k < first[i].tensors.size(); ++k) {
        TensorType type;
        type.dtype = first[i].tensors[k].dtype;
        for (size_t d = 0; d < first[i].tensors[k].sizes.size(); ++d) {
          std::optional<SymExpr> size = Explain(Across(i, k, d));
          open = open || !size;
          type.dims.push_back(size.value_or(SymExpr(0)));
        }
        list.push_back(std::move(type));
      }
    }
    return types;
  }

  const c10::OperatorHandle& handle_;
  llvm::ArrayRef<AbstractValue> arguments_;
  ImportContext& context_;
  ProbeKind kind_ = ProbeKind::kMeta;
  std::vector<SymExpr> sizes_;
  llvm::StringSet<> symbols_;
  std::vector<Sample> samples_;  // the first at the example sizes
};

absl::Status Refuse(const std::string& op, llvm::StringRef why,
                    ImportContext& context) {
  return context.Unsupported(
      absl::StrCat(op, " has no row in the op table, and ", why.str()));
}

TensorRef FirstTensor(llvm::ArrayRef<AbstractValue> arguments) {
  for (const AbstractValue& argument : arguments) {
    if (argument.is_tensor()) return argument.as_tensor();
    if (argument.items() == nullptr) continue;
    if (TensorRef found = FirstTensor(*argument.items())) return found;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<AbstractValue>> ImportUnknownOp(
    const c10::FunctionSchema& schema, const OpCall& call,
    llvm::ArrayRef<AbstractValue> arguments, ImportContext& context) {
  const auto handle =
      c10::Dispatcher::singleton().findSchema(schema.operator_name());
  if (!handle)
    return Refuse(call.name, "LibTorch knows it in TorchScript only", context);
  if (handle->hasTag(at::Tag::nondeterministic_seeded))
    return Refuse(call.name, "its random numbers would differ between ranks",
                  context);
  if (handle->hasTag(at::Tag::dynamic_output_shape))
    return Refuse(call.name, "the sizes of its results depend on data",
                  context);
  auto types = ResultTypes(*handle, arguments, context).Find();
  if (!types.ok())
    return absl::IsUnimplemented(types.status())
               ? Refuse(call.name, std::string(types.status().message()),
                        context)
               : types.status();
  std::vector<TensorType> flat;
  for (const auto& list : *types)
    flat.insert(flat.end(), list.begin(), list.end());
  if (flat.empty()) return Refuse(call.name, "it gives no tensor", context);
  Op* op = context.builder.CreateTyped(call.name, call.operands,
                                       call.attributes, flat);
  bool shares = false;
  for (const c10::Argument& result : schema.returns())
    shares = shares || result.alias_info() != nullptr;
  TP_ASSIGN_OR_RETURN(
      Values tensors,
      TrackResults(*op, shares ? Aliasing::kMaybe : Aliasing::kFresh,
                   FirstTensor(arguments), context));
  Values results;
  size_t next = 0;
  for (size_t i = 0; i < types->size(); ++i) {
    const auto kind = schema.returns()[i].type()->kind();
    if (kind == c10::TypeKind::TensorType && (*types)[i].size() == 1) {
      results.push_back(tensors[next++]);
    } else if (kind == c10::TypeKind::ListType) {
      Values items;
      for (size_t k = 0; k < (*types)[i].size(); ++k)
        items.push_back(tensors[next++]);
      results.push_back(AbstractValue::MakeList(std::move(items)));
    } else {
      next += (*types)[i].size();
      results.push_back(AbstractValue::Unknown(
          absl::StrCat(ToString(context.location()), ": result ", i, " of ",
                       call.name, " is known only when the model runs")));
    }
  }
  return results;
}

}  // namespace tp
