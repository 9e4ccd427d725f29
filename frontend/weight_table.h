// The model's tensors as arguments of the imported function, and its modules
// as abstract objects.
#ifndef TP_FRONTEND_WEIGHT_TABLE_H_
#define TP_FRONTEND_WEIGHT_TABLE_H_

#include <ATen/core/ivalue.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/abstract_value.h"
#include "frontend/import_context.h"
#include "frontend/pickle_reader.h"
#include "llvm/ADT/StringMap.h"

namespace tp {

// An instance of a module or script class.
struct ObjectValue {
  c10::ClassTypePtr type;
  // Dotted path from the root module; "" for it and for objects the program
  // makes.
  std::string path;
  // The loaded object; null for one the program made.
  c10::intrusive_ptr<c10::ivalue::Object> object;
  // Attributes read or set so far.
  std::map<std::string, AbstractValue> attributes;
};

// A region of storage: what makes two tensors one weight.
struct WeightRegion {
  std::string storage;
  int64_t offset = 0;  // elements
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // elements
  DType dtype = DType::kF32;

  auto key() const { return std::tie(storage, offset, sizes, strides, dtype); }
  friend bool operator<(const WeightRegion& a, const WeightRegion& b) {
    return a.key() < b.key();
  }
};

struct WeightEntry {
  ArgumentInfo info;
  WeightRegion region;
  at::Tensor tensor;
  TensorRef value;
  Value* argument = nullptr;
};

class WeightTable {
 public:
  // `stored` says where the tensors of the module lie in the archive, by
  // name; the loaded ones do not know.
  WeightTable(ImportContext& context, Function& function,
              const std::vector<NamedTensor>& stored);

  // Makes an argument for every tensor below the module, in attribute order,
  // tied ones once under the first name. kUnimplemented: a dtype we lack.
  absl::Status AddModule(const c10::intrusive_ptr<c10::ivalue::Object>& root);

  // The abstract value of something stored in the archive: a tensor of the
  // table or a constant of the code (which is added), an object, a container
  // or a scalar. `path` names objects and tensors seen here first.
  absl::StatusOr<AbstractValue> FromIValue(const c10::IValue& value,
                                           const std::string& path);
  // The attribute of an object. kInvalidArgument if there is none.
  absl::StatusOr<AbstractValue> GetAttribute(ObjectValue& object,
                                             const std::string& name);

  // The objects of the archive that the program has looked at.
  std::vector<AbstractValue::Object> objects() const;
  // The entry of a tensor of the archive, null if it has none.
  const WeightEntry* Find(const at::Tensor& tensor) const;

  // Removes arguments that nothing uses.
  void RemoveUnused();
  // Constants of the code that are used, by name.
  std::vector<std::pair<std::string, at::Tensor>> constants() const;

 private:
  absl::Status AddTensors(const c10::IValue& value, const std::string& path,
                          ArgumentKind kind);
  absl::StatusOr<WeightEntry*> AddTensor(const at::Tensor& tensor,
                                         const std::string& name,
                                         ArgumentKind kind);
  absl::StatusOr<WeightRegion> RegionOf(const at::Tensor& tensor,
                                        const std::string& name,
                                        ArgumentKind kind) const;
  void MarkOverlap(WeightEntry& entry);

  ImportContext& context_;
  Function& function_;
  llvm::StringMap<const PickledTensor*> stored_;
  std::vector<std::unique_ptr<WeightEntry>> entries_;
  std::map<WeightRegion, WeightEntry*> by_region_;
  std::unordered_map<const c10::TensorImpl*, WeightEntry*> by_tensor_;
  std::unordered_map<const void*, AbstractValue::Object> objects_;
  int num_constants_ = 0;
};

}  // namespace tp

#endif  // TP_FRONTEND_WEIGHT_TABLE_H_
