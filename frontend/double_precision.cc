#include "frontend/double_precision.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace tp {
namespace {

namespace jit = torch::jit;

bool IsNarrowFloat(c10::ScalarType type) {
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

class Converter {
 public:
  void ConvertObject(const c10::intrusive_ptr<c10::ivalue::Object>& object) {
    if (!objects_.insert(object.get()).second) return;
    const auto type = object->type();
    for (size_t i = 0; i < type->numAttributes(); ++i)
      ConvertValue(object->getSlot(i));
    for (jit::Function* method : type->methods()) ConvertFunction(*method);
  }

 private:
  void ConvertValue(const c10::IValue& value) {
    if (value.isObject()) {
      ConvertObject(value.toObject());
    } else if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.defined() && IsNarrowFloat(tensor.scalar_type()))
        tensor.set_data(tensor.detach().to(at::kDouble));
    } else if (value.isList()) {
      for (const c10::IValue& item : value.toListRef()) ConvertValue(item);
    } else if (value.isTuple()) {
      for (const c10::IValue& item : value.toTupleRef().elements())
        ConvertValue(item);
    } else if (value.isGenericDict()) {
      for (const auto& entry : value.toGenericDict())
        ConvertValue(entry.value());
    }
  }

  void ConvertFunction(jit::Function& function) {
    jit::GraphFunction* graph_function = jit::tryToGraphFunction(function);
    if (graph_function == nullptr || !functions_.insert(&function).second)
      return;
    ConvertBlock(*graph_function->graph()->block());
  }

  void ConvertBlock(jit::Block& block) {
    for (jit::Node* node : block.nodes()) {
      for (jit::Block* inner : node->blocks()) ConvertBlock(*inner);
      if (node->kind() == c10::prim::Constant) ConvertTensorConstant(*node);
      if (node->kind() == c10::prim::CallFunction) {
        if (auto type = node->input(0)->type()->cast<c10::FunctionType>())
          ConvertFunction(*type->function());
      }
      ConvertDTypes(*node);
    }
  }

  void ConvertTensorConstant(jit::Node& node) {
    if (!node.hasAttribute(c10::attr::value) ||
        node.kindOf(c10::attr::value) != jit::AttributeKind::t)
      return;
    const at::Tensor& tensor = node.t(c10::attr::value);
    if (tensor.defined() && IsNarrowFloat(tensor.scalar_type()))
      node.t_(c10::attr::value, tensor.to(at::kDouble));
  }

  // Whether that input of the node is a dtype.
  static bool TakesDType(const jit::Node& node, size_t input) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    size_t formal = input;
    if (node.kind() == c10::prim::CallFunction && input > 0) {
      auto type = node.input(0)->type()->cast<c10::FunctionType>();
      if (type != nullptr) schema = &type->function()->getSchema();
      formal = input - 1;
    } else if (node.kind() == c10::prim::CallMethod) {
      auto type = node.input(0)->type()->cast<c10::ClassType>();
      jit::Function* method =
          type == nullptr ? nullptr : type->findMethod(node.s(c10::attr::name));
      if (method != nullptr) schema = &method->getSchema();
    }
    return schema != nullptr && formal < schema->arguments().size() &&
           schema->arguments()[formal].name() == "dtype";
  }

  static void ConvertDTypes(jit::Node& node) {
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const auto constant = jit::toIValue(node.input(i));
      if (!constant || !constant->isInt() || !TakesDType(node, i)) continue;
      if (!IsNarrowFloat(static_cast<c10::ScalarType>(constant->toInt())))
        continue;
      jit::WithInsertPoint before(&node);
      node.replaceInput(i, node.owningGraph()->insertConstant(
                               static_cast<int64_t>(at::kDouble)));
    }
  }

  std::set<const void*> objects_;
  std::set<const jit::Function*> functions_;
};

}  // namespace

void ConvertToDouble(torch::jit::Module& module) {
  at::NoGradGuard no_grad;
  Converter().ConvertObject(module._ivalue());
}

}  // namespace tp
