#include "frontend/graph_interpreter.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>

#include "absl/strings/str_cat.h"
#include "frontend/container_ops.h"
#include "frontend/grown_list.h"
#include "frontend/op_call.h"
#include "frontend/runtime_numbers.h"
#include "frontend/scalar_ops.h"
#include "frontend/tensor_ops.h"
#include "frontend/tensor_queries.h"
#include "frontend/torch_types.h"
#include "ir/op_def.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

namespace jit = torch::jit;
using Values = std::vector<AbstractValue>;

constexpr int kMaxDepth = 200;
constexpr int64_t kMaxIterations = 1 << 16;

Values One(AbstractValue value) {
  Values values;
  values.push_back(std::move(value));
  return values;
}

ScalarKind KindOf(const c10::FunctionSchema* schema) {
  if (schema == nullptr || schema->returns().size() != 1)
    return ScalarKind::kOther;
  switch (schema->returns()[0].type()->kind()) {
    case c10::TypeKind::BoolType:
      return ScalarKind::kBool;
    case c10::TypeKind::IntType:
      return ScalarKind::kInt;
    case c10::TypeKind::FloatType:
      return ScalarKind::kFloat;
    default:
      return ScalarKind::kOther;
  }
}

// Ops that store a value without looking at it.
bool StoresValues(llvm::StringRef op) {
  return llvm::StringSwitch<bool>(op)
      .Cases("prim::ListConstruct", "prim::TupleConstruct",
             "prim::DictConstruct", "aten::append", "aten::_set_item", true)
      .Default(false);
}

// Whether an op on numbers has to wait until the model runs: one of them is
// computed from data, or is a size that depends on data and the op's result is
// no expression of sizes.
bool NeedsRuntime(llvm::StringRef op, const Values& arguments,
                  ImportContext& context) {
  bool sizes = false;
  for (const AbstractValue& argument : arguments) {
    if (argument.is_runtime_number()) return true;
    sizes = sizes || DependsOnData(argument, context);
  }
  if (!sizes) return false;
  const bool has_float = llvm::any_of(
      arguments, [](const AbstractValue& value) { return value.is_float(); });
  std::optional<Relation> relation =
      llvm::StringSwitch<std::optional<Relation>>(op)
          .Case("aten::eq", Relation::kEq)
          .Case("aten::ne", Relation::kNe)
          .Case("aten::lt", Relation::kLt)
          .Case("aten::le", Relation::kLe)
          .Case("aten::gt", Relation::kGt)
          .Case("aten::ge", Relation::kGe)
          .Default(std::nullopt);
  if (relation && arguments.size() == 2 && arguments[0].is_int() &&
      arguments[1].is_int())
    return !context.module.assumptions().Known(arguments[0].as_int(), *relation,
                                               arguments[1].as_int());
  const bool symbolic =
      llvm::StringSwitch<bool>(op)
          .Cases("aten::add", "aten::sub", "aten::mul", "aten::floordiv",
                 "aten::remainder", "aten::neg", true)
          .Cases("prim::min", "prim::max", "aten::Int", "aten::IntImplicit",
                 "aten::ScalarImplicit", "aten::__range_length", true)
          .Cases("aten::__derive_index", "prim::abs", true)
          .Default(false);
  return has_float || !symbolic;
}

// Questions about how the program runs, and calls whose only effect is on
// what is printed or on autograd.
std::optional<Values> EnvironmentOp(llvm::StringRef op,
                                    const Values& arguments) {
  const bool no = llvm::StringSwitch<bool>(op)
                      .Cases("aten::is_autocast_enabled",
                             "aten::is_autocast_cpu_enabled", true)
                      .Cases("aten::has_torch_function", "prim::is_tracing",
                             "aten::is_tracing", true)
                      .Default(false);
  if (no) return One(false);
  // Gradients: see prim::requires_grad.
  if (op == "aten::is_scripting" || op == "aten::is_grad_enabled")
    return One(true);
  const bool silent =
      llvm::StringSwitch<bool>(op)
          .Cases("aten::warn", "prim::Print", "prim::Enter", "prim::Exit",
                 "aten::set_grad_enabled", true)
          .Cases("aten::_assert_async", "aten::_assert_tensor_metadata",
                 "aten::_functional_assert_async", true)
          .Default(false);
  if (silent) return Values();
  if (op == "aten::device" && !arguments.empty() && arguments[0].is_string())
    return One(DeviceValue{arguments[0].as_string()});
  if (op == "prim::type" && arguments.size() == 1 && arguments[0].is_device()) {
    const std::string& name = arguments[0].as_device().name;
    return One(name.substr(0, name.find(':')));
  }
  if (op == "prim::index" && arguments.size() == 1 && arguments[0].is_device())
    return One(NoneValue{});
  return std::nullopt;
}

// Whether the value is of the type, as far as types of values are kept.
std::optional<bool> IsInstance(const AbstractValue& value,
                               const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return value.is_tensor();
    case c10::TypeKind::IntType:
      return value.is_int();
    case c10::TypeKind::FloatType:
      return value.is_float();
    case c10::TypeKind::BoolType:
      return value.is_bool();
    case c10::TypeKind::StringType:
      return value.is_string();
    case c10::TypeKind::NoneType:
      return value.is_none();
    case c10::TypeKind::NumberType:
      return value.is_number() && !value.is_bool();
    case c10::TypeKind::AnyListType:
    case c10::TypeKind::ListType:
      return value.is_list();
    case c10::TypeKind::AnyTupleType:
    case c10::TypeKind::TupleType:
      return value.is_tuple();
    case c10::TypeKind::DictType:
      return value.is_dict();
    case c10::TypeKind::DeviceObjType:
      return value.is_device();
    case c10::TypeKind::ClassType:
      return value.is_object() && value.as_object()->type->isSubtypeOf(*type);
    case c10::TypeKind::OptionalType:
      if (value.is_none()) return true;
      return IsInstance(value,
                        type->expectRef<c10::OptionalType>().getElementType());
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<AbstractValue> GraphInterpreter::CallMethod(
    const AbstractValue::Object& object, const std::string& method,
    std::vector<AbstractValue> arguments) {
  jit::Function* function = object->type->findMethod(method);
  if (function == nullptr)
    return context_.Invalid(absl::StrCat(object->type->repr_str(),
                                         " has no method '", method, "'"));
  arguments.insert(arguments.begin(), object);
  const bool is_module = object->object != nullptr;
  return Call(*function, std::move(arguments),
              is_module ? object->path : context_.location().module_path);
}

absl::StatusOr<AbstractValue> GraphInterpreter::Call(
    jit::Function& function, Values arguments, const std::string& module_path) {
  jit::GraphFunction* graph_function = jit::tryToGraphFunction(function);
  if (graph_function == nullptr)
    return context_.Unsupported(
        absl::StrCat("calls ", function.name(), ", which has no TorchScript"));
  if (depth_ >= kMaxDepth)
    return context_.Unsupported("calls are nested too deeply (recursion?)");
  const std::shared_ptr<jit::Graph> graph = graph_function->graph();
  if (graph->inputs().size() != arguments.size() ||
      graph->outputs().size() != 1)
    return context_.Invalid(absl::StrCat(function.name(), " takes ",
                                         graph->inputs().size(),
                                         " arguments, got ", arguments.size()));
  Frame frame;
  frame.module_path = module_path;
  frame.location = context_.location();
  for (size_t i = 0; i < arguments.size(); ++i)
    frame.values[graph->inputs()[i]] = std::move(arguments[i]);
  const Location caller = context_.location();
  ++depth_;
  frames_.push_back(&frame);
  absl::Status status = RunBlock(*graph->block(), frame);
  frames_.pop_back();
  --depth_;
  TP_RETURN_IF_ERROR(status);
  context_.builder.set_location(caller);
  return frame.values[graph->outputs()[0]];
}

absl::Status GraphInterpreter::RunBlock(const jit::Block& block, Frame& frame) {
  for (const jit::Node* node : block.nodes())
    TP_RETURN_IF_ERROR(RunNode(*node, frame));
  return absl::OkStatus();
}

absl::Status GraphInterpreter::RunNode(const jit::Node& node, Frame& frame) {
  Location location = LocationOf(node, frame.module_path);
  if (location.file.empty()) {
    // Tracing gives calls no place; the line before is the nearest.
    location = frame.location;
    location.module_path = frame.module_path;
  } else {
    frame.location = location;
  }
  context_.builder.set_location(std::move(location));
  TP_ASSIGN_OR_RETURN(Values results, Evaluate(node, frame));
  const auto outputs = node.outputs();
  if (results.size() < outputs.size())
    return context_.Unsupported(
        absl::StrCat(node.kind().toQualString(), " gives ", outputs.size(),
                     " values, of which ", results.size(), " are supported"));
  for (size_t i = 0; i < outputs.size(); ++i)
    frame.values[outputs[i]] = std::move(results[i]);
  return absl::OkStatus();
}

Values GraphInterpreter::Arguments(c10::ArrayRef<const jit::Value*> inputs,
                                   const Frame& frame) const {
  Values arguments;
  arguments.reserve(inputs.size());
  for (const jit::Value* input : inputs) {
    auto found = frame.values.find(input);
    arguments.push_back(found == frame.values.end() ? AbstractValue()
                                                    : found->second);
  }
  return arguments;
}

absl::StatusOr<Values> GraphInterpreter::Evaluate(const jit::Node& node,
                                                  Frame& frame) {
  switch (node.kind()) {
    case c10::prim::Constant: {
      // Functions are constants without a value; calls find them by type.
      const auto value = jit::toIValue(node.output());
      if (!value) return One(NoneValue{});
      TP_ASSIGN_OR_RETURN(AbstractValue constant,
                          weights_.FromIValue(*value, ""));
      return One(constant);
    }
    case c10::prim::If:
      return RunIf(node, frame);
    case c10::prim::Loop:
      return RunLoop(node, frame);
    case c10::prim::Uninitialized:
      return One(
          AbstractValue(UnknownValue{"a variable that is not set", true}));
    default:
      break;
  }
  const Values arguments = Arguments(node.inputs(), frame);
  switch (node.kind()) {
    case c10::prim::CallMethod:
    case c10::prim::CallFunction:
      return RunCall(node, arguments, frame);
    case c10::prim::GetAttr:
    case c10::prim::SetAttr:
    case c10::prim::CreateObject:
    case c10::prim::isinstance:
      return RunObjectOp(node, arguments);
    case c10::prim::RaiseException:
      // Whether it comes to that depends on data.
      if (context_.branches.open()) {
        context_.builder.CreateTyped(
            "tp.raise", {},
            {{"message", arguments.empty() ? "" : arguments[0].ToString()}},
            {});
        return Values();
      }
      return context_.Invalid(
          absl::StrCat("with these inputs the model raises an exception: ",
                       arguments.empty() ? "" : arguments[0].ToString()));
    case c10::prim::unchecked_cast:
    case c10::prim::unchecked_unwrap_optional:
      return One(arguments[0]);
    case c10::prim::TupleSlice: {
      const Values* items = arguments[0].items();
      const int64_t begin = node.i(c10::attr::beg);
      const int64_t end = node.i(c10::attr::end);
      if (items == nullptr || begin < 0 || begin > end ||
          end > static_cast<int64_t>(items->size()))
        return context_.Invalid("a slice of no tuple");
      return One(AbstractValue::MakeTuple(
          Values(items->begin() + begin, items->begin() + end)));
    }
    default:
      return RunOp(node, arguments);
  }
}

absl::StatusOr<bool> GraphInterpreter::IsTrue(const AbstractValue& condition) {
  if (condition.is_unknown()) {
    TP_RETURN_IF_ERROR(context_.MissingOps());
    return context_.Unsupported(
        absl::StrCat("control flow depends on a value that is not known (",
                     condition.reason(),
                     "); compute both ways and choose by torch.where, or "
                     "trace the model where one way is always taken"));
  }
  TP_ASSIGN_OR_RETURN(std::optional<bool> truth, Truth(condition, context_));
  if (!truth)
    return context_.Unsupported("a condition of type " + condition.KindName());
  return *truth;
}

absl::StatusOr<Values> GraphInterpreter::RunIf(const jit::Node& node,
                                               Frame& frame) {
  const AbstractValue condition = Arguments(node.inputs(), frame)[0];
  if (condition.is_runtime_number()) {
    TP_ASSIGN_OR_RETURN(std::optional<AbstractValue> truth,
                        EvaluateRuntimeNumberOp("aten::Bool", {condition},
                                                ScalarKind::kBool, context_));
    return RunIfAtRunTime(node, frame, truth->as_runtime_number());
  }
  TP_ASSIGN_OR_RETURN(bool taken, IsTrue(condition));
  const jit::Block& block = *node.blocks()[taken ? 0 : 1];
  TP_RETURN_IF_ERROR(RunBlock(block, frame));
  return Arguments(block.outputs(), frame);
}

absl::StatusOr<Values> GraphInterpreter::RunLoop(const jit::Node& node,
                                                 Frame& frame) {
  Values carried = Arguments(node.inputs(), frame);
  const AbstractValue limit = carried[0];
  AbstractValue condition = carried[1];
  carried.erase(carried.begin(), carried.begin() + 2);
  const jit::Block& body = *node.blocks()[0];
  const Location place = context_.location();
  if (DependsOnData(limit, context_) || condition.is_runtime_number())
    return RunLoopAtRunTime(node, frame, {limit, condition, 0, carried});
  if (!limit.is_int()) return IsTrue(limit).status();
  TP_ASSIGN_OR_RETURN(
      int64_t count,
      context_.Concrete(limit.as_int(), "the trip count of a loop"));
  for (int64_t i = 0; i < count; ++i) {
    context_.builder.set_location(place);
    if (condition.is_runtime_number())
      return RunLoopAtRunTime(
          node, frame, {SymExpr(count), condition, i, std::move(carried)});
    TP_ASSIGN_OR_RETURN(bool again, IsTrue(condition));
    if (!again) break;
    if (++iterations_ > kMaxIterations)
      return context_.Unsupported(
          absl::StrCat("unrolling the model's loops takes more than ",
                       kMaxIterations, " iterations"));
    frame.values[body.inputs()[0]] = SymExpr(i);
    for (size_t k = 0; k < carried.size(); ++k)
      frame.values[body.inputs()[k + 1]] = std::move(carried[k]);
    TP_RETURN_IF_ERROR(RunBlock(body, frame));
    carried = Arguments(body.outputs(), frame);
    condition = carried[0];
    carried.erase(carried.begin());
  }
  return carried;
}

absl::StatusOr<Values> GraphInterpreter::RunCall(const jit::Node& node,
                                                 const Values& arguments,
                                                 Frame& frame) {
  Values rest(arguments.begin() + 1, arguments.end());
  if (node.kind() == c10::prim::CallFunction) {
    const auto type = node.input(0)->type()->cast<c10::FunctionType>();
    if (type == nullptr)
      return context_.Unsupported("a call of a function passed as a value");
    TP_ASSIGN_OR_RETURN(
        AbstractValue result,
        Call(*type->function(), std::move(rest), frame.module_path));
    return One(result);
  }
  if (!arguments[0].is_object()) {
    if (arguments[0].is_unknown()) return Values(1, arguments[0]);
    return context_.Unsupported("a method of a " + arguments[0].KindName());
  }
  TP_ASSIGN_OR_RETURN(AbstractValue result,
                      CallMethod(arguments[0].as_object(),
                                 node.s(c10::attr::name), std::move(rest)));
  return One(result);
}

absl::StatusOr<Values> GraphInterpreter::RunObjectOp(const jit::Node& node,
                                                     const Values& arguments) {
  if (node.kind() == c10::prim::CreateObject) {
    auto object = std::make_shared<ObjectValue>();
    object->type = node.output()->type()->expect<c10::ClassType>();
    return One(object);
  }
  if (arguments[0].is_unknown()) return Values(1, arguments[0]);
  if (node.kind() == c10::prim::isinstance) {
    bool any = false;
    for (const c10::TypePtr& type : node.tys(c10::attr::types)) {
      std::optional<bool> is = IsInstance(arguments[0], type);
      if (!is)
        return context_.Unsupported(
            absl::StrCat("isinstance() of ", type->repr_str()));
      any = any || *is;
    }
    return One(any);
  }
  const std::string& name = node.s(c10::attr::name);
  if (!arguments[0].is_object())
    return context_.Unsupported(absl::StrCat("the attribute '", name, "' of a ",
                                             arguments[0].KindName()));
  ObjectValue& object = *arguments[0].as_object();
  if (node.kind() == c10::prim::GetAttr) {
    TP_ASSIGN_OR_RETURN(AbstractValue value,
                        weights_.GetAttribute(object, name));
    return One(value);
  }
  // Read first, so that AddState knows what it was.
  if (object.object != nullptr)
    TP_RETURN_IF_ERROR(weights_.GetAttribute(object, name).status());
  context_.branches.Touch(arguments[0]);
  object.attributes[name] = arguments[1];
  return Values();
}

absl::StatusOr<Values> GraphInterpreter::RunOp(const jit::Node& node,
                                               const Values& arguments) {
  const llvm::StringRef op = node.kind().toQualString();
  const size_t num_results = node.outputs().size();
  const c10::FunctionSchema* schema = node.maybeSchema();
  const UnknownValue* unknown = nullptr;
  for (const AbstractValue& argument : arguments)
    if (argument.is_unknown() && unknown == nullptr)
      unknown = argument.FindUnknown();
  if (unknown == nullptr || StoresValues(op)) {
    TP_ASSIGN_OR_RETURN(std::optional<Values> grown,
                        EvaluateGrownListOp(op, arguments, context_));
    if (grown) return *std::move(grown);
    TP_ASSIGN_OR_RETURN(
        std::optional<Values> results,
        EvaluateContainerOp(op, arguments, num_results, context_));
    if (results) return *std::move(results);
  }
  if (std::optional<Values> results = EnvironmentOp(op, arguments)) {
    while (results->size() < num_results) results->push_back(AbstractValue());
    return *std::move(results);
  }
  if (op == "aten::_unwrap_optional" && arguments.size() == 1) {
    if (arguments[0].is_none())
      return context_.Invalid("an optional value that is needed is None");
    return One(arguments[0]);
  }
  if (NeedsRuntime(op, arguments, context_)) {
    TP_ASSIGN_OR_RETURN(
        std::optional<AbstractValue> number,
        EvaluateRuntimeNumberOp(op, arguments, KindOf(schema), context_));
    if (number) return One(*number);
  }
  TP_ASSIGN_OR_RETURN(
      std::optional<AbstractValue> scalar,
      EvaluateScalarOp(op, arguments, KindOf(schema), context_));
  if (scalar) return One(*scalar);
  TP_ASSIGN_OR_RETURN(std::optional<AbstractValue> answer,
                      EvaluateTensorQuery(op, arguments, context_));
  if (answer) return One(*answer);
  for (const AbstractValue& argument : arguments)
    if (unknown == nullptr) unknown = argument.FindUnknown();
  if (unknown != nullptr) {
    if (schema != nullptr && WritesArguments(*schema)) {
      TP_RETURN_IF_ERROR(context_.MissingOps());
      return context_.Unsupported(absl::StrCat(
          "writes a value that is not known (", unknown->reason, ")"));
    }
    const bool is_aten = op.starts_with("aten::");
    if (schema != nullptr && is_aten && !schema->returns().empty() &&
        schema->returns()[0].type()->kind() == c10::TypeKind::TensorType) {
      const std::string name = OpName(schema->operator_name());
      if (context_.strict && FindOpDef(name) == nullptr)
        context_.AddMissing(name);
    }
    return Values(num_results, AbstractValue(*unknown));
  }
  if (op == "prim::data") {
    auto detach = c10::Dispatcher::singleton().findSchema({"aten::detach", ""});
    if (detach) return ImportTensorOp(detach->schema(), arguments, context_);
  }
  if (schema == nullptr)
    return context_.Unsupported(
        absl::StrCat("the TorchScript op ", op.str(), " is not supported"));
  return ImportTensorOp(*schema, arguments, context_);
}

}  // namespace tp
