// The gate in front of LibTorch: says what a given file is, and lets only
// TorchScript archives through that keep every rule of the zip, pickle and
// source checks. Nothing of the model runs and no tensor data is read here.
#ifndef TP_FRONTEND_ARCHIVE_CHECK_H_
#define TP_FRONTEND_ARCHIVE_CHECK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontend/pickle_reader.h"
#include "frontend/zip_reader.h"

namespace tp {

struct ArchiveOptions {
  // Operators to let through although they are unknown or unsafe; see
  // CheckOperator.
  std::vector<std::string> allow_ops;
  ZipLimits zip;
};

// A checked archive and what was read of it on the way.
struct CheckedArchive {
  std::shared_ptr<const ZipReader> zip;
  std::string data_pickle;  // the bytes of data.pkl
  Pickle data;              // the module, as data
  Pickle constants;         // a tuple
  // Every tensor attribute of the module and its submodules; they point into
  // `data`. Tied ones are listed under each name.
  std::vector<NamedTensor> tensors;
};

// What kind of file `path` is, for an error message: "a torch.export archive
// (.pt2)", "a text file", ... "a TorchScript archive" for the right kind.
// Looks at few bytes. The errors are those of opening the file.
absl::StatusOr<std::string> DescribeFile(const std::string& path);

// Opens and checks the archive. InvalidArgument or DataLoss: not a TorchScript
// archive, cut short, damaged or against the rules; the message says what the
// file is and what to do. PermissionDenied: unsafe. Unimplemented: something
// this project has no support for. CRCs of all small records are checked;
// those of tensor records when they are read.
absl::StatusOr<std::unique_ptr<CheckedArchive>> CheckArchive(
    const std::string& path, const ArchiveOptions& options = {});

}  // namespace tp

#endif  // TP_FRONTEND_ARCHIVE_CHECK_H_
