#include "frontend/container_ops.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "frontend/scalar_ops.h"
#include "ir/status.h"
#include "llvm/ADT/StringSwitch.h"

namespace tp {
namespace {

using Values = std::vector<AbstractValue>;
using Results = absl::StatusOr<std::optional<Values>>;

Values One(AbstractValue value) {
  Values values;
  values.push_back(std::move(value));
  return values;
}

absl::StatusOr<int64_t> Index(const AbstractValue& index, size_t size,
                              ImportContext& context) {
  if (index.is_runtime_number())
    return context.Unsupported(
        "takes an element of a list by a number that depends on data");
  if (!index.is_int()) return context.Invalid("an index that is no integer");
  TP_ASSIGN_OR_RETURN(int64_t at, context.Concrete(index.as_int(), "an index"));
  const int64_t count = static_cast<int64_t>(size);
  if (at < -count || at >= count)
    return context.Invalid(absl::StrCat("index ", at, " is out of range for ",
                                        count, " elements"));
  return at < 0 ? at + count : at;
}

// Python's slice positions of a sequence of that size.
absl::StatusOr<std::vector<int64_t>> SlicePositions(
    llvm::ArrayRef<AbstractValue> bounds, size_t size, ImportContext& context) {
  int64_t given[3] = {0, std::numeric_limits<int64_t>::max(), 1};
  const int64_t count = static_cast<int64_t>(size);
  for (size_t i = 0; i < bounds.size() && i < 3; ++i) {
    if (bounds[i].is_none()) continue;
    if (!bounds[i].is_int()) return context.Invalid("a slice by no integer");
    TP_ASSIGN_OR_RETURN(given[i],
                        context.Concrete(bounds[i].as_int(), "a slice"));
  }
  if (given[2] <= 0) return context.Unsupported("a slice with a step below 1");
  auto clamp = [&](int64_t at) {
    if (at < 0) at += count;
    return std::clamp<int64_t>(at, 0, count);
  };
  std::vector<int64_t> positions;
  const int64_t end = clamp(given[1]);
  for (int64_t at = clamp(given[0]); at < end; at += given[2])
    positions.push_back(at);
  return positions;
}

absl::StatusOr<int64_t> FindKey(const DictValue& dict, const AbstractValue& key,
                                ImportContext& context) {
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    TP_ASSIGN_OR_RETURN(std::optional<bool> equal,
                        Equal(dict.entries[i].first, key, context));
    if (equal && *equal) return static_cast<int64_t>(i);
  }
  return -1;
}

absl::StatusOr<int64_t> FindItem(const Values& items, const AbstractValue& item,
                                 ImportContext& context) {
  for (size_t i = 0; i < items.size(); ++i) {
    TP_ASSIGN_OR_RETURN(std::optional<bool> equal,
                        Equal(items[i], item, context));
    if (!equal) return context.Unsupported("a search in a list of tensors");
    if (*equal) return static_cast<int64_t>(i);
  }
  return -1;
}

Results Construct(llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
                  ImportContext& context) {
  if (op == "prim::ListConstruct")
    return One(AbstractValue::MakeList(arguments.vec()));
  if (op == "prim::TupleConstruct")
    return One(AbstractValue::MakeTuple(arguments.vec()));
  if (op != "prim::DictConstruct") return std::nullopt;
  auto dict = std::make_shared<DictValue>();
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
    TP_ASSIGN_OR_RETURN(int64_t at, FindKey(*dict, arguments[i], context));
    if (at < 0)
      dict->entries.push_back({arguments[i], arguments[i + 1]});
    else
      dict->entries[at].second = arguments[i + 1];
  }
  return One(dict);
}

// Ops that change a list. The result is the list, where there is one.
Results ChangeList(llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
                   ImportContext& context) {
  const bool changes = llvm::StringSwitch<bool>(op)
                           .Cases("aten::append", "aten::extend", "aten::add_",
                                  "aten::insert", "aten::_set_item", true)
                           .Cases("aten::pop", "aten::Delete", "aten::clear",
                                  "aten::reverse", true)
                           .Default(false);
  if (!changes) return std::nullopt;
  context.branches.Touch(arguments[0]);
  Values& items = arguments[0].as_list()->items;
  const size_t count = arguments.size();
  if (op == "aten::append" && count == 2) {
    items.push_back(arguments[1]);
  } else if ((op == "aten::extend" || op == "aten::add_") && count == 2 &&
             arguments[1].is_list()) {
    Values more = arguments[1].as_list()->items;
    items.insert(items.end(), more.begin(), more.end());
  } else if (op == "aten::insert" && count == 3 && arguments[1].is_int()) {
    TP_ASSIGN_OR_RETURN(int64_t at,
                        context.Concrete(arguments[1].as_int(), "an index"));
    const int64_t size = static_cast<int64_t>(items.size());
    at = std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    items.insert(items.begin() + at, arguments[2]);
  } else if (op == "aten::_set_item" && count == 3) {
    TP_ASSIGN_OR_RETURN(int64_t at, Index(arguments[1], items.size(), context));
    items[at] = arguments[2];
  } else if (op == "aten::pop" && count <= 2) {
    const AbstractValue last = count == 2 ? arguments[1] : SymExpr(-1);
    TP_ASSIGN_OR_RETURN(int64_t at, Index(last, items.size(), context));
    AbstractValue popped = items[at];
    items.erase(items.begin() + at);
    return One(popped);
  } else if (op == "aten::Delete" && count == 2) {
    TP_ASSIGN_OR_RETURN(int64_t at, Index(arguments[1], items.size(), context));
    items.erase(items.begin() + at);
  } else if (op == "aten::clear") {
    items.clear();
  } else if (op == "aten::reverse") {
    std::reverse(items.begin(), items.end());
  } else {
    return std::nullopt;
  }
  return One(arguments[0]);
}

Results ReadSequence(llvm::StringRef op,
                     llvm::ArrayRef<AbstractValue> arguments,
                     ImportContext& context) {
  const AbstractValue& sequence = arguments[0];
  const Values& items = *sequence.items();
  const size_t count = arguments.size();
  auto like = [&](Values values) {
    return sequence.is_list() ? AbstractValue::MakeList(std::move(values))
                              : AbstractValue::MakeTuple(std::move(values));
  };
  if (op == "aten::len")
    return One(SymExpr(static_cast<int64_t>(items.size())));
  if ((op == "aten::__getitem__" || op == "prim::TupleIndex") && count == 2) {
    TP_ASSIGN_OR_RETURN(int64_t at, Index(arguments[1], items.size(), context));
    return One(items[at]);
  }
  if (op == "aten::slice") {
    TP_ASSIGN_OR_RETURN(auto positions, SlicePositions(arguments.drop_front(),
                                                       items.size(), context));
    Values part;
    for (int64_t at : positions) part.push_back(items[at]);
    return One(like(std::move(part)));
  }
  if (op == "aten::list" || op == "aten::copy")
    return One(AbstractValue::MakeList(items));
  if (op == "aten::add" && count == 2 && arguments[1].items() != nullptr) {
    Values both = items;
    for (const AbstractValue& item : *arguments[1].items())
      both.push_back(item);
    return One(like(std::move(both)));
  }
  if (op == "aten::mul" && count == 2 && arguments[1].is_int()) {
    TP_ASSIGN_OR_RETURN(
        int64_t times,
        context.Concrete(arguments[1].as_int(), "the length of a list"));
    Values repeated;
    if (times > 0 && static_cast<int64_t>(items.size()) > 1'000'000 / times)
      return context.Unsupported("a list of more than a million elements");
    for (int64_t i = 0; i < times; ++i)
      repeated.insert(repeated.end(), items.begin(), items.end());
    return One(like(std::move(repeated)));
  }
  if (op == "aten::__contains__" || op == "aten::index") {
    if (count != 2 || !sequence.is_list()) return std::nullopt;
    TP_ASSIGN_OR_RETURN(int64_t at, FindItem(items, arguments[1], context));
    if (op == "aten::__contains__") return One(at >= 0);
    if (at < 0) return context.Invalid("list.index of a missing element");
    return One(SymExpr(at));
  }
  if ((op == "aten::eq" || op == "aten::ne") && count == 2) {
    TP_ASSIGN_OR_RETURN(std::optional<bool> equal,
                        Equal(sequence, arguments[1], context));
    if (!equal) return std::nullopt;
    return One(*equal == (op == "aten::eq"));
  }
  if (op == "aten::Bool" || op == "aten::__not__")
    return One(items.empty() == (op == "aten::__not__"));
  if ((op == "aten::all" || op == "aten::any") && count == 1) {
    const bool all = op == "aten::all";
    for (const AbstractValue& item : items) {
      TP_ASSIGN_OR_RETURN(std::optional<bool> truth, Truth(item, context));
      if (!truth) return std::nullopt;
      if (*truth != all) return One(!all);
    }
    return One(all);
  }
  const bool extremum = op == "prim::min" || op == "prim::max";
  if ((extremum || op == "aten::sum") && count == 1 && !items.empty()) {
    AbstractValue total = items[0];
    for (size_t i = 1; i < items.size(); ++i) {
      TP_ASSIGN_OR_RETURN(
          std::optional<AbstractValue> next,
          EvaluateScalarOp(extremum ? op : "aten::add", {total, items[i]},
                           ScalarKind::kOther, context));
      if (!next) return std::nullopt;
      total = *next;
    }
    return One(total);
  }
  return std::nullopt;
}

Results Dict(llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
             ImportContext& context) {
  DictValue& dict = *arguments[0].as_dict();
  const size_t count = arguments.size();
  const bool changes =
      llvm::StringSwitch<bool>(op)
          .Cases("aten::_set_item", "aten::setdefault", "aten::pop",
                 "aten::Delete", "aten::clear", true)
          .Default(false);
  if (changes) context.branches.Touch(arguments[0]);
  if (op == "aten::len")
    return One(SymExpr(static_cast<int64_t>(dict.entries.size())));
  if (op == "aten::keys" || op == "aten::values" || op == "aten::items" ||
      op == "aten::list") {
    Values list;
    for (const auto& [key, value] : dict.entries) {
      if (op == "aten::values")
        list.push_back(value);
      else if (op == "aten::items")
        list.push_back(AbstractValue::MakeTuple({key, value}));
      else
        list.push_back(key);
    }
    return One(AbstractValue::MakeList(std::move(list)));
  }
  if (op == "aten::copy" || op == "aten::dict")
    return One(std::make_shared<DictValue>(dict));
  if (op == "aten::clear") {
    dict.entries.clear();
    return Values();
  }
  if (count < 2) return std::nullopt;
  TP_ASSIGN_OR_RETURN(int64_t at, FindKey(dict, arguments[1], context));
  if (op == "aten::__contains__") return One(at >= 0);
  if (op == "aten::_set_item" && count == 3) {
    if (at < 0)
      dict.entries.push_back({arguments[1], arguments[2]});
    else
      dict.entries[at].second = arguments[2];
    return Values();
  }
  const bool get = op == "aten::get" || op == "aten::setdefault";
  if (!get && op != "aten::__getitem__" && op != "aten::pop" &&
      op != "aten::Delete")
    return std::nullopt;
  if (at < 0) {
    if (count == 3 || get) {
      AbstractValue otherwise = count == 3 ? arguments[2] : AbstractValue();
      if (op == "aten::setdefault")
        dict.entries.push_back({arguments[1], otherwise});
      return One(otherwise);
    }
    return context.Invalid(
        absl::StrCat("the dict has no key ", arguments[1].ToString()));
  }
  AbstractValue found = dict.entries[at].second;
  if (op == "aten::pop" || op == "aten::Delete")
    dict.entries.erase(dict.entries.begin() + at);
  return op == "aten::Delete" ? Values() : One(found);
}

Results Ranges(llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
               ImportContext& context) {
  if (op == "aten::__range_length" && arguments.size() == 3) {
    int64_t bounds[3] = {0, 0, 1};
    for (int i = 0; i < 3; ++i) {
      if (!arguments[i].is_int()) return std::nullopt;
      if (i < 2 && arguments[2].is_int() && arguments[2].as_int() == SymExpr(1))
        continue;
      TP_ASSIGN_OR_RETURN(
          bounds[i], context.Concrete(arguments[i].as_int(), "a loop's range"));
    }
    if (arguments[2].as_int() == SymExpr(1))
      return One(
          Max(SymExpr(0), arguments[1].as_int() - arguments[0].as_int()));
    if (bounds[2] == 0) return context.Invalid("range() with a step of 0");
    const int64_t span = bounds[2] > 0 ? bounds[1] - bounds[0] + bounds[2] - 1
                                       : bounds[0] - bounds[1] - bounds[2] - 1;
    const int64_t step = bounds[2] > 0 ? bounds[2] : -bounds[2];
    return One(SymExpr(span < 0 ? 0 : span / step));
  }
  if (op == "aten::__derive_index" && arguments.size() == 3) {
    for (const AbstractValue& argument : arguments)
      if (!argument.is_int()) return std::nullopt;
    return One(arguments[1].as_int() +
               arguments[0].as_int() * arguments[2].as_int());
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<std::vector<AbstractValue>>> EvaluateContainerOp(
    llvm::StringRef op, llvm::ArrayRef<AbstractValue> arguments,
    size_t num_results, ImportContext& context) {
  TP_ASSIGN_OR_RETURN(std::optional<Values> made,
                      Construct(op, arguments, context));
  if (made) return made;
  if (op == "prim::ListUnpack" || op == "prim::TupleUnpack") {
    const Values* items = arguments[0].items();
    if (arguments[0].is_grown_list())
      return context.Unsupported("unpacks a list whose length depends on data");
    if (items == nullptr)
      return context.Invalid("unpacks a " + arguments[0].KindName());
    if (items->size() != num_results)
      return context.Invalid(absl::StrCat("unpacks ", items->size(),
                                          " elements into ", num_results));
    return *items;
  }
  if (arguments.empty()) {
    if (op == "aten::dict" || op == "aten::list")
      return One(op == "aten::dict"
                     ? AbstractValue(std::make_shared<DictValue>())
                     : AbstractValue::MakeList({}));
    return std::nullopt;
  }
  if (arguments[0].is_list()) {
    TP_ASSIGN_OR_RETURN(std::optional<Values> changed,
                        ChangeList(op, arguments, context));
    if (changed) return changed;
  }
  if (arguments[0].items() != nullptr)
    return ReadSequence(op, arguments, context);
  if (arguments[0].is_dict()) return Dict(op, arguments, context);
  return Ranges(op, arguments, context);
}

}  // namespace tp
