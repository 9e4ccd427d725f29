// Reads a TorchScript archive into our IR: one function of tensors with
// symbolic sizes, without lists, views that are written, or control flow that
// sizes and attributes decide. Nothing of the model is executed.
#ifndef TP_FRONTEND_TORCHSCRIPT_IMPORTER_H_
#define TP_FRONTEND_TORCHSCRIPT_IMPORTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/attribute.h"
#include "ir/dtype.h"
#include "ir/mesh.h"
#include "ir/model_argument.h"
#include "ir/module.h"
#include "ir/weight_source.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// What an inputs file says of one tensor.
struct ExampleTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes;
  // The element of a tensor of one element: it may serve as a scalar argument.
  std::optional<Attribute> scalar;
};
using ExampleInputs = std::vector<ExampleTensor>;

struct ImportOptions {
  // One per --inputs file, at least one unless the model takes no tensors.
  // Dims that differ between them become symbols.
  std::vector<ExampleInputs> examples;
  // Their files, for messages; may be empty.
  std::vector<std::string> example_files;
  // Scalar arguments, "sr" -> "16000"; they are compiled in.
  std::vector<std::pair<std::string, std::string>> arguments;
  // Dims that are symbols although the examples agree in them, by input:
  // "input_ids:0=batch,1=seq".
  std::vector<std::string> dynamic;
  // Dropout stays; a model that drops nothing in evaluation mode may be
  // exported in training mode.
  bool train = false;
  // Whether every size is compiled in.
  bool static_sizes = false;
  // Whether an op without a row is an error; else every rank runs it whole.
  bool strict = false;
  Mesh mesh;
  std::string method = "forward";
  // The name of the function that the method becomes.
  std::string entry = "forward";
  // Operators to let through the archive check; see archive_check.h.
  std::vector<std::string> allow_ops;
};

struct ImportedModel {
  // With the function @<entry> added, whatever the method's name was. Its
  // weights are arguments named as in `weights`; inputs keep the method's
  // argument names, parts of nested ones are input_<position>. Outputs are the
  // tensors and numbers in what the method returns, depth first.
  std::unique_ptr<Module> module;
  // Weights by name, among them constants of the code ("constant.0").
  std::shared_ptr<const WeightSource> weights;
  // What was fixed or dropped while importing, for the user to know.
  std::vector<std::string> notes;
  // The module's symbols by example.
  std::vector<SymbolValues> example_sizes;
  // What the method takes, depth first.
  std::vector<ModelArgument> arguments;
};

// The errors of CheckArchive; InvalidArgument where the inputs do not fit the
// model, FailedPrecondition where they do not fit each other (CheckExamples),
// Unimplemented where the model does something that is not supported: control
// flow that depends on data, training mode, state, unknown operators (all of
// them in one message). Errors name the Python line and module.
// With a `module`, the function is added to it; its symbols then have names
// that no other function's have.
absl::StatusOr<ImportedModel> ImportTorchScript(
    const std::string& path, const ImportOptions& options,
    std::unique_ptr<Module> module = nullptr);

// An example that breaks a guard will not run: FailedPrecondition, naming
// guard, op, Python line and file. For asking again after passes, which may
// take guards of their own.
absl::Status CheckExamples(const Module& module,
                           llvm::ArrayRef<SymbolValues> example_sizes,
                           const ImportOptions& options);

}  // namespace tp

#endif  // TP_FRONTEND_TORCHSCRIPT_IMPORTER_H_
