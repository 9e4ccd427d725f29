#include "frontend/pickle_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

namespace tp {
namespace {

using Kind = PickleValue::Kind;
using llvm::StringRef;

std::string Shown(StringRef text) {
  return absl::StrCat("\"", absl::CHexEscape(text.take_front(120).str()), "\"");
}

// Every storage class that LibTorch knows for dense tensors.
struct StorageType {
  StringRef name;
  int64_t bytes;
  std::optional<DType> dtype;
};

const StorageType kStorageTypes[] = {
    {"FloatStorage", 4, DType::kF32},
    {"DoubleStorage", 8, DType::kF64},
    {"HalfStorage", 2, DType::kF16},
    {"BFloat16Storage", 2, DType::kBF16},
    {"LongStorage", 8, DType::kI64},
    {"IntStorage", 4, DType::kI32},
    {"ShortStorage", 2, DType::kI16},
    {"CharStorage", 1, DType::kI8},
    {"ByteStorage", 1, DType::kU8},
    {"BoolStorage", 1, DType::kBool},
    {"UInt16Storage", 2, std::nullopt},
    {"UInt32Storage", 4, std::nullopt},
    {"UInt64Storage", 8, std::nullopt},
    {"ComplexHalfStorage", 4, std::nullopt},
    {"ComplexFloatStorage", 8, std::nullopt},
    {"ComplexDoubleStorage", 16, std::nullopt},
    {"Float8_e5m2Storage", 1, std::nullopt},
    {"Float8_e4m3fnStorage", 1, std::nullopt},
    {"Float8_e5m2fnuzStorage", 1, std::nullopt},
    {"Float8_e4m3fnuzStorage", 1, std::nullopt},
    {"Float8_e8m0fnuStorage", 1, std::nullopt},
};

bool IsScriptClass(StringRef global) {
  return global.starts_with("__torch__.");
}

bool IsTypedListBuilder(StringRef global) {
  return llvm::StringSwitch<bool>(global)
      .Case("torch.jit._pickle.build_intlist", true)
      .Case("torch.jit._pickle.build_doublelist", true)
      .Case("torch.jit._pickle.build_boollist", true)
      .Case("torch.jit._pickle.build_tensorlist", true)
      .Default(false);
}

// The reader's machine: a stack of values, marks in it, a memo.
class Machine {
 public:
  Machine(StringRef bytes, StringRef name, const PickleLimits& limits)
      : bytes_(bytes), name_(name), limits_(limits) {}

  absl::StatusOr<Pickle> Run();

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_.str(), ": at byte ", start_, ": ", what,
                     "; this is not a pickle that torch.jit.save writes"));
  }

  bool Have(size_t size) const { return size <= bytes_.size() - position_; }
  absl::StatusOr<StringRef> Take(size_t size);
  absl::StatusOr<StringRef> TakeLine();
  absl::StatusOr<uint64_t> TakeUnsigned(size_t size);

  absl::StatusOr<PickleValue*> New(Kind kind);
  absl::Status Push(Kind kind);
  absl::Status PushInt(int64_t value);
  absl::Status PushString(size_t size);
  absl::StatusOr<PickleValue*> Pop();
  absl::StatusOr<std::vector<const PickleValue*>> PopToMark();

  absl::Status Step(uint8_t opcode, bool& stop);
  absl::Status PushTuple(size_t count);
  absl::Status Append(bool to_mark);
  absl::Status SetItems(bool to_mark);
  absl::Status Put(uint64_t slot);
  absl::Status GetMemo(uint64_t slot);
  absl::Status Global();
  absl::Status NewObject();
  absl::Status Build();
  absl::Status Reduce();
  absl::Status RebuildTensor(const std::vector<const PickleValue*>& args);
  absl::Status PersistentId();
  absl::Status CheckView(const PickledTensor& tensor) const;
  absl::Status AddEdit(const PickleValue& value, uint8_t replacement);
  absl::Status CheckDepth() const;

  StringRef bytes_;
  StringRef name_;
  PickleLimits limits_;
  size_t start_ = 0;     // of the opcode being read
  size_t position_ = 0;  // of the next byte
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  llvm::DenseMap<uint64_t, PickleValue*> memo_;
  Pickle out_;
};

absl::StatusOr<StringRef> Machine::Take(size_t size) {
  if (!Have(size)) return Error("the pickle is cut short");
  StringRef taken = bytes_.substr(position_, size);
  position_ += size;
  return taken;
}

absl::StatusOr<StringRef> Machine::TakeLine() {
  const size_t end = bytes_.find('\n', position_);
  if (end == StringRef::npos) return Error("a name without an end");
  StringRef line = bytes_.slice(position_, end);
  position_ = end + 1;
  if (line.size() > 4096) return Error("a name is too long");
  return line;
}

absl::StatusOr<uint64_t> Machine::TakeUnsigned(size_t size) {
  TP_ASSIGN_OR_RETURN(StringRef raw, Take(size));
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= uint64_t{static_cast<uint8_t>(raw[i])} << (8 * i);
  return value;
}

absl::StatusOr<PickleValue*> Machine::New(Kind kind) {
  if (out_.values.size() >= limits_.max_values)
    return Error(absl::StrCat("more than ", limits_.max_values, " values"));
  out_.values.emplace_back();
  out_.values.back().kind = kind;
  return &out_.values.back();
}

absl::Status Machine::Push(Kind kind) {
  TP_ASSIGN_OR_RETURN(PickleValue * value, New(kind));
  stack_.push_back(value);
  return absl::OkStatus();
}

absl::Status Machine::PushInt(int64_t value) {
  TP_RETURN_IF_ERROR(Push(Kind::kInt));
  stack_.back()->integer = value;
  stack_.back()->begin = start_;
  stack_.back()->end = position_;
  return absl::OkStatus();
}

absl::Status Machine::PushString(size_t size) {
  TP_ASSIGN_OR_RETURN(StringRef text, Take(size));
  TP_RETURN_IF_ERROR(Push(Kind::kString));
  stack_.back()->text = text.str();
  return absl::OkStatus();
}

absl::StatusOr<PickleValue*> Machine::Pop() {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) return Error("a value is missing");
  PickleValue* value = stack_.back();
  stack_.pop_back();
  return value;
}

absl::StatusOr<std::vector<const PickleValue*>> Machine::PopToMark() {
  if (marks_.empty()) return Error("a mark is missing");
  std::vector<const PickleValue*> items(
      stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return items;
}

absl::StatusOr<Pickle> Machine::Run() {
  if (bytes_.size() > limits_.max_bytes)
    return Error(absl::StrCat("the pickle has ", bytes_.size(),
                              " bytes, more than ", limits_.max_bytes));
  if (!bytes_.starts_with("\x80\x02")) return Error("no protocol 2 header");
  position_ = 2;
  for (bool stop = false; !stop;) {
    start_ = position_;
    TP_ASSIGN_OR_RETURN(StringRef opcode, Take(1));
    TP_RETURN_IF_ERROR(Step(static_cast<uint8_t>(opcode[0]), stop));
  }
  if (position_ != bytes_.size()) return Error("bytes after the end");
  if (stack_.size() != 1 || !marks_.empty())
    return Error("not exactly one value at the end");
  out_.root = stack_[0];
  TP_RETURN_IF_ERROR(CheckDepth());
  llvm::sort(out_.skeleton_edits, [](const PickleEdit& a, const PickleEdit& b) {
    return a.begin < b.begin;
  });
  return std::move(out_);
}

absl::Status Machine::Step(uint8_t opcode, bool& stop) {
  switch (opcode) {
    case '.':  // STOP
      stop = true;
      return absl::OkStatus();
    case '(':  // MARK
      marks_.push_back(stack_.size());
      if (marks_.size() > static_cast<size_t>(limits_.max_depth))
        return Error("values are nested too deeply");
      return absl::OkStatus();
    case 'N':
      return Push(Kind::kNone);
    case 0x88:  // NEWTRUE, NEWFALSE
    case 0x89:
      TP_RETURN_IF_ERROR(Push(Kind::kBool));
      stack_.back()->flag = opcode == 0x88;
      return absl::OkStatus();
    case 'K':  // BININT1, BININT2, BININT
    case 'M':
    case 'J': {
      const size_t size = opcode == 'K' ? 1 : opcode == 'M' ? 2 : 4;
      TP_ASSIGN_OR_RETURN(const uint64_t raw, TakeUnsigned(size));
      return PushInt(opcode == 'J' ? static_cast<int32_t>(raw)
                                   : static_cast<int64_t>(raw));
    }
    case 0x8a: {  // LONG1
      TP_ASSIGN_OR_RETURN(const uint64_t size, TakeUnsigned(1));
      if (size > 8) return Error("an integer of more than 64 bits");
      TP_ASSIGN_OR_RETURN(uint64_t raw, TakeUnsigned(size));
      return PushInt(
          size == 0 ? 0
                    : llvm::SignExtend64(raw, static_cast<unsigned>(8 * size)));
    }
    case 'G': {  // BINFLOAT, big endian
      TP_ASSIGN_OR_RETURN(StringRef raw, Take(8));
      const uint64_t bits = llvm::support::endian::read64be(raw.data());
      TP_RETURN_IF_ERROR(Push(Kind::kFloat));
      std::memcpy(&stack_.back()->real, &bits, sizeof bits);
      return absl::OkStatus();
    }
    case 'X':  // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
    case 0x8c:
    case 0x8d: {
      const size_t width = opcode == 'X' ? 4 : opcode == 0x8c ? 1 : 8;
      TP_ASSIGN_OR_RETURN(const uint64_t size, TakeUnsigned(width));
      return PushString(size);
    }
    case ')':  // EMPTY_TUPLE
      return Push(Kind::kTuple);
    case ']':
      return Push(Kind::kList);
    case '}':
      return Push(Kind::kDict);
    case 0x85:  // TUPLE1 to TUPLE3
    case 0x86:
    case 0x87:
      return PushTuple(opcode - 0x84u);
    case 't': {  // TUPLE
      TP_ASSIGN_OR_RETURN(auto items, PopToMark());
      TP_RETURN_IF_ERROR(Push(Kind::kTuple));
      stack_.back()->items = std::move(items);
      return absl::OkStatus();
    }
    case 'a':  // APPEND, APPENDS
    case 'e':
      return Append(opcode == 'e');
    case 's':  // SETITEM, SETITEMS
    case 'u':
      return SetItems(opcode == 'u');
    case 'q':  // BINPUT, LONG_BINPUT
    case 'r': {
      TP_ASSIGN_OR_RETURN(const uint64_t slot,
                          TakeUnsigned(opcode == 'q' ? 1 : 4));
      return Put(slot);
    }
    case 'h':  // BINGET, LONG_BINGET
    case 'j': {
      TP_ASSIGN_OR_RETURN(const uint64_t slot,
                          TakeUnsigned(opcode == 'h' ? 1 : 4));
      return GetMemo(slot);
    }
    case 'c':
      return Global();
    case 0x81:
      return NewObject();
    case 'b':
      return Build();
    case 'R':
      return Reduce();
    case 'Q':
      return PersistentId();
    default:
      return Error(
          absl::StrCat("opcode 0x", absl::Hex(opcode), " is not allowed"));
  }
}

absl::Status Machine::PushTuple(size_t count) {
  std::vector<const PickleValue*> items(count);
  for (size_t i = count; i-- > 0;) {
    TP_ASSIGN_OR_RETURN(items[i], Pop());
  }
  TP_RETURN_IF_ERROR(Push(Kind::kTuple));
  stack_.back()->items = std::move(items);
  return absl::OkStatus();
}

absl::Status Machine::Append(bool to_mark) {
  std::vector<const PickleValue*> items(1);
  if (to_mark) {
    TP_ASSIGN_OR_RETURN(items, PopToMark());
  } else {
    TP_ASSIGN_OR_RETURN(items[0], Pop());
  }
  TP_ASSIGN_OR_RETURN(PickleValue * list, Pop());
  if (list->kind != Kind::kList) return Error("appends to what is no list");
  list->items.insert(list->items.end(), items.begin(), items.end());
  stack_.push_back(list);
  return absl::OkStatus();
}

absl::Status Machine::SetItems(bool to_mark) {
  std::vector<const PickleValue*> items(2);
  if (to_mark) {
    TP_ASSIGN_OR_RETURN(items, PopToMark());
    if (items.size() % 2 != 0) return Error("a key without a value");
  } else {
    TP_ASSIGN_OR_RETURN(items[1], Pop());
    TP_ASSIGN_OR_RETURN(items[0], Pop());
  }
  TP_ASSIGN_OR_RETURN(PickleValue * dict, Pop());
  if (dict->kind != Kind::kDict) return Error("sets items of what is no dict");
  for (size_t i = 0; i < items.size(); i += 2)
    dict->entries.emplace_back(items[i], items[i + 1]);
  stack_.push_back(dict);
  return absl::OkStatus();
}

absl::Status Machine::Put(uint64_t slot) {
  TP_ASSIGN_OR_RETURN(PickleValue * value, Pop());
  value->memoized = true;
  memo_[slot] = value;
  stack_.push_back(value);
  return absl::OkStatus();
}

absl::Status Machine::GetMemo(uint64_t slot) {
  auto it = memo_.find(slot);
  if (it == memo_.end())
    return Error(absl::StrCat("memo slot ", slot, " was never set"));
  stack_.push_back(it->second);
  return absl::OkStatus();
}

absl::Status Machine::Global() {
  TP_ASSIGN_OR_RETURN(StringRef module, TakeLine());
  TP_ASSIGN_OR_RETURN(StringRef name, TakeLine());
  std::string global = absl::StrCat(module.str(), ".", name.str());
  const auto denied = [&](absl::string_view why) {
    return absl::PermissionDeniedError(absl::StrCat(
        name_.str(), ": names ", Shown(global), ", ", why, "; refused"));
  };
  const auto unsupported = [&](absl::string_view what) {
    return absl::UnimplementedError(
        absl::StrCat(name_.str(), ": holds ", what, " (", global,
                     "); dense tensors only are supported"));
  };
  StringRef ref(global);
  if (ref.starts_with("__torch__.torch.classes."))
    return denied("a C++ class whose code runs when it is loaded");
  if (ref.starts_with("torch._utils._rebuild_q")) {
    return unsupported("a quantized tensor");
  }
  if (ref.starts_with("torch._utils._rebuild_sparse"))
    return unsupported("a sparse tensor");
  const bool storage = module == "torch" && name.ends_with("Storage");
  const bool known = IsScriptClass(ref) || IsTypedListBuilder(ref) || storage ||
                     llvm::StringSwitch<bool>(ref)
                         .Case("torch._utils._rebuild_tensor_v2", true)
                         .Case("torch.jit._pickle.restore_type_tag", true)
                         .Case("collections.OrderedDict", true)
                         .Case("torch.device", true)
                         .Default(false);
  if (!known) return denied("which torch.jit.save never does: it may run code");
  TP_RETURN_IF_ERROR(Push(Kind::kGlobal));
  stack_.back()->text = std::move(global);
  return absl::OkStatus();
}

absl::Status Machine::NewObject() {
  TP_ASSIGN_OR_RETURN(PickleValue * args, Pop());
  TP_ASSIGN_OR_RETURN(PickleValue * type, Pop());
  if (args->kind != Kind::kTuple || !args->items.empty() ||
      type->kind != Kind::kGlobal || !IsScriptClass(type->text))
    return Error("a new object that is of no TorchScript class");
  TP_RETURN_IF_ERROR(Push(Kind::kObject));
  stack_.back()->text = type->text;
  return absl::OkStatus();
}

absl::Status Machine::Build() {
  TP_ASSIGN_OR_RETURN(PickleValue * state, Pop());
  TP_ASSIGN_OR_RETURN(PickleValue * object, Pop());
  if (object->kind != Kind::kObject) return Error("builds what is no object");
  if (state->kind != Kind::kDict) {
    return absl::PermissionDeniedError(absl::StrCat(
        name_.str(), ": an object of ", Shown(object->text),
        " is restored by its __setstate__, which would run the model's code "
        "while loading; save a model whose classes have no __getstate__"));
  }
  if (!object->entries.empty()) return Error("an object is built twice");
  llvm::StringSet<> names;
  for (const auto& [key, value] : state->entries) {
    if (key->kind != Kind::kString || key->text.empty() ||
        !llvm::json::isUTF8(key->text))
      return Error(absl::StrCat("an attribute of ", Shown(object->text),
                                " has no proper name"));
    if (!names.insert(key->text).second)
      return Error(absl::StrCat("attribute ", Shown(key->text), " of ",
                                Shown(object->text), " is set twice"));
    object->entries.emplace_back(key, value);
  }
  stack_.push_back(object);
  return absl::OkStatus();
}

absl::Status Machine::Reduce() {
  TP_ASSIGN_OR_RETURN(PickleValue * args, Pop());
  TP_ASSIGN_OR_RETURN(PickleValue * function, Pop());
  if (function->kind != Kind::kGlobal) return Error("calls what is no name");
  StringRef global(function->text);
  if (IsScriptClass(global)) {
    // An enum: its value stands where a call has its arguments.
    TP_RETURN_IF_ERROR(Push(Kind::kEnum));
    stack_.back()->text = global.str();
    stack_.back()->items.push_back(args);
    return absl::OkStatus();
  }
  if (args->kind != Kind::kTuple) return Error("a call without arguments");
  const std::vector<const PickleValue*>& items = args->items;
  if (global == "torch._utils._rebuild_tensor_v2") return RebuildTensor(items);
  if (global == "collections.OrderedDict") {
    if (!items.empty()) return Error("an OrderedDict made of something");
    return Push(Kind::kDict);
  }
  if (global == "torch.device") {
    if (items.empty() || items[0]->kind != Kind::kString)
      return Error("a device without a name");
    TP_RETURN_IF_ERROR(Push(Kind::kDevice));
    stack_.back()->text = items[0]->text;
    return absl::OkStatus();
  }
  if (IsTypedListBuilder(global)) {
    if (items.size() != 1 || items[0]->kind != Kind::kList)
      return Error("a typed list that is made of no list");
    stack_.push_back(const_cast<PickleValue*>(items[0]));
    stack_.back()->type_tag = global.rsplit("build_").second.str();
    return absl::OkStatus();
  }
  if (global == "torch.jit._pickle.restore_type_tag") {
    if (items.size() != 2 || items[1]->kind != Kind::kString)
      return Error("a type tag that is no string");
    StringRef tag(items[1]->text);
    // LibTorch parses it by recursion.
    if (tag.count('[') + tag.count('(') > 100 || tag.size() > 65536)
      return Error("a type is nested too deeply");
    stack_.push_back(const_cast<PickleValue*>(items[0]));
    stack_.back()->type_tag = tag.str();
    return absl::OkStatus();
  }
  return Error(absl::StrCat("calls ", Shown(global)));
}

absl::Status Machine::PersistentId() {
  TP_ASSIGN_OR_RETURN(PickleValue * id, Pop());
  const std::vector<const PickleValue*>& parts = id->items;
  if (id->kind != Kind::kTuple || parts.size() != 5 ||
      parts[0]->text != "storage" || parts[1]->kind != Kind::kGlobal ||
      parts[2]->kind != Kind::kString || parts[3]->kind != Kind::kString ||
      parts[4]->kind != Kind::kInt)
    return Error("a malformed storage");
  StringRef key(parts[2]->text);
  if (key.empty() || key.size() > 64 || key.contains('/') ||
      !llvm::all_of(key, [](char c) { return c > 0x20 && c < 0x7f; }))
    return Error(absl::StrCat("the storage key ", Shown(key), " is odd"));
  if (parts[4]->integer < 0) return Error("a storage of negative size");
  StringRef name(parts[1]->text);
  name.consume_front("torch.");
  const StorageType* type = llvm::find_if(
      kStorageTypes, [&](const StorageType& t) { return t.name == name; });
  if (type == std::end(kStorageTypes)) {
    return absl::UnimplementedError(absl::StrCat(
        name_.str(), ": a tensor has storage type ", Shown(name),
        "; dense tensors of float, integer and bool types are supported"));
  }
  int64_t total = 0;
  if (llvm::MulOverflow(parts[4]->integer, type->bytes, total))
    return Error("a storage's size overflows");
  TP_RETURN_IF_ERROR(Push(Kind::kStorage));
  auto tensor = std::make_unique<PickledTensor>();
  tensor->storage_type = type->name.str();
  tensor->dtype = type->dtype;
  tensor->storage_bytes = total;
  tensor->storage_key = key.str();
  tensor->device = parts[3]->text;
  tensor->storage_numel = parts[4]->integer;
  stack_.back()->tensor = std::move(tensor);
  if (parts[4]->integer > 1) return AddEdit(*parts[4], 1);
  return absl::OkStatus();
}

absl::Status Machine::RebuildTensor(
    const std::vector<const PickleValue*>& args) {
  if (args.size() < 5 || args.size() > 7 || args[0]->kind != Kind::kStorage ||
      args[1]->kind != Kind::kInt || args[2]->kind != Kind::kTuple ||
      args[3]->kind != Kind::kTuple || args[4]->kind != Kind::kBool ||
      args[2]->items.size() != args[3]->items.size())
    return Error("a malformed tensor");
  if (args[2]->items.size() > 64) return Error("a tensor of over 64 dims");
  auto tensor = std::make_unique<PickledTensor>(*args[0]->tensor);
  tensor->offset = args[1]->integer;
  tensor->requires_grad = args[4]->flag;
  for (const PickleValue* size : args[2]->items) {
    if (size->kind != Kind::kInt) return Error("a size that is no integer");
    tensor->sizes.push_back(size->integer);
  }
  if (args[3]->memoized || args[2] == args[3])
    return Error("a tensor's strides are shared");
  for (const PickleValue* stride : args[3]->items) {
    if (stride->kind != Kind::kInt) return Error("a stride is no integer");
    tensor->strides.push_back(stride->integer);
    if (stride->integer != 0) TP_RETURN_IF_ERROR(AddEdit(*stride, 0));
  }
  if (args[1]->integer != 0) TP_RETURN_IF_ERROR(AddEdit(*args[1], 0));
  TP_RETURN_IF_ERROR(CheckView(*tensor));
  TP_RETURN_IF_ERROR(Push(Kind::kTensor));
  stack_.back()->tensor = std::move(tensor);
  return absl::OkStatus();
}

// Every element must lie in the storage, with checked arithmetic.
absl::Status Machine::CheckView(const PickledTensor& tensor) const {
  int64_t last = tensor.offset, numel = 1;
  bool empty = false, overflow = tensor.offset < 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    const int64_t size = tensor.sizes[i], stride = tensor.strides[i];
    if (size < 0 || stride < 0) return Error("a negative size or stride");
    if (size == 0) {
      empty = true;
      continue;
    }
    int64_t reach = 0;
    overflow = overflow || llvm::MulOverflow(size - 1, stride, reach) ||
               llvm::AddOverflow(last, reach, last) ||
               llvm::MulOverflow(numel, size, numel);
  }
  if (overflow) return Error("a tensor's size overflows");
  if (!empty && last >= tensor.storage_numel)
    return Error(absl::StrCat("a tensor reaches element ", last,
                              " of a storage of ", tensor.storage_numel));
  return absl::OkStatus();
}

absl::Status Machine::AddEdit(const PickleValue& value, uint8_t replacement) {
  // An integer used twice could not be changed for one of its uses;
  // torch.jit.save shares none.
  if (value.memoized) return Error("an integer of a tensor is shared");
  out_.skeleton_edits.push_back({value.begin, value.end, replacement});
  return absl::OkStatus();
}

// LibTorch builds and frees these values by recursion, so that their depth
// must be small; and a value that contains itself would never be freed.
absl::Status Machine::CheckDepth() const {
  enum : int { kNew = 0, kOpen = -1 };
  llvm::DenseMap<const PickleValue*, int> depth;  // kOpen or 1 + deepest
  depth.reserve(static_cast<unsigned>(out_.values.size()));
  struct Frame {
    const PickleValue* value;
    size_t next = 0;
    int deepest = 0;
  };
  std::vector<Frame> frames;
  for (const PickleValue& start : out_.values) {
    if (depth.lookup(&start) != kNew) continue;
    frames.push_back({&start});
    depth[&start] = kOpen;
    while (!frames.empty()) {
      Frame& frame = frames.back();
      const PickleValue& value = *frame.value;
      const size_t children = value.items.size() + 2 * value.entries.size();
      if (frame.next == children) {
        const int found = frame.deepest + 1;
        if (found > limits_.max_depth)
          return Error("values are nested too deeply");
        depth[frame.value] = found;
        frames.pop_back();
        if (!frames.empty())
          frames.back().deepest = std::max(frames.back().deepest, found);
        continue;
      }
      const size_t index = frame.next++;
      const PickleValue* child;
      if (index < value.items.size()) {
        child = value.items[index];
      } else {
        const auto& entry = value.entries[(index - value.items.size()) / 2];
        child = (index - value.items.size()) % 2 ? entry.second : entry.first;
      }
      const int known = depth.lookup(child);
      if (known == kOpen) return Error("a value contains itself");
      if (known != kNew) {
        frame.deepest = std::max(frame.deepest, known);
        continue;
      }
      if (frames.size() > static_cast<size_t>(limits_.max_depth))
        return Error("values are nested too deeply");
      depth[child] = kOpen;
      frames.push_back({child});
    }
  }
  return absl::OkStatus();
}

absl::Status Flatten(const PickleValue& value, const std::string& name,
                     size_t max_tensors, size_t& budget,
                     std::vector<NamedTensor>& out) {
  // Modules shared over and over could make the walk endless without making
  // the pickle large, so steps count too.
  if (budget == 0 || out.size() > max_tensors)
    return absl::InvalidArgumentError(
        absl::StrCat("the model has more than ", max_tensors, " tensors"));
  --budget;
  const auto below = [&](absl::string_view part) {
    return name.empty() ? std::string(part) : absl::StrCat(name, ".", part);
  };
  if (value.kind == Kind::kTensor) out.push_back({name, value.tensor.get()});
  if (value.kind == Kind::kList || value.kind == Kind::kTuple) {
    for (size_t i = 0; i < value.items.size(); ++i)
      TP_RETURN_IF_ERROR(Flatten(*value.items[i], below(absl::StrCat(i)),
                                 max_tensors, budget, out));
  }
  size_t position = 0;
  for (const auto& [key, item] : value.entries) {
    const std::string part = key->kind == Kind::kString ? key->text
                             : key->kind == Kind::kInt
                                 ? absl::StrCat(key->integer)
                                 : absl::StrCat(position);
    ++position;
    TP_RETURN_IF_ERROR(Flatten(*item, below(part), max_tensors, budget, out));
  }
  return absl::OkStatus();
}

}  // namespace

const PickleValue* PickleValue::Get(llvm::StringRef key) const {
  for (const auto& [name, value] : entries)
    if (name->kind == Kind::kString && name->text == key) return value;
  return nullptr;
}

absl::StatusOr<Pickle> ReadPickle(llvm::StringRef bytes, llvm::StringRef name,
                                  const PickleLimits& limits) {
  return Machine(bytes, name, limits).Run();
}

std::string SkeletonPickle(llvm::StringRef bytes, const Pickle& pickle) {
  std::string out;
  out.reserve(bytes.size());
  size_t copied = 0;
  for (const PickleEdit& edit : pickle.skeleton_edits) {
    // A storage or size used by several tensors is listed once for each.
    if (edit.begin < copied) continue;
    out += bytes.slice(copied, edit.begin);
    out += 'K';
    out += static_cast<char>(edit.value);
    copied = edit.end;
  }
  out += bytes.drop_front(copied);
  return out;
}

absl::StatusOr<std::vector<NamedTensor>> FlattenTensors(const PickleValue& root,
                                                        size_t max_tensors) {
  std::vector<NamedTensor> out;
  size_t budget = 16 * max_tensors + 4096;
  TP_RETURN_IF_ERROR(Flatten(root, "", max_tensors, budget, out));
  return out;
}

}  // namespace tp
