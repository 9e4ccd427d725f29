#include "frontend/imported_weights.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "frontend/torch_types.h"

namespace tp {
namespace {

class ImportedWeights : public WeightSource {
 public:
  ImportedWeights(std::shared_ptr<const WeightSource> archive,
                  std::vector<std::pair<std::string, at::Tensor>> constants)
      : archive_(std::move(archive)) {
    for (const WeightInfo& weight : archive_->weights()) Add(weight);
    for (auto& [name, tensor] : constants) {
      std::optional<DType> dtype = FromScalarType(tensor.scalar_type());
      if (!dtype) continue;
      at::Tensor whole = tensor.detach().contiguous();
      WeightInfo info;
      info.name = name;
      info.dtype = *dtype;
      for (int64_t size : whole.sizes()) info.sizes.push_back(size);
      for (int64_t stride : whole.strides()) info.strides.push_back(stride);
      // No record of an archive is named so.
      info.storage = absl::StrCat("\n", name);
      info.storage_bytes = static_cast<int64_t>(whole.nbytes());
      if (Add(std::move(info))) constants_[name] = std::move(whole);
    }
  }

  absl::StatusOr<Bytes> View(const WeightInfo& weight) const override {
    auto constant = constants_.find(weight.name);
    if (constant == constants_.end()) return archive_->View(weight);
    auto owner = std::make_shared<at::Tensor>(constant->second);
    return Bytes(static_cast<const uint8_t*>(owner->const_data_ptr()),
                 owner->nbytes(), owner);
  }

 private:
  std::shared_ptr<const WeightSource> archive_;
  llvm::StringMap<at::Tensor> constants_;
};

}  // namespace

std::shared_ptr<const WeightSource> MakeImportedWeights(
    std::shared_ptr<const WeightSource> archive,
    std::vector<std::pair<std::string, at::Tensor>> constants) {
  return std::make_shared<ImportedWeights>(std::move(archive),
                                           std::move(constants));
}

}  // namespace tp
