#include "runtime/model_inputs.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

const ModelArgument* Find(llvm::ArrayRef<ModelArgument> arguments,
                          const std::string& name) {
  for (const ModelArgument& argument : arguments)
    if (argument.name == name) return &argument;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (absl::StrCat("input_", i) == name) return &arguments[i];
  return nullptr;
}

std::optional<double> NumberOf(const std::string& text) {
  double number = 0;
  if (text == "true") return 1;
  if (text == "false") return 0;
  if (absl::SimpleAtod(text, &number)) return number;
  return std::nullopt;
}

absl::Status OtherValue(const ModelArgument& argument,
                        const std::string& value) {
  return absl::FailedPreconditionError(absl::StrCat(
      "argument '", argument.name, "' is ", value,
      ", but the package was "
      "compiled for ",
      argument.name, " = ", argument.value, "; compile another one with --arg ",
      argument.name, "=", value));
}

}  // namespace

absl::StatusOr<NamedTensors> ProgramInputs(
    llvm::ArrayRef<ModelArgument> arguments, const NamedTensors& given) {
  NamedTensors inputs;
  for (const auto& [name, tensor] : given) {
    const ModelArgument* argument = Find(arguments, name);
    if (argument == nullptr) {
      inputs.emplace_back(name, tensor);
      continue;
    }
    switch (argument->kind) {
      case ModelArgument::Kind::kTensor:
        inputs.emplace_back(argument->name, tensor);
        break;
      case ModelArgument::Kind::kScalar: {
        if (tensor.numel() != 1)
          return absl::InvalidArgumentError(
              absl::StrCat("argument '", argument->name,
                           "' is a scalar: give a tensor of "
                           "one element, not of ",
                           tensor.numel()));
        const double value = tensor.item().toDouble();
        if (NumberOf(argument->value) != value)
          return OtherValue(*argument, absl::StrCat(value));
        break;
      }
      case ModelArgument::Kind::kAbsent:
        return absl::FailedPreconditionError(absl::StrCat(
            "argument '", argument->name,
            "' was not given when the package "
            "was compiled, so its program does without; compile another one "
            "with it"));
    }
  }
  return inputs;
}

absl::StatusOr<bool> IsCompiledIn(llvm::ArrayRef<ModelArgument> arguments,
                                  const std::string& name,
                                  const std::string& value) {
  const ModelArgument* argument = Find(arguments, name);
  if (argument == nullptr || argument->kind != ModelArgument::Kind::kScalar)
    return false;
  const std::optional<double> number = NumberOf(value);
  const bool same = value == argument->value ||
                    (number && number == NumberOf(argument->value));
  if (!same) return OtherValue(*argument, value);
  return true;
}

std::vector<std::pair<std::string, std::string>> CompiledIn(
    llvm::ArrayRef<ModelArgument> arguments) {
  std::vector<std::pair<std::string, std::string>> scalars;
  for (const ModelArgument& argument : arguments)
    if (argument.kind == ModelArgument::Kind::kScalar)
      scalars.emplace_back(argument.name, argument.value);
  return scalars;
}

}  // namespace tp
