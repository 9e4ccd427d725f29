// From example inputs to the arguments of the imported function: which tensor
// of the inputs files is which argument of the model, and which dims are
// symbols.
#ifndef TP_FRONTEND_INPUT_BINDING_H_
#define TP_FRONTEND_INPUT_BINDING_H_

#include <ATen/core/function_schema.h>

#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "frontend/torchscript_importer.h"

namespace tp {

// Adds an argument to `function` for every tensor the method takes, and gives
// the values of all its arguments (without self). Also sets `example_sizes`
// and `arguments` of the model. InvalidArgument: an input
// that is missing, unknown, or of different kind in two examples.
absl::StatusOr<std::vector<AbstractValue>> BindInputs(
    const c10::FunctionSchema& schema, const ImportOptions& options,
    ImportContext& context, Function& function, ImportedModel& model);

}  // namespace tp

#endif  // TP_FRONTEND_INPUT_BINDING_H_
