#include "frontend/zip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ir/status.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"

namespace tp {
namespace {

using llvm::support::endian::read16le;
using llvm::support::endian::read32le;
using llvm::support::endian::read64le;

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint32_t kEntrySignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64Size = 56;
constexpr size_t kEnd64LocatorSize = 20;
constexpr size_t kEntrySize = 46;
constexpr size_t kLocalSize = 30;
constexpr uint16_t kEncryptedFlags = 0x1 | 0x40 | 0x2000;
constexpr size_t kMaxNameBytes = 4096;
// Deflate cannot do better than this, so a larger claim is a lie.
constexpr uint64_t kDeflateBestRatio = 1032;
// How much of a record is looked at in one go.
constexpr uint64_t kInflateWindow = uint64_t{16} << 20;
constexpr uint64_t kVerifyWindow = uint64_t{1} << 20;

// Where the central directory lies and what follows it.
struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t entries = 0;
  uint64_t end_record = 0;  // offset of the (zip64) end record
};

absl::Status Refuse(const MappedFile& file, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": ", what,
                   "; refused: torch.jit.save does not write such an archive"));
}

absl::Status Damaged(const MappedFile& file, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(file.path(), ": ", what,
                   "; the file is cut short or damaged: copy it again"));
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)), "\"");
}

const uint8_t* Data(const std::string& bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

// Finds the end record, which a comment of up to 64 KiB may follow.
absl::StatusOr<uint64_t> FindEndRecord(const MappedFile& file) {
  const uint64_t tail_size = std::min<uint64_t>(file.size(), kEndSize + 0xffff);
  const uint64_t tail_offset = file.size() - tail_size;
  TP_ASSIGN_OR_RETURN(std::string tail, file.Read(tail_offset, tail_size));
  for (size_t back = kEndSize; back <= tail.size(); ++back) {
    const uint8_t* p = Data(tail) + tail.size() - back;
    if (read32le(p) == kEndSignature && read16le(p + 20) == back - kEndSize)
      return tail_offset + tail.size() - back;
  }
  return Damaged(file, "no zip directory at the end");
}

// Replaces the 32-bit numbers by those of the zip64 end record, if there is
// one; `end` is the offset of the plain end record.
absl::Status ReadZip64End(const MappedFile& file, uint64_t end,
                          Directory& directory, bool& found) {
  found = false;
  if (end < kEnd64LocatorSize + kEnd64Size) return absl::OkStatus();
  TP_ASSIGN_OR_RETURN(std::string locator,
                      file.Read(end - kEnd64LocatorSize, kEnd64LocatorSize));
  if (read32le(Data(locator)) != kEnd64LocatorSignature)
    return absl::OkStatus();
  const uint64_t offset = read64le(Data(locator) + 8);
  if (offset != end - kEnd64LocatorSize - kEnd64Size)
    return Damaged(file, "the zip64 end record is not where it should be");
  TP_ASSIGN_OR_RETURN(std::string record, file.Read(offset, kEnd64Size));
  const uint8_t* p = Data(record);
  if (read32le(p) != kEnd64Signature || read64le(p + 4) != kEnd64Size - 12)
    return Damaged(file, "the zip64 end record is malformed");
  if (read32le(Data(locator) + 4) != 0 || read32le(Data(locator) + 16) != 1 ||
      read32le(p + 16) != 0 || read32le(p + 20) != 0 ||
      read64le(p + 24) != read64le(p + 32))
    return Refuse(file, "the zip archive spans several disks");
  directory.entries = read64le(p + 32);
  directory.size = read64le(p + 40);
  directory.offset = read64le(p + 48);
  directory.end_record = offset;
  found = true;
  return absl::OkStatus();
}

absl::StatusOr<Directory> LocateDirectory(const MappedFile& file,
                                          const ZipLimits& limits) {
  if (file.size() < kEndSize)
    return Damaged(file, absl::StrCat("only ", file.size(), " bytes"));
  TP_ASSIGN_OR_RETURN(const uint64_t end, FindEndRecord(file));
  TP_ASSIGN_OR_RETURN(std::string record, file.Read(end, kEndSize));
  const uint8_t* p = Data(record);
  Directory directory;
  directory.entries = read16le(p + 10);
  directory.size = read32le(p + 12);
  directory.offset = read32le(p + 16);
  directory.end_record = end;
  bool zip64 = false;
  TP_RETURN_IF_ERROR(ReadZip64End(file, end, directory, zip64));
  // 0xffff says "see the zip64 record" where there is one.
  const uint16_t disks[] = {read16le(p + 4), read16le(p + 6)};
  for (uint16_t disk : disks)
    if (disk != 0 && !(zip64 && disk == 0xffff))
      return Refuse(file, "the zip archive spans several disks");
  if (!zip64 && read16le(p + 8) != read16le(p + 10))
    return Refuse(file, "the zip archive spans several disks");
  if (directory.offset > directory.end_record ||
      directory.end_record - directory.offset != directory.size)
    return Damaged(file, "the zip directory is not where its end says");
  if (directory.size > limits.max_directory_bytes)
    return Refuse(
        file, absl::StrCat("the zip directory has ", directory.size,
                           " bytes, more than ", limits.max_directory_bytes));
  if (directory.entries > limits.max_entries)
    return Refuse(file,
                  absl::StrCat("the archive has ", directory.entries,
                               " entries, more than ", limits.max_entries));
  if (directory.entries > directory.size / kEntrySize)
    return Damaged(file, "the zip directory is too small for its entries");
  return directory;
}

// The zip64 extra field replaces those of the three numbers that are all ones.
// False if it is missing or too short.
bool ApplyZip64Extra(llvm::ArrayRef<uint8_t> extra, ZipEntry& entry,
                     uint64_t& header_offset) {
  uint64_t* fields[] = {&entry.size, &entry.compressed_size, &header_offset};
  const bool needed = std::any_of(std::begin(fields), std::end(fields),
                                  [](uint64_t* f) { return *f == 0xffffffff; });
  if (!needed) return true;
  while (extra.size() >= 4) {
    const uint16_t tag = read16le(extra.data());
    const size_t length = read16le(extra.data() + 2);
    extra = extra.drop_front(4);
    if (length > extra.size()) return false;
    if (tag == 1) {
      llvm::ArrayRef<uint8_t> body = extra.take_front(length);
      for (uint64_t* field : fields) {
        if (*field != 0xffffffff) continue;
        if (body.size() < 8) return false;
        *field = read64le(body.data());
        body = body.drop_front(8);
      }
      return true;
    }
    extra = extra.drop_front(length);
  }
  return false;
}

// Empty if the name is fine, else what is wrong with it.
std::string NameFault(llvm::StringRef name) {
  if (name.empty()) return "is empty";
  if (name.size() > kMaxNameBytes) return "is too long";
  if (!llvm::json::isUTF8(name)) return "is not UTF-8";
  for (unsigned char c : name) {
    if (c == 0) return "holds a NUL byte";
    if (c < 0x20 || c == 0x7f) return "holds a control byte";
    if (c == '\\') return "holds a backslash";
  }
  if (name.starts_with("/")) return "is absolute";
  if (name.size() > 1 && name[1] == ':') return "is absolute";
  llvm::SmallVector<llvm::StringRef, 8> parts;
  name.split(parts, '/');
  for (llvm::StringRef part : parts)
    if (part == "." || part == ".." || part.empty())
      return "holds an empty, \".\" or \"..\" folder";
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<ZipReader>> ZipReader::Open(
    const std::string& path, const ZipLimits& limits) {
  TP_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  std::unique_ptr<ZipReader> reader(new ZipReader(std::move(file), limits));
  TP_RETURN_IF_ERROR(reader->ReadDirectory());
  TP_RETURN_IF_ERROR(reader->CheckNames());
  TP_RETURN_IF_ERROR(reader->CheckSizes());
  TP_RETURN_IF_ERROR(reader->CheckLocalHeaders());
  const size_t count = reader->entries_.size();
  reader->verified_ = std::make_unique<std::atomic<bool>[]>(count);
  for (size_t i = 0; i < count; ++i) {
    reader->entries_[i].index = i;
    reader->by_record_[reader->entries_[i].record] = i;
    reader->verified_[i] = false;
  }
  return reader;
}

// Fills entries_; data_offset is the local header's offset until
// CheckLocalHeaders moves it.
absl::Status ZipReader::ReadDirectory() {
  TP_ASSIGN_OR_RETURN(const Directory directory,
                      LocateDirectory(*file_, limits_));
  directory_offset_ = directory.offset;
  TP_ASSIGN_OR_RETURN(std::string bytes,
                      file_->Read(directory.offset, directory.size));
  llvm::ArrayRef<uint8_t> rest(Data(bytes), bytes.size());
  entries_.reserve(directory.entries);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < kEntrySize || read32le(rest.data()) != kEntrySignature)
      return Damaged(*file_,
                     absl::StrCat("zip directory entry ", i, " is malformed"));
    const uint8_t* p = rest.data();
    const size_t name_size = read16le(p + 28);
    const size_t extra_size = read16le(p + 30);
    const size_t total = kEntrySize + name_size + extra_size + read16le(p + 32);
    if (total > rest.size())
      return Damaged(*file_,
                     absl::StrCat("zip directory entry ", i, " is cut short"));
    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(p) + kEntrySize, name_size);
    const std::string shown = absl::StrCat("entry ", Quoted(entry.name), " ");
    const uint16_t method = read16le(p + 10);
    entry.deflated = method == 8;
    entry.crc = read32le(p + 16);
    entry.compressed_size = read32le(p + 20);
    entry.size = read32le(p + 24);
    uint64_t header_offset = read32le(p + 42);
    if (read16le(p + 8) & kEncryptedFlags)
      return Refuse(*file_, shown + "is encrypted");
    if (method != 0 && method != 8)
      return Refuse(*file_,
                    absl::StrCat(shown, "uses compression method ", method));
    if (read16le(p + 34) != 0 && read16le(p + 34) != 0xffff)
      return Refuse(*file_, shown + "lies on another disk");
    if (!ApplyZip64Extra(rest.slice(kEntrySize + name_size, extra_size), entry,
                         header_offset))
      return Damaged(*file_, shown + "lacks its 64-bit sizes");
    entry.data_offset = header_offset;
    rest = rest.drop_front(total);
    // What other zip tools write for a folder holds nothing.
    const bool is_folder = !entry.name.empty() && entry.name.back() == '/' &&
                           entry.size == 0 && entry.compressed_size == 0;
    if (is_folder) entry.name.pop_back();
    if (std::string fault = NameFault(entry.name); !fault.empty())
      return Refuse(*file_, shown + fault);
    if (!is_folder) entries_.push_back(std::move(entry));
  }
  if (!rest.empty())
    return Damaged(*file_, "bytes are left over in the zip directory");
  if (entries_.empty()) return Refuse(*file_, "the archive is empty");
  return absl::OkStatus();
}

absl::Status ZipReader::CheckNames() {
  llvm::StringMap<llvm::StringRef> seen;
  for (ZipEntry& entry : entries_) {
    auto [it, is_new] =
        seen.try_emplace(llvm::StringRef(entry.name).lower(), entry.name);
    if (!is_new) {
      return Refuse(
          *file_,
          it->second == entry.name
              ? absl::StrCat("two entries are named ", Quoted(entry.name))
              : absl::StrCat("entries ", Quoted(it->second.str()), " and ",
                             Quoted(entry.name), " differ only in case"));
    }
    auto [top, record] = llvm::StringRef(entry.name).split('/');
    if (record.empty())
      return Refuse(*file_, absl::StrCat("entry ", Quoted(entry.name),
                                         " lies in no folder"));
    if (top_folder_.empty()) top_folder_ = top.str();
    if (top != top_folder_)
      return Refuse(*file_, absl::StrCat("there are two top folders, ",
                                         Quoted(top_folder_), " and ",
                                         Quoted(top.str())));
    entry.record = record.str();
  }
  return absl::OkStatus();
}

absl::Status ZipReader::CheckSizes() const {
  uint64_t stored = 0, inflated = 0;
  for (const ZipEntry& entry : entries_) {
    const std::string shown = absl::StrCat("entry ", Quoted(entry.name), " ");
    if (entry.compressed_size > file_->size())
      return Damaged(*file_, shown + "is larger than the file");
    stored += entry.compressed_size;  // cannot wrap: checked each time
    if (stored > file_->size())
      return Refuse(*file_, "the entries together are larger than the file");
    if (!entry.deflated) {
      if (entry.size != entry.compressed_size)
        return Refuse(*file_, shown + "is stored with two different sizes");
      continue;
    }
    const bool impossible =
        entry.size / kDeflateBestRatio > entry.compressed_size;
    const bool suspicious =
        entry.size > limits_.free_inflated_bytes &&
        entry.size / limits_.max_ratio > entry.compressed_size;
    if (impossible || suspicious) {
      return Refuse(*file_, absl::StrCat(shown, "claims to inflate from ",
                                         entry.compressed_size, " to ",
                                         entry.size, " bytes, more than ",
                                         limits_.max_ratio, " times"));
    }
    if (entry.size > limits_.max_inflated_entry)
      return Refuse(*file_, absl::StrCat(shown, "inflates to ", entry.size,
                                         " bytes, more than ",
                                         limits_.max_inflated_entry));
    inflated += entry.size;
    if (inflated > limits_.max_inflated_total)
      return Refuse(*file_,
                    absl::StrCat("the compressed entries inflate to more than ",
                                 limits_.max_inflated_total, " bytes"));
  }
  return absl::OkStatus();
}

// Sorts the entries by place, checks each local header against the directory
// and that no entry reaches into the next.
absl::Status ZipReader::CheckLocalHeaders() {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const ZipEntry& a, const ZipEntry& b) {
                     return a.data_offset < b.data_offset;
                   });
  uint64_t previous_end = 0;
  for (ZipEntry& entry : entries_) {
    const std::string shown = absl::StrCat("entry ", Quoted(entry.name), " ");
    const uint64_t header = entry.data_offset;
    if (header < previous_end)
      return Refuse(*file_, shown + "overlaps another entry");
    if (header > directory_offset_ || directory_offset_ - header < kLocalSize)
      return Damaged(*file_, shown + "starts behind the zip directory");
    TP_ASSIGN_OR_RETURN(std::string bytes, file_->Read(header, kLocalSize));
    const uint8_t* p = Data(bytes);
    if (read32le(p) != kLocalSignature)
      return Damaged(*file_, shown + "has no header where it should be");
    const uint64_t name_size = read16le(p + 26);
    const uint64_t fixed = kLocalSize + name_size + read16le(p + 28);
    if (directory_offset_ - header < fixed ||
        directory_offset_ - header - fixed < entry.compressed_size)
      return Damaged(*file_, shown + "reaches into the zip directory");
    TP_ASSIGN_OR_RETURN(std::string name,
                        file_->Read(header + kLocalSize, name_size));
    if (name != entry.name)
      return Refuse(*file_, absl::StrCat(shown, "is called ", Quoted(name),
                                         " in its own header"));
    if (read16le(p + 6) & kEncryptedFlags)
      return Refuse(*file_, shown + "is encrypted");
    if (read16le(p + 8) != (entry.deflated ? 8 : 0))
      return Refuse(*file_, shown + "has two compression methods");
    entry.data_offset = header + fixed;
    previous_end = entry.data_offset + entry.compressed_size;
  }
  return absl::OkStatus();
}

const ZipEntry* ZipReader::Find(llvm::StringRef record) const {
  auto it = by_record_.find(record);
  return it == by_record_.end() ? nullptr : &entries_[it->second];
}

absl::Status ZipReader::CheckCrc(const ZipEntry& entry, uint64_t found) const {
  if (found == entry.crc) {
    verified_[entry.index] = true;
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "%s: record %s is damaged: its CRC-32 is %08x, the archive says %08x; "
      "copy the file again or save the model anew",
      path(), Quoted(entry.name), found, entry.crc));
}

absl::Status ZipReader::Inflate(const ZipEntry& entry, uint8_t* out) const {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return absl::ResourceExhaustedError("zlib: no memory to inflate");
  std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  uint64_t consumed = 0, produced = 0;
  uint8_t excess = 0;  // where a record longer than it claims is noticed
  int result = Z_OK;
  Bytes window;
  while (result == Z_OK) {
    if (stream.avail_in == 0 && consumed < entry.compressed_size) {
      const size_t size = static_cast<size_t>(
          std::min(kInflateWindow, entry.compressed_size - consumed));
      TP_ASSIGN_OR_RETURN(window,
                          file_->Map(entry.data_offset + consumed, size));
      consumed += size;
      stream.next_in = const_cast<Bytef*>(window.data());
      stream.avail_in = static_cast<uInt>(size);
    }
    const bool full = produced >= entry.size;
    const uInt room = full ? 1
                           : static_cast<uInt>(std::min<uint64_t>(
                                 entry.size - produced, 1u << 30));
    stream.next_out = full ? &excess : out + produced;
    stream.avail_out = room;
    result = inflate(&stream, Z_NO_FLUSH);
    produced += room - stream.avail_out;
    if (produced > entry.size) break;
  }
  if (result != Z_STREAM_END || produced != entry.size ||
      stream.avail_in != 0 || consumed != entry.compressed_size) {
    return absl::DataLossError(absl::StrCat(
        path(), ": record ", Quoted(entry.name), " does not inflate to its ",
        entry.size, " bytes; the file is damaged: copy it again"));
  }
  return CheckCrc(entry, crc32_z(0, out, entry.size));
}

absl::StatusOr<std::string> ZipReader::Read(const ZipEntry& entry,
                                            uint64_t max_bytes) const {
  if (entry.size > max_bytes)
    return Refuse(
        *file_, absl::StrCat("record ", Quoted(entry.name), " has ", entry.size,
                             " bytes, more than ", max_bytes));
  std::string out(entry.size, '\0');
  auto* data = reinterpret_cast<uint8_t*>(out.data());
  if (entry.deflated) {
    TP_RETURN_IF_ERROR(Inflate(entry, data));
    return out;
  }
  TP_RETURN_IF_ERROR(file_->Read(entry.data_offset, out.size(), data));
  TP_RETURN_IF_ERROR(CheckCrc(entry, crc32_z(0, data, out.size())));
  return out;
}

absl::StatusOr<std::string> ZipReader::Read(llvm::StringRef record,
                                            uint64_t max_bytes) const {
  const ZipEntry* entry = Find(record);
  if (entry == nullptr)
    return absl::NotFoundError(absl::StrCat(
        path(), ": no record ", Quoted(record.str()), " in the archive"));
  return Read(*entry, max_bytes);
}

absl::StatusOr<Bytes> ZipReader::View(const ZipEntry& entry) const {
  if (!entry.deflated) {
    TP_RETURN_IF_ERROR(Verify(entry));
    return file_->Map(entry.data_offset, entry.size);
  }
  // Not a std::string: zeroing gigabytes first would cost as much again, and
  // running out of memory must come back as a status.
  std::shared_ptr<void> buffer(std::malloc(entry.size + 1), std::free);
  if (buffer == nullptr)
    return absl::ResourceExhaustedError(absl::StrCat(
        path(), ": no memory for the ", entry.size, " bytes of record ",
        Quoted(entry.name), "; it is compressed: store it uncompressed"));
  auto* data = static_cast<uint8_t*>(buffer.get());
  TP_RETURN_IF_ERROR(Inflate(entry, data));
  return Bytes(data, entry.size, std::move(buffer));
}

absl::Status ZipReader::Verify(const ZipEntry& entry) const {
  if (verified_[entry.index]) return absl::OkStatus();
  if (entry.deflated) return View(entry).status();
  // Copied rather than mapped: at this size reading beats page faults.
  std::vector<uint8_t> window(
      static_cast<size_t>(std::min(kVerifyWindow, entry.size)));
  uLong crc = 0;
  for (uint64_t done = 0; done < entry.size;) {
    const size_t size = static_cast<size_t>(
        std::min<uint64_t>(window.size(), entry.size - done));
    TP_RETURN_IF_ERROR(
        file_->Read(entry.data_offset + done, size, window.data()));
    crc = crc32_z(crc, window.data(), size);
    done += size;
  }
  return CheckCrc(entry, crc);
}

}  // namespace tp
