// Imports models written as TorchScript in a test, and runs what came out.
#ifndef TESTS_TORCH_UNIT_IMPORT_TEST_UTIL_H_
#define TESTS_TORCH_UNIT_IMPORT_TEST_UTIL_H_

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "frontend/torchscript_importer.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "runtime/aten_kernel.h"
#include "runtime/session.h"

namespace tp::testing {

using Inputs = NamedTensors;

// A model from the source of its methods, whose attributes are tensors.
inline torch::jit::Module Script(const std::string& source,
                                 const NamedTensors& parameters = {},
                                 const NamedTensors& buffers = {}) {
  torch::jit::Module module("Model");
  for (const auto& [name, tensor] : parameters)
    module.register_parameter(name, tensor, /*is_buffer=*/false);
  for (const auto& [name, tensor] : buffers)
    module.register_buffer(name, tensor);
  module.define(source + "\n");
  return module;
}

inline ExampleInputs Example(const NamedTensors& inputs) {
  ExampleInputs example;
  for (const auto& [name, tensor] : inputs) {
    ExampleTensor input;
    input.name = name;
    input.dtype = *DTypeOf(tensor.scalar_type());
    input.sizes = tensor.sizes().vec();
    if (tensor.numel() == 1 && tensor.scalar_type() == at::kLong)
      input.scalar = Attribute(tensor.item<int64_t>());
    example.push_back(std::move(input));
  }
  return example;
}

inline std::string TempPath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/import_", getpid(), "_", name);
}

inline absl::StatusOr<ImportedModel> Import(
    const torch::jit::Module& module, const std::vector<NamedTensors>& examples,
    ImportOptions options = {}) {
  const std::string path = TempPath("model.pt");
  module.save(path);
  for (const NamedTensors& inputs : examples)
    options.examples.push_back(Example(inputs));
  options.mesh = *Mesh::Parse("tp=1");
  auto model = ImportTorchScript(path, options);
  unlink(path.c_str());
  return model;
}

// The weights of the model's function, in order.
inline std::vector<at::Tensor> Weights(const ImportedModel& model) {
  std::vector<at::Tensor> weights;
  for (const ArgumentInfo& argument :
       model.module->functions()[0]->arguments()) {
    if (!argument.is_weight()) continue;
    const WeightInfo* info = model.weights->Find(argument.name);
    if (info == nullptr) {
      ADD_FAILURE() << "no weight " << argument.name;
      continue;
    }
    auto storage = model.weights->View(*info);
    if (!storage.ok()) {
      ADD_FAILURE() << storage.status();
      continue;
    }
    std::vector<int64_t> sizes(info->sizes.begin(), info->sizes.end());
    at::Tensor weight = at::empty(sizes, ScalarTypeOf(info->dtype));
    EXPECT_TRUE(CopyBlock(*info, *storage, WholeBlock(info->sizes),
                          weight.data_ptr(), weight.nbytes())
                    .ok());
    weights.push_back(std::move(weight));
  }
  return weights;
}

inline absl::StatusOr<std::unique_ptr<Session>> OpenImported(
    const ImportedModel& model) {
  std::shared_ptr<Module> program = CloneModule(*model.module);
  program->set_rank(0);
  SessionOptions options;
  options.group.threads = 1;
  return Session::Create({program}, {Weights(model)}, options);
}

inline absl::StatusOr<std::vector<at::Tensor>> RunImported(
    const ImportedModel& model, const NamedTensors& inputs) {
  auto session = OpenImported(model);
  if (!session.ok()) return session.status();
  return (*session)->Run(inputs);
}

// What the model leaves behind in inputs and buffers is what LibTorch leaves.
inline void ExpectSameEffects(const torch::jit::Module& module,
                              const NamedTensors& inputs,
                              const NamedTensors& arguments,
                              const NamedTensors& written,
                              const NamedTensors& state) {
  std::map<std::string, at::Tensor> given(inputs.begin(), inputs.end());
  std::map<std::string, at::Tensor> now(arguments.begin(), arguments.end());
  for (const auto& [name, tensor] : written) given[name] = tensor;
  for (const auto& [name, tensor] : given)
    EXPECT_TRUE(at::equal(tensor, now[name])) << "input " << name;
  for (const auto& [name, tensor] : state) {
    bool found = false;
    for (const auto& buffer : module.named_buffers()) {
      if (buffer.name != name) continue;
      found = true;
      EXPECT_TRUE(at::equal(tensor, buffer.value)) << "buffer " << name << "\n"
                                                   << tensor << "\n"
                                                   << buffer.value;
    }
    EXPECT_TRUE(found) << "no buffer " << name;
  }
}

// Imports the model with examples[0..], runs it twice on each of them and
// compares with LibTorch, bit for bit: outputs, inputs written in place, and
// buffers, which carry from call to call.
inline void ExpectSameAsTorch(torch::jit::Module module,
                              const std::vector<NamedTensors>& examples,
                              ImportOptions options = {}) {
  auto model = Import(module, examples, std::move(options));
  ASSERT_TRUE(model.ok()) << model.status();
  auto session = OpenImported(*model);
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<NamedTensors> calls = examples;
  calls.insert(calls.end(), examples.begin(), examples.end());
  for (const NamedTensors& inputs : calls) {
    std::vector<c10::IValue> arguments;
    NamedTensors passed;
    for (const auto& [name, tensor] : inputs) {
      passed.emplace_back(name, tensor.clone());
      arguments.push_back(passed.back().second);
    }
    const c10::IValue result = module.forward(std::move(arguments));
    std::vector<at::Tensor> expected;
    if (result.isTensor()) expected.push_back(result.toTensor());
    if (result.isTuple())
      for (const c10::IValue& item : result.toTupleRef().elements())
        expected.push_back(item.toTensor());
    CallReport report;
    auto outputs = (*session)->Run(inputs, &report);
    ASSERT_TRUE(outputs.ok()) << outputs.status() << Print(*model->module);
    ASSERT_EQ(outputs->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ((*outputs)[i].scalar_type(), expected[i].scalar_type());
      EXPECT_TRUE(at::equal((*outputs)[i], expected[i]))
          << "output " << i << "\n"
          << Print(*model->module);
    }
    auto state = (*session)->State();
    ASSERT_TRUE(state.ok()) << state.status();
    ExpectSameEffects(module, inputs, passed, report.written, *state);
  }
}

// How often an op of that name is in the function.
inline int CountOps(const ImportedModel& model, llvm::StringRef name) {
  int count = 0;
  for (const auto& op : model.module->functions()[0]->body().ops())
    count += op->Is(name);
  return count;
}

}  // namespace tp::testing

#endif  // TESTS_TORCH_UNIT_IMPORT_TEST_UTIL_H_
