#include "runtime/run_inputs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"

namespace tp {
namespace {

std::string ShapeOf(at::IntArrayRef sizes) {
  return absl::StrCat("[", absl::StrJoin(sizes, ", "), "]");
}

std::string DTypeName(const at::Tensor& tensor) {
  const auto dtype = DTypeOf(tensor.scalar_type());
  return dtype ? std::string(Name(*dtype)) : toString(tensor.scalar_type());
}

std::string Signature(const Program& program) {
  std::string text;
  for (const ProgramArgument& input : program.inputs()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", input.info.name, ": ",
                    ToString(input.type));
  }
  return text;
}

class InputBinder {
 public:
  InputBinder(const Program& program, bool convert_floats,
              llvm::ArrayRef<KeptSizes> kept)
      : program_(program), convert_floats_(convert_floats), kept_(kept) {}

  absl::StatusOr<BoundInputs> Bind(const NamedTensors& given) {
    TP_RETURN_IF_ERROR(Match(given));
    sizes_.resize(bound_.tensors.size());
    for (size_t i = 0; i < bound_.tensors.size(); ++i) {
      if (!bound_.tensors[i].defined()) {
        sizes_[i] = *kept_[i];
        continue;
      }
      TP_RETURN_IF_ERROR(CheckType(program_.inputs()[i], bound_.tensors[i]));
      sizes_[i] = bound_.tensors[i].sizes().vec();
    }
    TP_RETURN_IF_ERROR(ReadSymbols());
    for (size_t i = 0; i < sizes_.size(); ++i) {
      TP_RETURN_IF_ERROR(CheckShape(program_.inputs()[i], sizes_[i]));
    }
    TP_RETURN_IF_ERROR(CheckGuards());
    return std::move(bound_);
  }

 private:
  absl::Status Bad(const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ". The inputs are: ", Signature(program_)));
  }

  int Find(const std::string& name) const {
    const auto& inputs = program_.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].info.name == name) return static_cast<int>(i);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (absl::StrCat("input_", i) == name) return static_cast<int>(i);
    }
    return -1;
  }

  absl::Status Match(const NamedTensors& given) {
    bound_.tensors.resize(program_.inputs().size());
    for (const auto& [name, tensor] : given) {
      const int index = Find(name);
      if (index < 0) {
        if (name.rfind("output_", 0) == 0) continue;
        return Bad(absl::StrCat("the model has no input '", name, "'"));
      }
      if (bound_.tensors[index].defined()) {
        return Bad(absl::StrCat("input '", program_.inputs()[index].info.name,
                                "' is given twice"));
      }
      bound_.tensors[index] = tensor;
    }
    for (size_t i = 0; i < bound_.tensors.size(); ++i) {
      if (bound_.tensors[i].defined() || IsKept(i)) continue;
      return Bad(absl::StrCat("input '", program_.inputs()[i].info.name,
                              "' is missing (pass it with --inputs FILE)"));
    }
    return absl::OkStatus();
  }

  bool IsKept(size_t index) const {
    return index < kept_.size() && kept_[index].has_value();
  }

  absl::Status CheckType(const ProgramArgument& input, at::Tensor& tensor) {
    const at::ScalarType wanted = ScalarTypeOf(input.type.dtype);
    if (tensor.scalar_type() != wanted) {
      if (!convert_floats_ || !at::isFloatingType(wanted) ||
          !at::isFloatingType(tensor.scalar_type())) {
        return Bad(absl::StrCat("input '", input.info.name, "' is ",
                                DTypeName(tensor),
                                ", the model was compiled for ",
                                std::string(Name(input.type.dtype))));
      }
      tensor = tensor.to(wanted);
    }
    // A one-element tensor serves a number.
    if (input.type.ndim() == 0 && tensor.numel() == 1) {
      tensor = tensor.reshape({});
    }
    if (tensor.dim() != input.type.ndim()) {
      return Bad(absl::StrCat("input '", input.info.name, "' has shape ",
                              ShapeOf(tensor.sizes()), ", expected ",
                              input.type.ndim(), " dims"));
    }
    tensor = tensor.contiguous();
    return absl::OkStatus();
  }

  absl::Status ReadSymbols() {
    for (const SymbolInfo& symbol : program_.symbols()) {
      if (symbol.input.empty()) continue;
      const int index = Find(symbol.input);
      if (index < 0 || symbol.dim < 0 ||
          symbol.dim >= static_cast<int>(sizes_[index].size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("the package reads size '", symbol.name,
                         "' from an input that is not there: dim ", symbol.dim,
                         " of '", symbol.input, "'"));
      }
      const int64_t size = sizes_[index][symbol.dim];
      if (size < 1) {
        return Bad(absl::StrCat("dim ", symbol.dim, " of input '", symbol.input,
                                "' is empty; '", symbol.name,
                                "' has to be at least 1"));
      }
      bound_.sizes.values[symbol.name] = size;
      bound_.sizes.key.push_back(size);
    }
    return absl::OkStatus();
  }

  absl::Status CheckShape(const ProgramArgument& input,
                          const std::vector<int64_t>& sizes) const {
    if (static_cast<int>(sizes.size()) != input.type.ndim()) {
      return Bad(absl::StrCat("input '", input.info.name, "' has ",
                              sizes.size(), " dims, expected ",
                              input.type.ndim()));
    }
    for (int dim = 0; dim < input.type.ndim(); ++dim) {
      const SymExpr& size = input.type.dims[dim];
      TP_ASSIGN_OR_RETURN(int64_t wanted, size.Evaluate(bound_.sizes.values));
      if (wanted == sizes[dim]) continue;
      std::string why;
      if (!size.is_constant()) {
        why = absl::StrCat(" (", size.ToString(), " = ", wanted, ")");
      }
      return Bad(absl::StrCat("input '", input.info.name, "' has shape ",
                              ShapeOf(sizes), ", but dim ", dim, " has to be ",
                              wanted, why));
    }
    return absl::OkStatus();
  }

  absl::Status CheckGuards() const {
    for (const Guard& guard : program_.guards()) {
      TP_ASSIGN_OR_RETURN(int64_t lhs, guard.lhs.Evaluate(bound_.sizes.values));
      TP_ASSIGN_OR_RETURN(int64_t rhs, guard.rhs.Evaluate(bound_.sizes.values));
      if (Holds(lhs, guard.relation, rhs)) continue;
      const std::string where = ToString(guard.location);
      return absl::FailedPreconditionError(absl::StrCat(
          "the package was not compiled for these sizes: it assumes ",
          guard.ToString(), ", here ", lhs, " ", ToString(guard.relation), " ",
          rhs, " does not hold (", guard.reason,
          where.empty() ? "" : absl::StrCat("; ", where),
          "). Give inputs of sizes that fit or, if the model itself takes "
          "these, "
          "compile with them as example inputs."));
    }
    return absl::OkStatus();
  }

  const Program& program_;
  bool convert_floats_;
  llvm::ArrayRef<KeptSizes> kept_;
  std::vector<std::vector<int64_t>> sizes_;  // by input
  BoundInputs bound_;
};

}  // namespace

absl::StatusOr<BoundInputs> BindRunInputs(const Program& program,
                                          const NamedTensors& given,
                                          bool convert_floats,
                                          llvm::ArrayRef<KeptSizes> kept) {
  return InputBinder(program, convert_floats, kept).Bind(given);
}

}  // namespace tp
