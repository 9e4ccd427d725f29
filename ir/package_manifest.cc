#include "ir/package_manifest.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/fast_checksum.h"
#include "ir/file_digest.h"
#include "ir/json_nesting.h"
#include "ir/mapped_file.h"
#include "ir/sha256.h"
#include "ir/status.h"

namespace tp {
namespace {

namespace json = llvm::json;

constexpr char kManifest[] = "manifest.json";
constexpr int kMaxNesting = 16;

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  return file->Read(0, file->size());
}

}  // namespace

absl::StatusOr<PackageManifest> PackageManifest::Read(
    const std::string& directory) {
  PackageManifest manifest(directory);
  absl::StatusOr<std::string> text = ReadWhole(manifest.Path(kManifest));
  if (!text.ok())
    return Annotate(
        text.status(),
        absl::StrCat(directory, " is not a package made by tp-compile"));
  if (NestedTooDeep(*text, kMaxNesting))
    return manifest.Bad("not a manifest: its JSON is nested too deeply");
  llvm::Expected<json::Value> parsed = json::parse(*text);
  if (!parsed)
    return manifest.Bad(
        absl::StrCat("not valid JSON: ", llvm::toString(parsed.takeError())));
  if (parsed->getAsObject() == nullptr)
    return manifest.Bad("not a JSON object");
  manifest.json_ = std::move(*parsed);
  TP_RETURN_IF_ERROR(manifest.CheckVersion());
  TP_RETURN_IF_ERROR(manifest.ReadFiles());
  return manifest;
}

std::string PackageManifest::Path(llvm::StringRef name) const {
  return absl::StrCat(directory_, "/", name.str());
}

absl::Status PackageManifest::Bad(llvm::StringRef what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(Path(kManifest), ": ", what.str()));
}

absl::Status PackageManifest::Differs(llvm::StringRef name,
                                      llvm::StringRef how) const {
  return absl::DataLossError(absl::StrCat(
      Path(name), " is not the file tp-compile wrote: ", how.str(),
      ". It was edited, damaged, or belongs to another package or rank; "
      "compile again."));
}

absl::Status PackageManifest::CheckVersion() const {
  const std::optional<int64_t> version = root().getInteger("format_version");
  if (!version) return Bad("'format_version' is missing");
  if (*version == kPackageFormatVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      directory_, " has package format ", *version, ", this version (",
      TP_VERSION, ") reads format ", kPackageFormatVersion,
      ". Compile the model again with the tp-compile of the same version."));
}

absl::Status PackageManifest::ReadFiles() {
  const json::Object* files = root().getObject("files");
  if (files == nullptr) return Bad("'files' is missing");
  for (const auto& [name, value] : *files) {
    const json::Object* file = value.getAsObject();
    const auto sha256 = file ? file->getString("sha256") : std::nullopt;
    const auto bytes = file ? file->getInteger("bytes") : std::nullopt;
    if (!sha256 || !bytes || *bytes < 0)
      return Bad(absl::StrCat("'files' entry ", name.str(),
                              " needs 'sha256' and 'bytes'"));
    files_[name] = {sha256->str(),
                    file->getString("xxh3_1mib").value_or("").str(),
                    static_cast<uint64_t>(*bytes)};
  }
  return absl::OkStatus();
}

std::vector<std::string> PackageManifest::Entries() const {
  std::vector<std::string> names;
  const json::Array* entries = root().getArray("entries");
  if (entries == nullptr) return names;
  for (const json::Value& value : *entries)
    if (const json::Object* entry = value.getAsObject())
      names.push_back(entry->getString("name").value_or("").str());
  return names;
}

std::vector<ModelArgument> PackageManifest::Arguments(
    llvm::StringRef entry) const {
  std::vector<ModelArgument> arguments;
  const json::Array* list = nullptr;
  if (const json::Array* entries = root().getArray("entries")) {
    for (const json::Value& value : *entries) {
      const json::Object* object = value.getAsObject();
      if (object == nullptr || list != nullptr) continue;
      if (entry.empty() || object->getString("name") == entry)
        list = object->getArray("arguments");
    }
  }
  if (list == nullptr) list = root().getArray("arguments");
  if (list == nullptr) return arguments;
  for (const json::Value& entry : *list) {
    const json::Object* object = entry.getAsObject();
    if (object == nullptr) continue;
    ModelArgument argument;
    argument.name = object->getString("name").value_or("").str();
    if (object->getBoolean("absent").value_or(false))
      argument.kind = ModelArgument::Kind::kAbsent;
    if (auto value = object->getString("value")) {
      argument.kind = ModelArgument::Kind::kScalar;
      argument.value = value->str();
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

absl::StatusOr<const PackageManifest::FileEntry*> PackageManifest::EntryOf(
    llvm::StringRef name) const {
  const auto entry = files_.find(name);
  if (entry == files_.end())
    return Bad(absl::StrCat("'files' has no entry for ", name.str()));
  return &entry->second;
}

absl::Status PackageManifest::CheckSize(llvm::StringRef name,
                                        uint64_t bytes) const {
  TP_ASSIGN_OR_RETURN(const FileEntry* entry, EntryOf(name));
  if (entry->bytes == bytes) return absl::OkStatus();
  return Differs(
      name, absl::StrCat("it has ", bytes, " bytes instead of ", entry->bytes));
}

absl::Status PackageManifest::CheckHash(llvm::StringRef name,
                                        llvm::StringRef sha256) const {
  TP_ASSIGN_OR_RETURN(const FileEntry* entry, EntryOf(name));
  if (sha256 == entry->sha256) return absl::OkStatus();
  return Differs(name, "its SHA-256 differs from the manifest's");
}

absl::Status PackageManifest::CheckFile(llvm::StringRef name,
                                        bool content) const {
  TP_ASSIGN_OR_RETURN(const FileEntry* entry, EntryOf(name));
  TP_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file,
                      MappedFile::Open(Path(name)));
  TP_RETURN_IF_ERROR(CheckSize(name, file->size()));
  if (!content) return absl::OkStatus();
  const bool fast = !entry->checksum.empty();
  // In pieces, so that what was read does not count as used memory.
  constexpr uint64_t kPiece = uint64_t{16} << 20;
  FastChecksum checksum;
  Sha256 sha256;
  for (uint64_t at = 0; at < file->size(); at += kPiece) {
    TP_ASSIGN_OR_RETURN(Bytes bytes,
                        file->Map(at, std::min(kPiece, file->size() - at)));
    PopulatePages(bytes.data(), bytes.size());
    const llvm::ArrayRef piece(bytes.data(), bytes.size());
    if (fast)
      checksum.Update(piece);
    else
      sha256.Update(piece);
  }
  if (!fast) return CheckHash(name, sha256.FinishHex());
  if (checksum.FinishHex() == entry->checksum) return absl::OkStatus();
  return Differs(name, "its checksum differs from the manifest's");
}

absl::StatusOr<std::string> PackageManifest::ReadText(
    llvm::StringRef name) const {
  TP_ASSIGN_OR_RETURN(std::string text, ReadWhole(Path(name)));
  TP_RETURN_IF_ERROR(CheckSize(name, text.size()));
  TP_RETURN_IF_ERROR(CheckHash(name, Sha256Hex(text)));
  return text;
}

bool IsPackageManifest(llvm::StringRef text) {
  if (NestedTooDeep(text, kMaxNesting)) return false;
  llvm::Expected<json::Value> parsed = json::parse(text);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return false;
  }
  const json::Object* manifest = parsed->getAsObject();
  return manifest != nullptr && manifest->get("format_version") != nullptr &&
         manifest->get("schedule_sha256") != nullptr;
}

}  // namespace tp
