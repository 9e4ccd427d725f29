// Makes small zip archives and pickles for tests, well-formed or with chosen
// faults.
#ifndef TP_TESTS_UNIT_ARCHIVE_TEST_UTIL_H_
#define TP_TESTS_UNIT_ARCHIVE_TEST_UTIL_H_

#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tp::testing {

inline void PutLittle(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    out += static_cast<char>((value >> (8 * i)) & 0xff);
}

inline std::string Deflate(const std::string& data) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// One entry; the optional members lie about it.
struct TestEntry {
  std::string name;
  std::string data;
  bool deflate = false;
  std::optional<uint32_t> crc = std::nullopt;
  std::optional<uint64_t> size = std::nullopt;    // in both headers
  std::optional<uint16_t> method = std::nullopt;  // in both headers
  std::string local_name = {};  // in the local header; empty: the name
  std::optional<uint64_t> header_offset = std::nullopt;
  uint16_t flags = 0;
};

struct TestZip {
  std::vector<TestEntry> entries = {};
  bool zip64 = false;           // 64-bit sizes and end records
  std::string before_end = {};  // bytes between the directory and its end
  std::string comment = {};
  std::optional<uint16_t> disk = std::nullopt;
  std::optional<uint64_t> count = std::nullopt;
};

inline std::string MakeZip(const TestZip& zip) {
  std::string out, directory;
  for (const TestEntry& entry : zip.entries) {
    const std::string body = entry.deflate ? Deflate(entry.data) : entry.data;
    const uint64_t size = entry.size.value_or(entry.data.size());
    const uint32_t crc = entry.crc.value_or(static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(entry.data.data()),
              static_cast<uInt>(entry.data.size()))));
    const uint64_t offset = out.size();
    const std::string& local_name =
        entry.local_name.empty() ? entry.name : entry.local_name;
    const auto common = [&](std::string& to, const std::string& name,
                            size_t extra) {
      PutLittle(to, 20, 2);
      PutLittle(to, entry.flags, 2);
      PutLittle(to, entry.method.value_or(entry.deflate ? 8 : 0), 2);
      PutLittle(to, 0, 4);
      PutLittle(to, crc, 4);
      PutLittle(to, zip.zip64 ? 0xffffffff : body.size(), 4);
      PutLittle(to, zip.zip64 ? 0xffffffff : size, 4);
      PutLittle(to, name.size(), 2);
      PutLittle(to, extra, 2);
    };
    PutLittle(out, 0x04034b50, 4);
    common(out, local_name, 0);
    out += local_name + body;
    PutLittle(directory, 0x02014b50, 4);
    PutLittle(directory, 20, 2);
    common(directory, entry.name, zip.zip64 ? 28 : 0);
    PutLittle(directory, 0, 2);
    PutLittle(directory, 0, 2);
    PutLittle(directory, 0, 6);
    const uint64_t stated = entry.header_offset.value_or(offset);
    PutLittle(directory, zip.zip64 ? 0xffffffff : stated, 4);
    directory += entry.name;
    if (zip.zip64) {
      PutLittle(directory, 1, 2);
      PutLittle(directory, 24, 2);
      PutLittle(directory, size, 8);
      PutLittle(directory, body.size(), 8);
      PutLittle(directory, stated, 8);
    }
  }
  const uint64_t offset = out.size();
  const uint64_t count = zip.count.value_or(zip.entries.size());
  out += directory + zip.before_end;
  const uint64_t end = out.size();
  if (zip.zip64) {
    PutLittle(out, 0x06064b50, 4);
    PutLittle(out, 44, 8);
    PutLittle(out, 0, 4);
    PutLittle(out, 0, 8);
    PutLittle(out, count, 8);
    PutLittle(out, count, 8);
    PutLittle(out, directory.size(), 8);
    PutLittle(out, offset, 8);
    PutLittle(out, 0x07064b50, 4);
    PutLittle(out, 0, 4);
    PutLittle(out, end, 8);
    PutLittle(out, 1, 4);
  }
  PutLittle(out, 0x06054b50, 4);
  PutLittle(out, zip.disk.value_or(0), 2);
  PutLittle(out, zip.disk.value_or(0), 2);
  PutLittle(out, zip.zip64 ? 0xffff : count, 2);
  PutLittle(out, zip.zip64 ? 0xffff : count, 2);
  PutLittle(out, zip.zip64 ? 0xffffffff : directory.size(), 4);
  PutLittle(out, zip.zip64 ? 0xffffffff : offset, 4);
  PutLittle(out, zip.comment.size(), 2);
  out += zip.comment;
  return out;
}

// A file of this test alone, removed with the object.
class TempFile {
 public:
  explicit TempFile(const std::string& bytes, const std::string& suffix = "") {
    static int count = 0;
    path_ = ::testing::TempDir() + "tp_" +
            ::testing::UnitTest::GetInstance()
                ->current_test_info()
                ->test_suite_name() +
            "_" + std::to_string(static_cast<long>(::getpid())) + "_" +
            std::to_string(count++) + suffix;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Writes pickles as torch.jit.save does.
class PickleWriter {
 public:
  PickleWriter() : out_("\x80\x02") {}
  PickleWriter& Raw(const std::string& bytes) {
    out_ += bytes;
    return *this;
  }
  PickleWriter& String(const std::string& text) {
    out_ += 'X';
    PutLittle(out_, text.size(), 4);
    out_ += text;
    return *this;
  }
  PickleWriter& Int(int64_t value) {
    if (value >= 0 && value < 256) {
      out_ += 'K';
      PutLittle(out_, static_cast<uint64_t>(value), 1);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J';
      PutLittle(out_, static_cast<uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08";
      PutLittle(out_, static_cast<uint64_t>(value), 8);
    }
    return *this;
  }
  PickleWriter& Global(const std::string& module, const std::string& name) {
    out_ += "c" + module + "\n" + name + "\n";
    return *this;
  }
  PickleWriter& Ints(const std::vector<int64_t>& values) {
    out_ += '(';
    for (int64_t value : values) Int(value);
    out_ += 't';
    return *this;
  }
  // An object whose attributes follow, up to EndObject.
  PickleWriter& Object(const std::string& module, const std::string& name) {
    Global(module, name);
    out_ += ")\x81}(";
    return *this;
  }
  PickleWriter& EndObject() {
    out_ += "ub";
    return *this;
  }
  PickleWriter& Tensor(const std::string& storage_type, const std::string& key,
                       int64_t numel, int64_t offset,
                       const std::vector<int64_t>& sizes,
                       const std::vector<int64_t>& strides,
                       const std::string& device = "cpu") {
    Global("torch._utils", "_rebuild_tensor_v2");
    out_ += "((";
    String("storage").Global("torch", storage_type).String(key).String(device);
    Int(numel);
    out_ += "tQ";
    Int(offset).Ints(sizes).Ints(strides);
    out_ += '\x89';
    Global("collections", "OrderedDict");
    out_ += ")RtR";
    return *this;
  }
  std::string Finish() const { return out_ + "."; }
  // Without the end, for putting into another pickle.
  std::string Body() const { return out_.substr(2); }

 private:
  std::string out_;
};

// What every TorchScript archive holds, with one small module in it:
// weight f32[2, 3] in storage 0, tied to `head`; transposed view of it.
inline std::vector<TestEntry> ScriptEntries() {
  std::string floats(24, '\0');
  for (int i = 0; i < 6; ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(floats.data() + 4 * i, &value, 4);
  }
  PickleWriter data;
  data.Object("__torch__", "M");
  data.String("weight").Tensor("FloatStorage", "0", 6, 0, {2, 3}, {3, 1});
  data.String("head").Tensor("FloatStorage", "0", 6, 0, {2, 3}, {3, 1});
  data.String("turned").Tensor("FloatStorage", "0", 6, 0, {3, 2}, {1, 3});
  data.EndObject();
  return {
      {"m/data.pkl", data.Finish()},
      {"m/data/0", floats},
      {"m/code/__torch__.py",
       "class M(Module):\n"
       "  weight : Tensor\n"
       "  def forward(self: __torch__.M,\n"
       "    x: Tensor) -> Tensor:\n"
       "    return torch.mul(x, self.weight)\n",
       true},
      {"m/constants.pkl", "\x80\x02)."},
      {"m/version", "3\n"},
      {"m/byteorder", "little"},
      {"m/.data/serialization_id", "0123"},
  };
}

}  // namespace tp::testing

#endif  // TP_TESTS_UNIT_ARCHIVE_TEST_UTIL_H_
