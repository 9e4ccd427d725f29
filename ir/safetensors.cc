#include "ir/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/json_nesting.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

namespace tp {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr int kMaxHeaderNesting = 8;
constexpr size_t kMaxDims = 64;
constexpr char kMetadataKey[] = "__metadata__";
// The data of a written file starts at a multiple of this.
constexpr size_t kDataAlignment = 64;

struct FormatName {
  DType dtype;
  absl::string_view name;
};

constexpr FormatName kFormatNames[] = {
    {DType::kF32, "F32"},   {DType::kF64, "F64"}, {DType::kF16, "F16"},
    {DType::kBF16, "BF16"}, {DType::kI64, "I64"}, {DType::kI32, "I32"},
    {DType::kI16, "I16"},   {DType::kI8, "I8"},   {DType::kU8, "U8"},
    {DType::kBool, "BOOL"},
};

std::optional<DType> DTypeOf(llvm::StringRef name) {
  for (const FormatName& row : kFormatNames)
    if (name == llvm::StringRef(row.name.data(), row.name.size()))
      return row.dtype;
  return std::nullopt;
}

std::string Shown(llvm::StringRef name) {
  return absl::StrCat("\"", absl::CHexEscape(name.take_front(200).str()), "\"");
}

struct Parsed {
  WeightInfo weight;
  int64_t begin = 0;
  int64_t end = 0;
};

// One tensor's entry of the header; the message of an error does not name the
// file.
absl::StatusOr<Parsed> ParseTensor(llvm::StringRef name,
                                   const llvm::json::Value& value) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Shown(name), " ", what));
  };
  const llvm::json::Object* entry = value.getAsObject();
  if (entry == nullptr) return error("has no description");
  std::optional<llvm::StringRef> dtype = entry->getString("dtype");
  const llvm::json::Array* shape = entry->getArray("shape");
  const llvm::json::Array* range = entry->getArray("data_offsets");
  if (!dtype || shape == nullptr || range == nullptr || entry->size() != 3)
    return error("is not described by dtype, shape and data_offsets");
  std::optional<DType> known = DTypeOf(*dtype);
  if (!known) {
    return error(
        absl::StrCat("has the unknown dtype ", Shown(*dtype), "; known are ",
                     absl::StrJoin(kFormatNames, ", ",
                                   [](std::string* out, const FormatName& row) {
                                     absl::StrAppend(out, row.name);
                                   })));
  }
  Parsed parsed;
  parsed.weight.name = name.str();
  parsed.weight.storage = name.str();
  parsed.weight.dtype = *known;
  if (shape->size() > kMaxDims) return error("has more than 64 dims");
  int64_t bytes = ByteSize(*known);
  bool overflow = false;
  for (const llvm::json::Value& dim : *shape) {
    std::optional<int64_t> size = dim.getAsInteger();
    if (!size || *size < 0) return error("has a size that is no integer >= 0");
    parsed.weight.sizes.push_back(*size);
    overflow = overflow || llvm::MulOverflow(bytes, *size, bytes);
  }
  // Strides multiply the other sizes even where one is 0.
  parsed.weight.strides.resize(parsed.weight.sizes.size());
  int64_t stride = 1;
  for (size_t d = parsed.weight.sizes.size(); d-- > 0;) {
    parsed.weight.strides[d] = stride;
    overflow =
        overflow ||
        llvm::MulOverflow(stride, std::max<int64_t>(parsed.weight.sizes[d], 1),
                          stride);
  }
  if (overflow) return error("has a size that overflows");
  if (range->size() != 2) return error("has no two data_offsets");
  std::optional<int64_t> begin = (*range)[0].getAsInteger();
  std::optional<int64_t> end = (*range)[1].getAsInteger();
  if (!begin || !end || *begin < 0 || *end < *begin)
    return error("has data_offsets that are no range");
  if (*end - *begin != bytes)
    return error(absl::StrCat("has ", *end - *begin,
                              " bytes, but its shape and dtype need ", bytes));
  parsed.begin = *begin;
  parsed.end = *end;
  parsed.weight.storage_bytes = bytes;
  return parsed;
}

}  // namespace

absl::string_view SafetensorsName(DType dtype) {
  for (const FormatName& row : kFormatNames)
    if (row.dtype == dtype) return row.name;
  return "";
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapped,
                      MappedFile::Open(path));
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile(std::move(mapped)));
  absl::Status status = file->ReadHeader();
  if (!status.ok())
    return Annotate(status, absl::StrCat(path,
                                         " is no usable safetensors "
                                         "file"));
  return file;
}

absl::Status SafetensorsFile::ReadHeader() {
  if (file_->size() < 8)
    return absl::DataLossError(
        absl::StrCat("it has only ", file_->size(), " bytes"));
  TP_ASSIGN_OR_RETURN(std::string raw, file_->Read(0, 8));
  const uint64_t header_size = llvm::support::endian::read64le(raw.data());
  if (header_size > kMaxHeaderBytes)
    return absl::InvalidArgumentError(absl::StrCat("its header would have ",
                                                   header_size,
                                                   " bytes, more "
                                                   "than the ",
                                                   kMaxHeaderBytes,
                                                   " allowed; is it "
                                                   "another kind of file?"));
  if (header_size > file_->size() - 8)
    return absl::DataLossError(
        absl::StrCat("its header of ", header_size,
                     " bytes is cut short; copy the file again"));
  TP_ASSIGN_OR_RETURN(std::string header, file_->Read(8, header_size));
  if (header.empty() || header[0] != '{')
    return absl::InvalidArgumentError("its header does not start with '{'");
  if (NestedTooDeep(header, kMaxHeaderNesting))
    return absl::InvalidArgumentError("its header is nested too deeply");
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(header);
  if (!json)
    return absl::InvalidArgumentError(absl::StrCat(
        "its header is no JSON: ", llvm::toString(json.takeError())));
  const llvm::json::Object* object = json->getAsObject();
  if (object == nullptr)
    return absl::InvalidArgumentError("its header is no JSON object");
  std::vector<Parsed> tensors;
  for (const auto& [key, value] : *object) {
    const llvm::StringRef name = key;
    if (name != kMetadataKey) {
      TP_ASSIGN_OR_RETURN(Parsed parsed, ParseTensor(name, value));
      tensors.push_back(std::move(parsed));
      continue;
    }
    const llvm::json::Object* metadata = value.getAsObject();
    if (metadata == nullptr)
      return absl::InvalidArgumentError("its __metadata__ is no object");
    for (const auto& [field, text] : *metadata) {
      if (!text.getAsString())
        return absl::InvalidArgumentError(
            "its __metadata__ holds what is no string");
      metadata_[llvm::StringRef(field).str()] = text.getAsString()->str();
    }
  }
  // The JSON object has no order of its own.
  llvm::sort(tensors, [](const Parsed& a, const Parsed& b) {
    return std::tie(a.begin, a.end, a.weight.name) <
           std::tie(b.begin, b.end, b.weight.name);
  });
  const uint64_t data = 8 + header_size;
  int64_t expected = 0;
  for (Parsed& tensor : tensors) {
    if (tensor.begin != expected)
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Shown(tensor.weight.name), " starts at byte ",
          tensor.begin, ", the one before it ends at ", expected,
          tensor.begin < expected ? ": they overlap" : ": there is a hole"));
    expected = tensor.end;
    offsets_[tensor.weight.name] = data + static_cast<uint64_t>(tensor.begin);
    Add(std::move(tensor.weight));
  }
  const uint64_t present = file_->size() - data;
  if (present < static_cast<uint64_t>(expected))
    return absl::DataLossError(
        absl::StrCat("it holds ", present, " bytes of data, its header needs ",
                     expected, "; the file is cut short: copy it again"));
  if (present > static_cast<uint64_t>(expected))
    return absl::InvalidArgumentError(
        absl::StrCat(present - static_cast<uint64_t>(expected),
                     " bytes at its end belong to no tensor"));
  return absl::OkStatus();
}

absl::StatusOr<Bytes> SafetensorsFile::View(const WeightInfo& weight) const {
  auto it = offsets_.find(weight.storage);
  if (it == offsets_.end())
    return absl::NotFoundError(
        absl::StrCat(path(), ": no tensor ", Shown(weight.storage)));
  return file_->Map(it->second, static_cast<size_t>(weight.storage_bytes));
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, SafetensorsWriterOptions options) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    const int error = errno;
    const std::string message =
        absl::StrCat("cannot write ", path, ": ", std::strerror(error));
    if (error == EACCES || error == EPERM || error == EROFS)
      return absl::PermissionDeniedError(message);
    if (error == ENOENT || error == ENOTDIR)
      return absl::NotFoundError(message);
    return absl::UnavailableError(message);
  }
  return std::unique_ptr<SafetensorsWriter>(
      new SafetensorsWriter(path, fd, std::move(options)));
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!finished_) ::unlink(path_.c_str());
}

absl::Status SafetensorsWriter::DiskError(absl::string_view what,
                                          int error) const {
  return absl::UnavailableError(
      absl::StrCat(what, " ", path_, " failed: ", std::strerror(error),
                   error == ENOSPC || error == EDQUOT || error == EFBIG
                       ? "; free some space or write to another disk"
                       : ""));
}

absl::Status SafetensorsWriter::Declare(llvm::StringRef name, DType dtype,
                                        llvm::ArrayRef<int64_t> sizes) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write tensor ", Shown(name), ": ", what));
  };
  if (header_written_) return error("bytes were written already");
  if (!llvm::json::isUTF8(name)) return error("its name is not UTF-8");
  if (name == kMetadataKey) return error("the name is reserved");
  int64_t bytes = ByteSize(dtype);
  for (int64_t size : sizes)
    if (size < 0 || llvm::MulOverflow(bytes, size, bytes))
      return error("a size is negative or overflows");
  int64_t total = 0;
  if (llvm::AddOverflow(declared_bytes_, bytes, total))
    return error("the file's size overflows");
  if (!names_.insert(name).second) return error("the name is taken");
  declared_bytes_ = total;
  tensors_.push_back({name.str(), dtype, sizes.vec(), bytes});
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::WriteHeader() {
  header_written_ = true;
  std::string header = "{";
  const auto quoted = [](llvm::StringRef text) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    stream << llvm::json::Value(text);
    return out;
  };
  if (!options_.metadata.empty()) {
    absl::StrAppend(&header, quoted(kMetadataKey), ":{");
    const char* comma = "";
    for (const auto& [key, value] : options_.metadata) {
      absl::StrAppend(&header, comma, quoted(key), ":", quoted(value));
      comma = ",";
    }
    absl::StrAppend(&header, "}");
  }
  int64_t offset = 0;
  for (const Declared& tensor : tensors_) {
    if (header.size() > 1) header += ',';
    absl::StrAppend(&header, quoted(tensor.name), ":{\"dtype\":\"",
                    SafetensorsName(tensor.dtype), "\",\"shape\":[",
                    absl::StrJoin(tensor.sizes, ","), "],\"data_offsets\":[",
                    offset, ",", offset + tensor.bytes, "]}");
    offset += tensor.bytes;
  }
  header += '}';
  const size_t total = llvm::alignTo(8 + header.size(), kDataAlignment);
  header.append(total - 8 - header.size(), ' ');
  if (header.size() > kMaxHeaderBytes)
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": too many tensors for one safetensors file"));
  char size[8];
  llvm::support::endian::write64le(size, header.size());
  TP_RETURN_IF_ERROR(Write(size, sizeof size));
  return Write(header.data(), header.size());
}

absl::Status SafetensorsWriter::Write(const void* data, size_t size) {
  if (options_.hash) {
    const llvm::ArrayRef bytes(static_cast<const uint8_t*>(data), size);
    hash_.Update(bytes);
    fast_.Update(bytes);
  }
  const char* next = static_cast<const char*>(data);
  written_ += size;
  while (size > 0) {
    const ssize_t done = ::write(fd_, next, std::min<size_t>(size, 1u << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return DiskError("writing", errno);
    next += done;
    size -= static_cast<size_t>(done);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(const void* data, size_t size) {
  if (!header_written_) TP_RETURN_IF_ERROR(WriteHeader());
  if (size > static_cast<uint64_t>(declared_bytes_ - appended_bytes_))
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": more bytes than the ", declared_bytes_, " declared"));
  appended_bytes_ += static_cast<int64_t>(size);
  return Write(data, size);
}

absl::Status SafetensorsWriter::Finish() {
  if (!header_written_) TP_RETURN_IF_ERROR(WriteHeader());
  if (appended_bytes_ != declared_bytes_)
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": ", appended_bytes_, " bytes of the ",
                     declared_bytes_, " declared"));
  if (options_.sync && ::fsync(fd_) != 0) return DiskError("syncing", errno);
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) return DiskError("closing", errno);
  finished_ = true;
  if (options_.hash) {
    sha256_ = hash_.FinishHex();
    checksum_ = fast_.FinishHex();
  }
  return absl::OkStatus();
}

}  // namespace tp
