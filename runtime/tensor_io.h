// Tensors from and to safetensors files.
#ifndef TP_RUNTIME_TENSOR_IO_H_
#define TP_RUNTIME_TENSOR_IO_H_

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/safetensors.h"

namespace tp {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A tensor over `bytes`, which it keeps alive; copied only where the address
// does not suit the dtype. Must not be written: the bytes may be mapped
// read-only.
at::Tensor ViewOf(const Bytes& bytes, DType dtype,
                  llvm::ArrayRef<int64_t> sizes);

// One tensor of an open file.
absl::StatusOr<at::Tensor> ReadTensor(const SafetensorsFile& file,
                                      const WeightInfo& info);
// All tensors of a file, mapped.
absl::StatusOr<NamedTensors> ReadTensors(const std::string& path);

// Written beside `path` and renamed: an error leaves nothing behind.
absl::Status WriteTensors(const std::string& path, const NamedTensors& tensors);

}  // namespace tp

#endif  // TP_RUNTIME_TENSOR_IO_H_
