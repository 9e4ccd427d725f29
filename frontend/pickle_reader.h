// Reads the pickles inside a TorchScript archive (data.pkl, constants.pkl,
// debug tables) as plain data. Only the opcodes and names that torch.jit.save
// writes are known; nothing is ever called, imported or built from them.
#ifndef TP_FRONTEND_PICKLE_READER_H_
#define TP_FRONTEND_PICKLE_READER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// A tensor as the pickle describes it: a strided view of a storage, whose
// bytes are the archive record "<folder>/<storage_key>".
struct PickledTensor {
  std::string storage_type;    // "FloatStorage"
  std::optional<DType> dtype;  // none when this project has no such dtype
  std::string storage_key;     // "0"
  std::string device;          // "cpu"
  int64_t storage_numel = 0;   // elements
  int64_t storage_bytes = 0;
  int64_t offset = 0;  // elements
  llvm::SmallVector<int64_t, 4> sizes;
  llvm::SmallVector<int64_t, 4> strides;  // elements
  bool requires_grad = false;
};

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kTuple,
    kDict,
    kObject,  // of a TorchScript class: `text` its name, `entries` its
              // attributes in order
    kEnum,    // `text` its class, `items[0]` its value
    kTensor,
    kDevice,  // `text`
    kGlobal,  // a class or function name, only inside the reader
    kStorage,
  };
  Kind kind = Kind::kNone;
  bool flag = false;
  bool memoized = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::string type_tag;  // "Dict[str, int]", where the pickle states one
  std::vector<const PickleValue*> items;
  std::vector<std::pair<const PickleValue*, const PickleValue*>> entries;
  std::unique_ptr<PickledTensor> tensor;  // kTensor and kStorage
  // Bytes [begin, end) of the opcode that made an integer.
  size_t begin = 0;
  size_t end = 0;

  // The attribute of an object or the value of a dict's string key, or null.
  const PickleValue* Get(llvm::StringRef key) const;
};

// Replaces bytes [begin, end) of the pickle by the opcode of a small integer.
struct PickleEdit {
  size_t begin = 0;
  size_t end = 0;
  uint8_t value = 0;
};

// Owns every value; they point at each other.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
  // Makes every storage one element and every tensor a view of it with
  // strides 0: the same pickle for a skeleton archive. Sorted by place.
  std::vector<PickleEdit> skeleton_edits;
};

struct PickleLimits {
  size_t max_bytes = size_t{128} << 20;
  size_t max_values = size_t{8} << 20;
  int max_depth = 200;
};

// Reads one pickle; `name` (such as "model.pt: data.pkl") opens each error.
// InvalidArgument: not a pickle of torch.jit.save, over a limit, or a tensor
// that reaches outside its storage. PermissionDenied: names something that
// would run code when loaded. Unimplemented: quantized and sparse tensors.
absl::StatusOr<Pickle> ReadPickle(llvm::StringRef bytes, llvm::StringRef name,
                                  const PickleLimits& limits = {});

// `bytes` with `pickle.skeleton_edits` applied.
std::string SkeletonPickle(llvm::StringRef bytes, const Pickle& pickle);

struct NamedTensor {
  std::string name;  // "model.layers.0.weight", "table.gain", "states.1"
  const PickledTensor* tensor = nullptr;
};

// Every tensor below `root`, depth first in attribute order: attributes of
// nested modules by dotted name, elements of lists and tuples by index and of
// dicts by key. A module or tensor held under several names is listed under
// each. InvalidArgument when there are more than `max_tensors`.
absl::StatusOr<std::vector<NamedTensor>> FlattenTensors(
    const PickleValue& root, size_t max_tensors = size_t{1} << 20);

}  // namespace tp

#endif  // TP_FRONTEND_PICKLE_READER_H_
