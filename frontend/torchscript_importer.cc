#include "frontend/torchscript_importer.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "frontend/archive_check.h"
#include "frontend/archive_weight_source.h"
#include "frontend/graph_interpreter.h"
#include "frontend/import_context.h"
#include "frontend/imported_weights.h"
#include "frontend/input_binding.h"
#include "frontend/module_state.h"
#include "frontend/skeleton_archive.h"
#include "frontend/weight_table.h"
#include "ir/status.h"
#include "ir/text.h"

namespace tp {
namespace {

// The first lines of a LibTorch error, without its stack trace.
std::string ShortError(const std::exception& error) {
  llvm::StringRef text = error.what();
  return text.take_front(text.find("\nException raised from")).rtrim().str();
}

absl::StatusOr<torch::jit::Module> LoadProgram(const CheckedArchive& archive,
                                               const std::string& path) {
  TP_ASSIGN_OR_RETURN(std::string skeleton, BuildSkeleton(archive));
  try {
    std::istringstream stream(std::move(skeleton));
    return torch::jit::load(stream, at::kCPU);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": LibTorch ", TP_TORCH_VERSION,
                     " cannot load the program: ", ShortError(error)));
  }
}

// The tensors and numbers in a value, depth first.
absl::Status FlattenOutputs(const AbstractValue& value, ImportContext& context,
                            llvm::SmallVectorImpl<Value*>& outputs) {
  if (value.is_unknown())
    return absl::UnimplementedError(
        absl::StrCat("an output of the model is not known: ", value.reason()));
  if (value.is_tensor()) {
    TP_ASSIGN_OR_RETURN(Value * tensor,
                        context.aliases.Read(value.as_tensor()));
    outputs.push_back(tensor);
  } else if (value.is_number()) {
    TensorRef tensor = context.aliases.NewScalar(
        *ToAttribute(value), value.is_bool()    ? DType::kBool
                             : value.is_float() ? DType::kF64
                                                : DType::kI64);
    TP_ASSIGN_OR_RETURN(Value * scalar, context.aliases.Read(tensor));
    outputs.push_back(scalar);
  } else if (value.is_runtime_number()) {
    outputs.push_back(value.as_runtime_number());
  } else if (value.is_grown_list()) {
    return absl::UnimplementedError(
        "an output of the model is a list whose length depends on data; "
        "return it stacked");
  } else if (const auto* items = value.items()) {
    for (const AbstractValue& item : *items)
      TP_RETURN_IF_ERROR(FlattenOutputs(item, context, outputs));
  } else if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict()->entries)
      TP_RETURN_IF_ERROR(FlattenOutputs(item, context, outputs));
  } else if (value.is_object()) {
    return absl::UnimplementedError("an output of the model is an object");
  }
  return absl::OkStatus();
}

// "inputs file 2 (long.safetensors)"
std::string ExampleName(const ImportOptions& options, size_t index) {
  std::string name = absl::StrCat("inputs file ", index + 1);
  if (index < options.example_files.size())
    absl::StrAppend(&name, " (", options.example_files[index], ")");
  return name;
}

absl::StatusOr<ImportedModel> Import(const std::string& path,
                                     const ImportOptions& options,
                                     std::unique_ptr<Module> module) {
  ArchiveOptions archive_options;
  archive_options.allow_ops = options.allow_ops;
  TP_ASSIGN_OR_RETURN(std::unique_ptr<CheckedArchive> archive,
                      CheckArchive(path, archive_options));
  TP_ASSIGN_OR_RETURN(torch::jit::Module program, LoadProgram(*archive, path));
  const auto method = program.find_method(options.method);
  if (!method)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the model has no method '", options.method, "'"));

  if (module == nullptr) module = std::make_unique<Module>();
  module->set_mesh(options.mesh);
  Function* function = module->AddFunction(options.entry);
  ImportContext context(*module, *function);
  context.train = options.train;
  context.strict = options.strict;
  ImportedModel model;
  TP_ASSIGN_OR_RETURN(std::vector<AbstractValue> arguments,
                      BindInputs(method->function().getSchema(), options,
                                 context, *function, model));
  context.example_sizes = model.example_sizes;
  WeightTable weights(context, *function, archive->tensors);
  TP_RETURN_IF_ERROR(weights.AddModule(program._ivalue()));
  TP_ASSIGN_OR_RETURN(AbstractValue root,
                      weights.FromIValue(program._ivalue(), ""));
  GraphInterpreter interpreter(context, weights);
  TP_ASSIGN_OR_RETURN(AbstractValue result,
                      interpreter.CallMethod(root.as_object(), options.method,
                                             std::move(arguments)));
  TP_RETURN_IF_ERROR(context.MissingOps());
  TP_RETURN_IF_ERROR(
      FlattenOutputs(result, context, function->body().results()));
  const bool returns = !function->body().results().empty();
  TP_RETURN_IF_ERROR(AddState(weights, context, *function));
  if (!returns)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the model returns no tensor"));
  EraseDeadOps(function->body());
  weights.RemoveUnused();
  TP_RETURN_IF_ERROR(Annotate(Verify(*module), "after import"));

  model.module = std::move(module);
  TP_RETURN_IF_ERROR(
      CheckExamples(*model.module, model.example_sizes, options));
  model.weights = MakeImportedWeights(MakeArchiveWeightSource(*archive),
                                      weights.constants());
  model.notes = std::move(context.notes);
  return model;
}

}  // namespace

absl::StatusOr<ImportedModel> ImportTorchScript(
    const std::string& path, const ImportOptions& options,
    std::unique_ptr<Module> module) {
  // LibTorch reports what it finds odd in a program by exceptions.
  try {
    return Import(path, options, std::move(module));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": LibTorch refuses the program: ", ShortError(error)));
  }
}

absl::Status CheckExamples(const Module& module,
                           llvm::ArrayRef<SymbolValues> example_sizes,
                           const ImportOptions& options) {
  for (size_t i = 1; i < example_sizes.size(); ++i) {
    for (const Guard& guard : module.assumptions().guards()) {
      absl::StatusOr<int64_t> lhs = guard.lhs.Evaluate(example_sizes[i]);
      absl::StatusOr<int64_t> rhs = guard.rhs.Evaluate(example_sizes[i]);
      // A size that depends on data is known only when the program runs.
      if (!lhs.ok() || !rhs.ok() || Holds(*lhs, guard.relation, *rhs)) continue;
      const std::string where = ToString(guard.location);
      return absl::FailedPreconditionError(absl::StrCat(
          ExampleName(options, i), " does not fit ", ExampleName(options, 0),
          ", whose sizes decide: the package would assume ", guard.ToString(),
          ", but here ", *lhs, " ", ToString(guard.relation), " ", *rhs,
          " does not hold (", guard.reason,
          where.empty() ? "" : absl::StrCat("; ", where),
          "). Leave one of the two files out; if the model itself takes both, "
          "compile a package for each"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tp
