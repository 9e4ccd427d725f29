#include "runtime/tensor_io.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/aten_kernel.h"

namespace tp {

at::Tensor ViewOf(const Bytes& bytes, DType dtype,
                  llvm::ArrayRef<int64_t> sizes) {
  const at::IntArrayRef shape(sizes.data(), sizes.size());
  const auto options = at::dtype(ScalarTypeOf(dtype));
  if (bytes.empty()) return at::empty(shape, options);
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  if (address % static_cast<uintptr_t>(ByteSize(dtype)) != 0) {
    at::Tensor copy = at::empty(shape, options);
    std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
    return copy;
  }
  return at::from_blob(
      const_cast<uint8_t*>(bytes.data()), shape, [bytes](void*) {}, options);
}

absl::StatusOr<at::Tensor> ReadTensor(const SafetensorsFile& file,
                                      const WeightInfo& info) {
  TP_ASSIGN_OR_RETURN(Bytes bytes, file.View(info));
  return ViewOf(bytes, info.dtype, info.sizes);
}

absl::StatusOr<NamedTensors> ReadTensors(const std::string& path) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file,
                      SafetensorsFile::Open(path));
  NamedTensors tensors;
  for (const WeightInfo& info : file->weights()) {
    TP_ASSIGN_OR_RETURN(at::Tensor tensor, ReadTensor(*file, info));
    tensors.emplace_back(info.name, std::move(tensor));
  }
  return tensors;
}

namespace {

absl::Status WriteAll(const std::string& path, const NamedTensors& tensors) {
  SafetensorsWriterOptions options;
  options.hash = false;
  TP_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                      SafetensorsWriter::Create(path, std::move(options)));
  for (const auto& [name, tensor] : tensors) {
    const std::optional<DType> dtype = DTypeOf(tensor.scalar_type());
    if (!dtype) {
      return absl::UnimplementedError(
          absl::StrCat(name, " has dtype ", toString(tensor.scalar_type()),
                       ", which safetensors files cannot hold"));
    }
    TP_RETURN_IF_ERROR(writer->Declare(
        name, *dtype,
        llvm::ArrayRef<int64_t>(tensor.sizes().data(), tensor.dim())));
  }
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor whole = tensor.contiguous();
    TP_RETURN_IF_ERROR(writer->Append(whole.const_data_ptr(), whole.nbytes()));
  }
  return writer->Finish();
}

}  // namespace

absl::Status WriteTensors(const std::string& path,
                          const NamedTensors& tensors) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a directory; give the path of a file"));
  }
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  absl::Status status = WriteAll(temporary, tensors);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::UnavailableError(
        absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  if (!status.ok()) std::remove(temporary.c_str());
  return status;
}

}  // namespace tp
