#include "frontend/reference_model.h"

#include <ATen/core/jit_type.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "frontend/archive_check.h"
#include "frontend/double_precision.h"
#include "ir/status.h"
#include "llvm/ADT/StringRef.h"

namespace tp {
namespace {

using NamedInputs = std::vector<std::pair<std::string, at::Tensor>>;

// Without the stack of C++ calls; of an error inside the model the last line,
// which says what is wrong, and not the trace of its code.
std::string ShortError(const std::exception& error) {
  llvm::StringRef text = error.what();
  text = text.take_front(text.find("\nException raised from")).rtrim();
  if (text.contains("Traceback of TorchScript"))
    text = text.substr(text.rfind('\n') + 1);
  text.consume_front("RuntimeError: ");
  return text.rtrim(".\n ").str();
}

// What torch.tensor(1.5) and the like give, for the life of the object.
class DefaultDType {
 public:
  explicit DefaultDType(c10::ScalarType type)
      : before_(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(type));
  }
  ~DefaultDType() { c10::set_default_dtype(before_); }
  DefaultDType(const DefaultDType&) = delete;
  DefaultDType& operator=(const DefaultDType&) = delete;

 private:
  caffe2::TypeMeta before_;
};

// Makes the arguments of the method from named tensors.
class ArgumentMaker {
 public:
  // `made` gets each tensor under its names.
  ArgumentMaker(const NamedInputs& inputs, const ReferenceOptions& options,
                NamedInputs& made)
      : inputs_(inputs), options_(options), made_(made) {}

  absl::StatusOr<c10::IValue> Make(
      const c10::TypePtr& type, const std::string& name,
      const std::optional<c10::IValue>& otherwise) {
    switch (type->kind()) {
      case c10::TypeKind::TupleType: {
        std::vector<c10::IValue> items;
        for (const c10::TypePtr& element : type->containedTypes()) {
          TP_ASSIGN_OR_RETURN(c10::IValue item,
                              Make(element, "", std::nullopt));
          items.push_back(std::move(item));
        }
        return c10::ivalue::Tuple::create(std::move(items));
      }
      case c10::TypeKind::ListType: {
        const c10::TypePtr element = type->containedTypes()[0];
        c10::impl::GenericList list(element);
        while (Find("") != nullptr) {
          TP_ASSIGN_OR_RETURN(c10::IValue item,
                              Make(element, "", std::nullopt));
          list.push_back(std::move(item));
        }
        return c10::IValue(list);
      }
      case c10::TypeKind::OptionalType: {
        const c10::TypePtr element = type->containedTypes()[0];
        const bool leaf = element->kind() != c10::TypeKind::TupleType &&
                          element->kind() != c10::TypeKind::ListType;
        const bool given = Find(name) != nullptr || Text(name) != nullptr;
        if (leaf && !given) {
          ++position_;
          return otherwise.value_or(c10::IValue());
        }
        return Make(element, name, otherwise);
      }
      default:
        return MakeLeaf(type, name, otherwise);
    }
  }

 private:
  std::string position() const { return absl::StrCat("input_", position_); }

  const at::Tensor* Find(const std::string& name) const {
    for (const auto& [given, tensor] : inputs_)
      if (!name.empty() && given == name) return &tensor;
    for (const auto& [given, tensor] : inputs_)
      if (given == position()) return &tensor;
    return nullptr;
  }
  const std::string* Text(const std::string& name) const {
    for (const auto& [given, text] : options_.arguments)
      if (given == name || given == position()) return &text;
    return nullptr;
  }

  absl::StatusOr<c10::IValue> MakeLeaf(
      const c10::TypePtr& type, const std::string& name,
      const std::optional<c10::IValue>& otherwise) {
    const std::string label = name.empty() ? position() : name;
    const at::Tensor* tensor = Find(name);
    const std::string* text = Text(name);
    ++position_;
    if (type->kind() == c10::TypeKind::TensorType) {
      if (tensor == nullptr && otherwise) return *otherwise;
      if (tensor == nullptr)
        return absl::InvalidArgumentError(
            absl::StrCat("the model's input '", label, "' is not given"));
      // The model may write to it.
      at::Tensor own = tensor->clone();
      if (options_.f64 && own.is_floating_point()) own = own.to(at::kDouble);
      if (!name.empty()) made_.emplace_back(name, own);
      made_.emplace_back(absl::StrCat("input_", position_ - 1), own);
      return c10::IValue(std::move(own));
    }
    if (text != nullptr) {
      int64_t integer = 0;
      double real = 0;
      bool flag = false;
      switch (type->kind()) {
        case c10::TypeKind::IntType:
          if (absl::SimpleAtoi(*text, &integer)) return c10::IValue(integer);
          break;
        case c10::TypeKind::FloatType:
          if (absl::SimpleAtod(*text, &real)) return c10::IValue(real);
          break;
        case c10::TypeKind::BoolType:
          if (absl::SimpleAtob(*text, &flag)) return c10::IValue(flag);
          break;
        case c10::TypeKind::StringType:
          return c10::IValue(*text);
        default:
          break;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "--arg ", label, "=", *text, ": not a ", type->repr_str()));
    }
    if (tensor != nullptr && tensor->numel() == 1) {
      const c10::Scalar scalar = tensor->item();
      if (type->kind() == c10::TypeKind::IntType)
        return c10::IValue(scalar.toLong());
      if (type->kind() == c10::TypeKind::FloatType)
        return c10::IValue(scalar.toDouble());
      if (type->kind() == c10::TypeKind::BoolType)
        return c10::IValue(scalar.toBool());
      return c10::IValue(scalar);
    }
    if (otherwise) return *otherwise;
    return absl::InvalidArgumentError(
        absl::StrCat("the model's argument '", label, "' (", type->repr_str(),
                     ") is not given; pass --arg ", label, "=VALUE"));
  }

  const NamedInputs& inputs_;
  const ReferenceOptions& options_;
  NamedInputs& made_;
  int position_ = 0;
};

void Flatten(const c10::IValue& value, std::vector<at::Tensor>& outputs) {
  if (value.isTensor()) {
    outputs.push_back(value.toTensor());
  } else if (value.isBool()) {
    outputs.push_back(at::scalar_tensor(value.toBool(), at::kBool));
  } else if (value.isInt()) {
    outputs.push_back(at::scalar_tensor(value.toInt(), at::kLong));
  } else if (value.isDouble()) {
    outputs.push_back(at::scalar_tensor(value.toDouble(), at::kDouble));
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements())
      Flatten(item, outputs);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) Flatten(item, outputs);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict())
      Flatten(entry.value(), outputs);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReferenceModel>> ReferenceModel::Load(
    const std::string& path, const ReferenceOptions& options) {
  ArchiveOptions archive_options;
  archive_options.allow_ops = options.allow_ops;
  TP_RETURN_IF_ERROR(CheckArchive(path, archive_options).status());
  try {
    torch::jit::Module module = torch::jit::load(path, at::kCPU);
    std::unique_ptr<ReferenceModel> model(
        new ReferenceModel(std::move(module), options));
    model->FindParameters();
    if (options.f64) ConvertToDouble(model->module_);
    return model;
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be loaded: ", ShortError(error)));
  }
}

// Tied parameters share a region of storage; once converted they do not.
void ReferenceModel::FindParameters() {
  using Region = std::tuple<const void*, int64_t, std::vector<int64_t>,
                            std::vector<int64_t>>;
  std::map<Region, size_t> known;
  for (const auto& parameter : module_.named_parameters()) {
    const at::Tensor& tensor = parameter.value;
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    const Region region(tensor.storage().unsafeGetStorageImpl(),
                        tensor.storage_offset(), tensor.sizes().vec(),
                        tensor.strides().vec());
    auto [place, inserted] = known.try_emplace(region, parameters_.size());
    if (inserted) parameters_.emplace_back();
    parameters_[place->second].push_back(parameter.name);
  }
}

absl::StatusOr<std::vector<at::Tensor>> ReferenceModel::Run(
    const std::vector<std::pair<std::string, at::Tensor>>& inputs) {
  at::NoGradGuard no_grad;
  return Call(inputs);
}

absl::StatusOr<ReferenceGradients> ReferenceModel::RunWithGradients(
    const std::vector<std::pair<std::string, at::Tensor>>& inputs) {
  at::AutoGradMode recording(true);
  std::map<std::string, at::Tensor> leaves;
  for (const auto& parameter : module_.named_parameters()) {
    leaves[parameter.name] = parameter.value;
  }
  std::vector<at::Tensor> wanted;
  std::vector<size_t> group_of;  // by wanted tensor
  for (size_t group = 0; group < parameters_.size(); ++group) {
    std::set<const void*> seen;  // several names may be of one tensor
    for (const std::string& name : parameters_[group]) {
      if (!seen.insert(leaves[name].unsafeGetTensorImpl()).second) continue;
      leaves[name].set_requires_grad(true);
      wanted.push_back(leaves[name]);
      group_of.push_back(group);
    }
  }
  ReferenceGradients result;
  TP_ASSIGN_OR_RETURN(result.outputs, Call(inputs));
  if (result.outputs.empty() || result.outputs[0].numel() != 1 ||
      !result.outputs[0].requires_grad())
    return absl::InvalidArgumentError(
        "output_0 of the unsharded model is no loss that depends on a "
        "trainable parameter");
  try {
    const std::vector<at::Tensor> gradients = torch::autograd::grad(
        {result.outputs[0].sum()}, wanted, {}, /*retain_graph=*/false,
        /*create_graph=*/false, /*allow_unused=*/true);
    std::vector<at::Tensor> sums(parameters_.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      at::Tensor& sum = sums[group_of[i]];
      if (!gradients[i].defined()) continue;
      sum = sum.defined() ? sum + gradients[i] : gradients[i];
    }
    for (size_t group = 0; group < sums.size(); ++group)
      if (sums[group].defined())
        result.gradients.emplace_back(parameters_[group][0], sums[group]);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the unsharded model's backward pass fails: ", ShortError(error)));
  }
  for (at::Tensor& output : result.outputs) output = output.detach();
  return result;
}

absl::StatusOr<std::vector<at::Tensor>> ReferenceModel::Call(
    const std::vector<std::pair<std::string, at::Tensor>>& inputs) {
  try {
    const auto method = module_.find_method(options_.method);
    if (!method)
      return absl::InvalidArgumentError(
          absl::StrCat("the model has no method '", options_.method, "'"));
    inputs_.clear();
    ArgumentMaker maker(inputs, options_, inputs_);
    std::vector<c10::IValue> arguments;
    const auto& formals = method->function().getSchema().arguments();
    for (size_t i = 1; i < formals.size(); ++i) {
      TP_ASSIGN_OR_RETURN(c10::IValue argument,
                          maker.Make(formals[i].type(), formals[i].name(),
                                     formals[i].default_value()));
      arguments.push_back(std::move(argument));
    }
    DefaultDType default_dtype(options_.f64 ? at::kDouble : at::kFloat);
    // Fusing changes the rounding.
    torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
    std::vector<at::Tensor> outputs;
    Flatten((*method)(std::move(arguments)), outputs);
    return outputs;
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the unsharded model fails on these inputs: ", ShortError(error),
        ". Is it the model that the package was made from?"));
  }
}

at::Tensor ReferenceModel::Attribute(const std::string& name) const {
  c10::IValue value = module_._ivalue();
  for (llvm::StringRef rest = name; !rest.empty();) {
    llvm::StringRef part;
    std::tie(part, rest) = rest.split('.');
    size_t index = 0;
    const bool is_index = !part.getAsInteger(10, index);
    if (value.isObject()) {
      const auto object = value.toObject();
      const auto slot = object->type()->findAttributeSlot(part.str());
      if (!slot) return {};
      value = object->getSlot(*slot);
    } else if (value.isGenericDict()) {
      const auto dict = value.toGenericDict();
      const c10::IValue text(part.str());
      const c10::IValue number(static_cast<int64_t>(index));
      const bool by_text = dict.keyType()->kind() == c10::TypeKind::StringType;
      if (!by_text && !is_index) return {};
      const auto found = dict.find(by_text ? text : number);
      if (found == dict.end()) return {};
      value = found->value();
    } else if (value.isList() || value.isTuple()) {
      const auto items =
          value.isList() ? value.toListRef() : value.toTupleRef().elements();
      if (!is_index || index >= items.size()) return {};
      value = c10::IValue(items[index]);
    } else {
      return {};
    }
  }
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

}  // namespace tp
