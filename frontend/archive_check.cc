#include "frontend/archive_check.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "frontend/code_scan.h"
#include "frontend/debug_table.h"
#include "ir/status.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"

namespace tp {
namespace {

using llvm::StringRef;

constexpr char kTorchScript[] = "a TorchScript archive";
constexpr size_t kHeadBytes = 4096;
constexpr uint64_t kTailBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxSourceRecord = uint64_t{64} << 20;

// What a file turned out to be, and what its owner should do.
struct Guess {
  std::string what;
  std::string advice;
};

const char kExportAdvice[] =
    "trace or script the model in Python and save it with torch.jit.save "
    "(tools/export/tp_export.py does it)";

bool IsText(StringRef head) {
  if (!llvm::all_of(head, [](unsigned char c) {
        return c >= 0x20 || c == '\n' || c == '\r' || c == '\t' || c == '\f';
      }))
    return false;
  // The head may end inside a character.
  for (size_t drop = 0; drop < 4 && drop < head.size(); ++drop)
    if (llvm::json::isUTF8(head.drop_back(drop))) return true;
  return false;
}

bool IsSafetensors(StringRef head, uint64_t file_size) {
  if (head.size() < 9 || head[8] != '{') return false;
  const uint64_t header = llvm::support::endian::read64le(head.data());
  return header <= file_size - 8;
}

// For everything that is no zip archive.
Guess GuessFromHead(StringRef head, uint64_t file_size) {
  const auto magic = [&](StringRef bytes) { return head.starts_with(bytes); };
  if (head.empty())
    return {"an empty file", "copy the file again or save the model anew"};
  if (IsSafetensors(head, file_size))
    return {"a safetensors file, which holds weights but no program",
            "give the TorchScript file as the model (weights from safetensors "
            "go with --weights)"};
  if (magic("version https://git-lfs.github.com/spec/"))
    return {"a Git LFS pointer, not the file itself", "run git lfs pull"};
  if (magic(StringRef("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20", 10)))
    return {"a state dict or pickled module saved by torch.save before 1.6",
            kExportAdvice};
  if (magic("\x80\x02") || magic("\x80\x03") || magic("\x80\x04") ||
      magic("\x80\x05"))
    return {"a Python pickle", kExportAdvice};
  if (head.substr(4).starts_with("PTMF"))
    return {"a mobile model in flatbuffer form", kExportAdvice};
  if (magic("GGUF")) return {"a GGUF file", kExportAdvice};
  if (magic("\x93NUMPY")) return {"a NumPy array", kExportAdvice};
  if (magic("\x89HDF")) return {"an HDF5 file", kExportAdvice};
  if (magic("\x7f"
            "ELF"))
    return {"a program or shared object", kExportAdvice};
  if (magic("\x1f\x8b")) return {"a gzip archive", "unpack it first"};
  if (head.substr(257).starts_with("ustar"))
    return {"a tar archive", "unpack it first"};
  if (magic("\x08") && head.take_front(64).contains("onnx"))
    return {"an ONNX model", kExportAdvice};
  if (IsText(head)) return {"a text file", kExportAdvice};
  if (llvm::all_of(head, [](char c) { return c == 0; }))
    return {"a file of zeros, perhaps an unfinished download",
            "copy the file again or save the model anew"};
  return {"an unknown kind of file (it does not start as a zip file does)",
          kExportAdvice};
}

// For a zip archive: by the record names that its directory holds.
Guess GuessFromRecords(const ZipReader& zip) {
  const auto has = [&](StringRef record) {
    return zip.Find(record) != nullptr;
  };
  const auto has_folder = [&](StringRef folder) {
    return llvm::any_of(zip.entries(), [&](const ZipEntry& entry) {
      return StringRef(entry.record).starts_with(folder);
    });
  };
  if (has("archive_format") || has_folder("models/"))
    return {"a torch.export archive (.pt2)", kExportAdvice};
  if (has(".data/extern_modules"))
    return {"a torch.package archive", kExportAdvice};
  if (has("data.pkl") && has("constants.pkl") && has_folder("code/"))
    return {kTorchScript, ""};
  if (has("data.pkl") && !has_folder("code/"))
    return {
        "a state dict or pickled module saved by torch.save, which holds "
        "no program",
        absl::StrCat("load it into its Python model, then ", kExportAdvice)};
  if (has("model.json"))
    return {"a TorchScript archive from before PyTorch 1.4",
            "load and save it again with PyTorch 1.4 to 2.15"};
  return {"a zip archive, but not of TorchScript", kExportAdvice};
}

// For a zip archive that the strict reader refused: other formats with
// several top folders or none.
Guess GuessFromTail(StringRef tail) {
  if (tail.contains("serialized_exported_program") ||
      tail.contains("archive_format") || tail.contains("models/model.json"))
    return {"a torch.export archive (.pt2)", kExportAdvice};
  if (tail.contains(".npyPK")) return {"a NumPy archive (.npz)", kExportAdvice};
  return {"", ""};
}

absl::Status WrongKind(const std::string& path, const Guess& guess) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is ", guess.what, ", not a TorchScript archive; ", guess.advice));
}

struct Opened {
  std::unique_ptr<ZipReader> zip;
  Guess guess;
  absl::Status status;  // of reading a zip archive
};

absl::StatusOr<Opened> OpenAny(const std::string& path,
                               const ZipLimits& limits) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const uint64_t size = file->size();
  TP_ASSIGN_OR_RETURN(std::string head,
                      file->Read(0, std::min<uint64_t>(size, kHeadBytes)));
  Opened opened;
  if (!StringRef(head).starts_with("PK\x03\x04") &&
      !StringRef(head).starts_with("PK\x05\x06")) {
    opened.guess = GuessFromHead(head, size);
    return opened;
  }
  absl::StatusOr<std::unique_ptr<ZipReader>> zip =
      ZipReader::Open(path, limits);
  if (zip.ok()) {
    opened.zip = std::move(zip).value();
    opened.guess = GuessFromRecords(*opened.zip);
    return opened;
  }
  opened.status = zip.status();
  const uint64_t tail_size = std::min<uint64_t>(size, kTailBytes);
  TP_ASSIGN_OR_RETURN(std::string tail,
                      file->Read(size - tail_size, tail_size));
  opened.guess = GuessFromTail(tail);
  return opened;
}

absl::Status CheckFormatRecords(const ZipReader& zip) {
  // Older archives have neither record; LibTorch reads those as little.
  if (const ZipEntry* entry = zip.Find("byteorder")) {
    TP_ASSIGN_OR_RETURN(std::string order, zip.Read(*entry));
    if (order != "little")
      return absl::UnimplementedError(absl::StrCat(
          zip.path(), ": the weights are stored ", order.substr(0, 20),
          "-endian; save the model on a little-endian machine"));
  }
  const ZipEntry* entry = zip.Find("version");
  if (entry == nullptr) entry = zip.Find(".data/version");
  if (entry == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat(zip.path(),
                     ": the archive has no version record; save the model anew "
                     "with torch.jit.save"));
  return zip.Read(*entry).status();
}

absl::Status CheckCode(const ZipReader& zip, const ArchiveOptions& options) {
  for (const ZipEntry& entry : zip.entries()) {
    StringRef record(entry.record);
    if (!record.starts_with("code/")) continue;
    const bool source = record.ends_with(".py");
    const bool debug = record.ends_with(".debug_pkl");
    if (!source && !debug) continue;  // never shown to LibTorch
    TP_ASSIGN_OR_RETURN(std::string bytes, zip.Read(entry, kMaxSourceRecord));
    const std::string where = absl::StrCat(zip.path(), ": ", entry.record);
    if (source) {
      TP_RETURN_IF_ERROR(ScanCode(bytes, where, options.allow_ops));
    } else if (!bytes.empty()) {
      TP_ASSIGN_OR_RETURN(Pickle table, ReadPickle(bytes, where));
      TP_RETURN_IF_ERROR(CheckDebugTable(*table.root, where));
    }
  }
  return absl::OkStatus();
}

// The record of each tensor must hold its whole storage: LibTorch believes
// the pickle.
absl::Status CheckRecords(const ZipReader& zip, StringRef folder,
                          llvm::ArrayRef<const PickledTensor*> tensors) {
  for (const PickledTensor* tensor : tensors) {
    if (tensor->storage_bytes == 0 || tensor->device == "meta") continue;
    const std::string record =
        absl::StrCat(folder.str(), "/", tensor->storage_key);
    const ZipEntry* entry = zip.Find(record);
    if (entry == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat(zip.path(), ": the bytes of a tensor, record ", record,
                       ", are missing; save the model anew"));
    if (entry->size < static_cast<uint64_t>(tensor->storage_bytes))
      return absl::InvalidArgumentError(
          absl::StrCat(zip.path(), ": record ", record, " has ", entry->size,
                       " bytes, but its tensor needs ", tensor->storage_bytes,
                       "; save the model anew"));
  }
  return absl::OkStatus();
}

std::vector<const PickledTensor*> AllTensors(const Pickle& pickle) {
  std::vector<const PickledTensor*> out;
  for (const PickleValue& value : pickle.values)
    if (value.tensor != nullptr) out.push_back(value.tensor.get());
  return out;
}

}  // namespace

absl::StatusOr<std::string> DescribeFile(const std::string& path) {
  TP_ASSIGN_OR_RETURN(Opened opened, OpenAny(path, {}));
  if (!opened.guess.what.empty()) return opened.guess.what;
  return std::string("a damaged or unusual zip archive");
}

absl::StatusOr<std::unique_ptr<CheckedArchive>> CheckArchive(
    const std::string& path, const ArchiveOptions& options) {
  TP_ASSIGN_OR_RETURN(Opened opened, OpenAny(path, options.zip));
  if (opened.guess.what != kTorchScript) {
    if (opened.guess.what.empty()) return opened.status;
    return WrongKind(path, opened.guess);
  }
  auto archive = std::make_unique<CheckedArchive>();
  archive->zip = std::move(opened.zip);
  const ZipReader& zip = *archive->zip;
  TP_RETURN_IF_ERROR(CheckFormatRecords(zip));
  TP_RETURN_IF_ERROR(CheckCode(zip, options));

  TP_ASSIGN_OR_RETURN(archive->data_pickle, zip.Read("data.pkl"));
  TP_ASSIGN_OR_RETURN(archive->data,
                      ReadPickle(archive->data_pickle, path + ": data.pkl"));
  TP_ASSIGN_OR_RETURN(std::string constants, zip.Read("constants.pkl"));
  TP_ASSIGN_OR_RETURN(archive->constants,
                      ReadPickle(constants, path + ": constants.pkl"));
  TP_RETURN_IF_ERROR(CheckRecords(zip, "data", AllTensors(archive->data)));
  TP_RETURN_IF_ERROR(
      CheckRecords(zip, "constants", AllTensors(archive->constants)));
  if (archive->data.root->kind != PickleValue::Kind::kObject)
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": the archive holds no module; save the model "
                     "itself with torch.jit.save"));
  TP_ASSIGN_OR_RETURN(archive->tensors, FlattenTensors(*archive->data.root));
  return archive;
}

}  // namespace tp
