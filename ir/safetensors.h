// The safetensors format: 8 bytes of header length, a JSON header of names,
// dtypes, shapes and byte ranges, then the tensors back to back.
#ifndef TP_IR_SAFETENSORS_H_
#define TP_IR_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ir/dtype.h"
#include "ir/fast_checksum.h"
#include "ir/mapped_file.h"
#include "ir/sha256.h"
#include "ir/weight_source.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringSet.h"

namespace tp {

// "F32", "BF16", ...: the format's spelling.
absl::string_view SafetensorsName(DType dtype);

// A file opened for reading; tensors are mapped one at a time. Thread-safe.
class SafetensorsFile : public WeightSource {
 public:
  // InvalidArgument names the rule that is broken: header of at most 100 MB,
  // well-formed JSON and UTF-8, known dtypes, shapes that agree with their
  // byte ranges, no overlap, no hole. DataLoss when the file is cut short.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

  // weights() come in the order of their bytes. A tensor's bytes may start at
  // any address (the format does not align them).
  absl::StatusOr<Bytes> View(const WeightInfo& weight) const override;

 private:
  explicit SafetensorsFile(std::unique_ptr<MappedFile> file)
      : file_(std::move(file)) {}
  absl::Status ReadHeader();

  std::unique_ptr<MappedFile> file_;
  std::map<std::string, std::string> metadata_;
  llvm::StringMap<uint64_t> offsets_;  // in the file
};

struct SafetensorsWriterOptions {
  std::map<std::string, std::string> metadata;
  bool sync = false;  // wait until the bytes are on the disk
  bool hash = true;   // compute sha256() and checksum()
};

// Writes a file as a stream: declare every tensor, then append the bytes of
// all of them in that order, in pieces of any size, then finish. A file that
// is not finished is removed. Not thread-safe.
//
//   writer->Declare("w", DType::kF32, {64, 16});
//   writer->Append(data, 4096);
//   writer->Finish();
//
// Errors of the disk are Unavailable and name the file and the reason.
class SafetensorsWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, SafetensorsWriterOptions options = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Before the first Append. InvalidArgument for a name that is taken, not
  // UTF-8 or "__metadata__", AlreadyExists never.
  absl::Status Declare(llvm::StringRef name, DType dtype,
                       llvm::ArrayRef<int64_t> sizes);

  // FailedPrecondition when more bytes come than were declared.
  absl::Status Append(const void* data, size_t size);

  // FailedPrecondition when bytes are missing.
  absl::Status Finish();

  // After Finish: of the whole file, in lower-case hex; empty without `hash`.
  const std::string& sha256() const { return sha256_; }
  // The same by FastChecksum.
  const std::string& checksum() const { return checksum_; }
  // After Finish: bytes of the whole file.
  uint64_t file_size() const { return written_; }

 private:
  SafetensorsWriter(std::string path, int fd, SafetensorsWriterOptions options)
      : path_(std::move(path)), fd_(fd), options_(std::move(options)) {}
  absl::Status WriteHeader();
  absl::Status Write(const void* data, size_t size);
  absl::Status DiskError(absl::string_view what, int error) const;

  struct Declared {
    std::string name;
    DType dtype;
    std::vector<int64_t> sizes;
    int64_t bytes;
  };

  std::string path_;
  int fd_;
  SafetensorsWriterOptions options_;
  std::vector<Declared> tensors_;
  llvm::StringSet<> names_;
  int64_t declared_bytes_ = 0;
  int64_t appended_bytes_ = 0;
  uint64_t written_ = 0;
  bool header_written_ = false;
  bool finished_ = false;
  Sha256 hash_;
  std::string sha256_;
  FastChecksum fast_;
  std::string checksum_;
};

}  // namespace tp

#endif  // TP_IR_SAFETENSORS_H_
