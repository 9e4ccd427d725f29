#include "frontend/grown_list.h"

#include "absl/strings/str_cat.h"
#include "frontend/runtime_numbers.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

using Values = std::vector<AbstractValue>;
using Results = absl::StatusOr<std::optional<Values>>;

absl::StatusOr<Value*> Make(const char* name, std::vector<OperandArg> operands,
                            ImportContext& context,
                            std::vector<NamedAttribute> attributes = {}) {
  TP_ASSIGN_OR_RETURN(Op * op, context.builder.Create(name, std::move(operands),
                                                      std::move(attributes)));
  return op->result();
}

absl::StatusOr<Value*> ContentOf(const AbstractValue& element,
                                 ImportContext& context) {
  if (element.is_tensor()) return context.aliases.Read(element.as_tensor());
  return NumberValue(element, context);
}

// A list like `list` that holds `value`.
AbstractValue GrownOf(Value* value, const ListValue& list,
                      ImportContext& context) {
  auto result = std::make_shared<ListValue>();
  result->grown = context.aliases.NewMaybeAlias(list.grown, value);
  result->grown_numbers = list.grown_numbers;
  return result;
}

AbstractValue ElementOf(Value* value, const ListValue& list,
                        ImportContext& context) {
  if (list.grown_numbers) return RuntimeNumber{value};
  return context.aliases.NewMaybeAlias(list.grown, value);
}

Results Append(const AbstractValue& list, const AbstractValue& element,
               ImportContext& context) {
  const ListValue& before = *list.as_list();
  const TensorType& type = before.grown->type();
  ElementType expected{type, before.grown_numbers};
  expected.type.dims.erase(expected.type.dims.begin());
  std::optional<ElementType> given = ElementTypeOf(element);
  if (!given || !(*given == expected))
    return context.Unsupported(absl::StrCat(
        "appends a ", given ? ToString(given->type) : element.KindName(),
        " to a list whose length depends on data and whose elements are ",
        ToString(expected.type), "; they would have to be alike"));
  TP_ASSIGN_OR_RETURN(Value * all, context.aliases.Read(before.grown));
  TP_ASSIGN_OR_RETURN(Value * last, ContentOf(element, context));
  TP_ASSIGN_OR_RETURN(
      last, Make("aten.unsqueeze", {last}, context, {{"dim", int64_t{0}}}));
  TP_ASSIGN_OR_RETURN(
      Value * longer,
      Make("aten.cat", {std::vector<Value*>{all, last}}, context));
  context.branches.Touch(list);
  TensorRef grown = context.aliases.NewTensor(longer);
  context.aliases.Join(grown, before.grown);
  if (element.is_tensor()) context.aliases.Join(grown, element.as_tensor());
  list.as_list()->grown = grown;
  return Values{list};
}

// grown[index], where the length is not known.
Results GetItem(const ListValue& list, const AbstractValue& index,
                ImportContext& context) {
  TP_ASSIGN_OR_RETURN(Value * all, context.aliases.Read(list.grown));
  const SymExpr& length = all->type().dims[0];
  std::optional<int64_t> constant =
      index.is_int() ? index.as_int().AsConstant() : std::nullopt;
  Value* element = nullptr;
  if (constant) {
    TP_ASSIGN_OR_RETURN(element, Make("aten.select.int", {all}, context,
                                      {{"dim", 0}, {"index", *constant}}));
    return Values{ElementOf(element, list, context)};
  }
  if (!index.is_int() && !index.is_runtime_number())
    return context.Invalid("an index that is no integer");
  TP_ASSIGN_OR_RETURN(Value * at, WrappedIndex(index, length, context));
  TP_ASSIGN_OR_RETURN(
      element, Make("aten.index_select", {all, at}, context, {{"dim", 0}}));
  TP_ASSIGN_OR_RETURN(
      element, Make("aten.squeeze.dim", {element}, context, {{"dim", 0}}));
  return Values{ElementOf(element, list, context)};
}

// Python's slice with a step of 1 and known bounds; one of a length that is
// certain gives an ordinary list.
Results Slice(const ListValue& list, llvm::ArrayRef<AbstractValue> bounds,
              ImportContext& context) {
  TP_ASSIGN_OR_RETURN(Value * all, context.aliases.Read(list.grown));
  const SymExpr& length = all->type().dims[0];
  const int64_t least = length.LowerBound().value_or(0);
  SymExpr positions[2] = {0, length};
  for (size_t i = 0; i < bounds.size() && i < 3; ++i) {
    if (bounds[i].is_none()) continue;
    std::optional<int64_t> bound =
        bounds[i].is_int() ? bounds[i].as_int().AsConstant() : std::nullopt;
    if (i == 2) {
      if (bound == 1) continue;
      return context.Unsupported(
          "a slice with a step of a list whose length depends on data");
    }
    if (!bound || (*bound < 0 ? -*bound : *bound) > least)
      return context.Unsupported(absl::StrCat(
          "a slice of a list whose length depends on data and is known to be "
          "at least ",
          least, " only"));
    positions[i] = *bound < 0 ? length + *bound : SymExpr(*bound);
  }
  const SymExpr count = positions[1] - positions[0];
  if (std::optional<int64_t> known = count.AsConstant()) {
    Values items;
    for (int64_t i = 0; i < *known; ++i) {
      // From whichever end is certain.
      SymExpr at = positions[0] + i;
      if (!at.is_constant()) at = at - length;
      TP_ASSIGN_OR_RETURN(std::optional<Values> item,
                          GetItem(list, at, context));
      items.push_back((*item)[0]);
    }
    return Values{AbstractValue::MakeList(std::move(items))};
  }
  if (!context.module.assumptions()
           .Known(count, Relation::kGe, 0)
           .value_or(false))
    return context.Unsupported(
        "a slice of a list whose length depends on data that may be empty");
  TP_ASSIGN_OR_RETURN(
      Value * part,
      Make("aten.slice.Tensor", {all}, context,
           {{"dim", 0}, {"start", positions[0]}, {"end", positions[1]}}));
  return Values{GrownOf(part, list, context)};
}

// stack(list, dim) and cat(list, dim).
Results JoinElements(llvm::StringRef op, const ListValue& list,
                     const AbstractValue& dim, ImportContext& context) {
  TP_ASSIGN_OR_RETURN(Value * all, context.aliases.Read(list.grown));
  const bool stacks = op == "aten::stack";
  const int ndim = all->type().ndim() - (stacks ? 0 : 1);
  std::optional<int64_t> at =
      dim.is_int() ? dim.as_int().AsConstant() : std::nullopt;
  if (!at || *at < -ndim || *at >= ndim || list.grown_numbers)
    return context.Invalid(absl::StrCat(op.str(), " along a dim that is none"));
  if (*at < 0) *at += ndim;
  Value* joined = all;
  if (*at > 0) {
    TP_ASSIGN_OR_RETURN(joined,
                        Make("aten.movedim.int", {all}, context,
                             {{"source", int64_t{0}}, {"destination", *at}}));
  }
  if (!stacks) {
    TP_ASSIGN_OR_RETURN(joined,
                        Make("aten.flatten.using_ints", {joined}, context,
                             {{"start_dim", *at}, {"end_dim", *at + 1}}));
  }
  return Values{context.aliases.NewTensor(joined)};
}

bool StoresLists(llvm::StringRef op) {
  return op == "prim::ListConstruct" || op == "prim::TupleConstruct" ||
         op == "prim::DictConstruct" || op == "prim::TupleUnpack" ||
         op == "prim::TupleIndex" || op == "prim::ListUnpack" ||
         op == "aten::__is__" || op == "aten::__isnot__";
}

}  // namespace

absl::StatusOr<Value*> WrappedIndex(const AbstractValue& index,
                                    const SymExpr& size,
                                    ImportContext& context) {
  TP_ASSIGN_OR_RETURN(Value * at, NumberValue(index, context, DType::kI64));
  TP_ASSIGN_OR_RETURN(Value * length, NumberValue(size, context));
  TP_ASSIGN_OR_RETURN(Value * negative, Make("aten.lt.Scalar", {at}, context,
                                             {{"other", int64_t{0}}}));
  TP_ASSIGN_OR_RETURN(Value * shift,
                      Make("aten.mul.Tensor", {negative, length}, context));
  TP_ASSIGN_OR_RETURN(at, Make("aten.add.Tensor", {at, shift}, context));
  return Make("aten.reshape", {at}, context,
              {{"shape", Attribute::Ints(llvm::ArrayRef<int64_t>(1))}});
}

std::optional<ElementType> ElementTypeOf(const AbstractValue& element) {
  if (element.is_tensor())
    return ElementType{element.as_tensor()->type(), false};
  if (element.is_number() || element.is_runtime_number())
    return ElementType{{NumberDType(element), {}}, true};
  return std::nullopt;
}

std::optional<ElementType> ElementTypeOf(const ListValue& list) {
  if (list.grown != nullptr) {
    ElementType type{list.grown->type(), list.grown_numbers};
    type.type.dims.erase(type.type.dims.begin());
    return type;
  }
  std::optional<ElementType> common;
  for (const AbstractValue& item : list.items) {
    std::optional<ElementType> type = ElementTypeOf(item);
    if (!type || (common && !(*common == *type))) return std::nullopt;
    common = type;
  }
  return common;
}

absl::StatusOr<Value*> StackElements(const ListValue& list,
                                     const ElementType& element,
                                     ImportContext& context) {
  if (list.grown != nullptr) return context.aliases.Read(list.grown);
  if (list.items.empty()) {
    Dims dims = element.type.dims;
    dims.insert(dims.begin(), SymExpr(0));
    return Make("aten.zeros", {}, context,
                {{"size", Attribute::Ints(dims)},
                 {"dtype", Attribute(element.type.dtype)}});
  }
  std::vector<Value*> values;
  for (const AbstractValue& item : list.items) {
    TP_ASSIGN_OR_RETURN(Value * value, ContentOf(item, context));
    values.push_back(value);
  }
  return Make("aten.stack", {values}, context);
}

bool HoldsGrownList(const AbstractValue& value) {
  if (value.is_grown_list()) return true;
  const Values* items = value.items();
  return items != nullptr && llvm::any_of(*items, HoldsGrownList);
}

absl::StatusOr<std::optional<std::vector<AbstractValue>>> EvaluateGrownListOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    ImportContext& context) {
  if (arguments.empty()) return std::nullopt;
  if (op == "aten::__getitem__" && arguments.size() == 2 &&
      arguments[0].is_list() && !arguments[0].is_grown_list() &&
      DependsOnData(arguments[1], context)) {
    const ListValue& list = *arguments[0].as_list();
    std::optional<ElementType> type = ElementTypeOf(list);
    if (!type) return std::nullopt;
    ListValue stacked;
    TP_ASSIGN_OR_RETURN(Value * all, StackElements(list, *type, context));
    stacked.grown = context.aliases.NewTensor(all);
    stacked.grown_numbers = type->numbers;
    for (const AbstractValue& item : list.items)
      if (item.is_tensor())
        context.aliases.Join(stacked.grown, item.as_tensor());
    return GetItem(stacked, arguments[1], context);
  }
  if (!llvm::any_of(arguments, HoldsGrownList) || StoresLists(op))
    return std::nullopt;
  const size_t count = arguments.size();
  if (arguments[0].is_grown_list()) {
    const ListValue& list = *arguments[0].as_list();
    if (op == "aten::append" && count == 2)
      return Append(arguments[0], arguments[1], context);
    if (op == "aten::len") return Values{list.grown->type().dims[0]};
    if (op == "aten::__getitem__" && count == 2)
      return GetItem(list, arguments[1], context);
    if (op == "aten::slice")
      return Slice(list, arguments.drop_front(), context);
    if ((op == "aten::stack" || op == "aten::cat") && count == 2)
      return JoinElements(op, list, arguments[1], context);
    if (op == "aten::list" || op == "aten::copy") {
      auto copy = std::make_shared<ListValue>(list);
      return Values{AbstractValue(std::move(copy))};
    }
  }
  // Changes another list by storing this one.
  if ((op == "aten::append" || op == "aten::_set_item") &&
      !arguments[0].is_grown_list())
    return std::nullopt;
  return context.Unsupported(absl::StrCat(
      op.str(),
      " of a list whose length depends on data is not supported; "
      "such a list can be appended to, indexed, stacked and concatenated"));
}

}  // namespace tp
