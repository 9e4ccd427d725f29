#include "frontend/archive_weight_source.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

constexpr char kMeta[] = "meta";

class ArchiveWeightSource : public WeightSource {
 public:
  explicit ArchiveWeightSource(const CheckedArchive& archive)
      : zip_(archive.zip) {
    for (const NamedTensor& named : archive.tensors) {
      const PickledTensor& tensor = *named.tensor;
      if (!tensor.dtype.has_value()) {
        AddUnsupported(named.name,
                       absl::StrCat("is a ", tensor.storage_type,
                                    "; supported are f64, f32, f16, bf16, "
                                    "integers and bool"));
        continue;
      }
      WeightInfo weight;
      weight.name = named.name;
      weight.dtype = *tensor.dtype;
      weight.sizes = tensor.sizes;
      weight.strides = tensor.strides;
      weight.offset = tensor.offset;
      weight.storage = absl::StrCat(tensor.device == kMeta ? kMeta : "data",
                                    "/", tensor.storage_key);
      weight.storage_bytes = tensor.storage_bytes;
      // A dict may hold the keys 1 and "1"; the first one wins.
      Add(std::move(weight));
    }
  }

  absl::StatusOr<Bytes> View(const WeightInfo& weight) const override {
    if (weight.storage_bytes == 0) return Bytes();
    if (llvm::StringRef(weight.storage).starts_with(kMeta))
      return absl::FailedPreconditionError(absl::StrCat(
          zip_->path(), ": weight \"", weight.name,
          "\" was saved on the meta device and has no data; give the weights "
          "with --weights"));
    const ZipEntry* entry = zip_->Find(weight.storage);
    if (entry == nullptr)
      return absl::NotFoundError(absl::StrCat(zip_->path(), ": no record ",
                                              weight.storage, " for weight \"",
                                              weight.name, "\""));
    absl::StatusOr<Bytes> bytes = zip_->View(*entry);
    if (!bytes.ok())
      return Annotate(bytes.status(),
                      absl::StrCat("weight \"", weight.name, "\""));
    return bytes;
  }

 private:
  std::shared_ptr<const ZipReader> zip_;
};

}  // namespace

std::unique_ptr<WeightSource> MakeArchiveWeightSource(
    const CheckedArchive& archive) {
  return std::make_unique<ArchiveWeightSource>(archive);
}

}  // namespace tp
