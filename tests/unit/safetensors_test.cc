#include "ir/safetensors.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "gmock/gmock.h"
#include "llvm/ADT/StringExtras.h"
#include "tests/unit/archive_test_util.h"

namespace tp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFile;

std::string File(const std::string& header, const std::string& data) {
  std::string out;
  testing::PutLittle(out, header.size(), 8);
  return out + header + data;
}

absl::Status OpenBytes(const std::string& bytes) {
  TempFile file(bytes);
  return SafetensorsFile::Open(file.path()).status();
}

std::string Slurp(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

TEST(Safetensors, RoundTrip) {
  TempFile file("");
  SafetensorsWriterOptions options;
  options.metadata = {{"rank", "1"}, {"quote\"", "\n"}};
  options.sync = true;
  auto writer = SafetensorsWriter::Create(file.path(), options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::string name = "model.w\xc3\xa9\"";
  ASSERT_TRUE((*writer)->Declare(name, DType::kF32, {2, 3}).ok());
  ASSERT_TRUE((*writer)->Declare("empty", DType::kBF16, {0, 4}).ok());
  ASSERT_TRUE((*writer)->Declare("flag", DType::kBool, {}).ok());
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE((*writer)->Append(values.data(), 10).ok());
  ASSERT_TRUE(
      (*writer)
          ->Append(reinterpret_cast<const char*>(values.data()) + 10, 14)
          .ok());
  ASSERT_TRUE((*writer)->Append("\1", 1).ok());
  const absl::Status finished = (*writer)->Finish();
  ASSERT_TRUE(finished.ok()) << finished;
  const std::string bytes = Slurp(file.path());
  EXPECT_EQ((*writer)->file_size(), bytes.size());
  llvm::SHA256 hash;
  hash.update(llvm::StringRef(bytes));
  EXPECT_EQ((*writer)->sha256(), llvm::toHex(hash.final(), true));
  writer->reset();
  EXPECT_TRUE(std::filesystem::exists(file.path()));

  auto read = SafetensorsFile::Open(file.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->metadata(), options.metadata);
  ASSERT_EQ((*read)->weights().size(), 3u);
  const WeightInfo& weight = *(*read)->Find(name);
  EXPECT_EQ(weight.dtype, DType::kF32);
  EXPECT_THAT(weight.sizes, ElementsAre(2, 3));
  EXPECT_TRUE(weight.IsContiguous());
  auto view = (*read)->View(weight);
  ASSERT_TRUE(view.ok()) << view.status();
  ASSERT_EQ(view->size(), 24u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data()) % 64, 0u);
  EXPECT_EQ(std::memcmp(view->data(), values.data(), 24), 0);
  EXPECT_EQ((*read)->View(*(*read)->Find("empty"))->size(), 0u);
  EXPECT_EQ(*(*read)->View(*(*read)->Find("flag"))->data(), 1);
}

TEST(Safetensors, EveryDTypeRoundTrips) {
  TempFile file("");
  auto writer = SafetensorsWriter::Create(file.path());
  ASSERT_TRUE(writer.ok());
  const DType dtypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16,
                          DType::kI64, DType::kI32, DType::kI16, DType::kI8,
                          DType::kU8,  DType::kBool};
  int64_t total = 0;
  for (DType dtype : dtypes) {
    ASSERT_TRUE((*writer)->Declare(Name(dtype), dtype, {3}).ok());
    total += 3 * ByteSize(dtype);
  }
  const std::string data(static_cast<size_t>(total), 'z');
  ASSERT_TRUE((*writer)->Append(data.data(), data.size()).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  auto read = SafetensorsFile::Open(file.path());
  ASSERT_TRUE(read.ok()) << read.status();
  for (DType dtype : dtypes)
    EXPECT_EQ((*read)->Find(Name(dtype))->dtype, dtype);
}

TEST(SafetensorsWriter, ChecksWhatItIsTold) {
  TempFile file("");
  auto writer = SafetensorsWriter::Create(file.path());
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE((*writer)->Declare("a", DType::kI8, {4}).ok());
  EXPECT_FALSE((*writer)->Declare("a", DType::kI8, {4}).ok());
  EXPECT_FALSE((*writer)->Declare("__metadata__", DType::kI8, {4}).ok());
  EXPECT_FALSE((*writer)->Declare("\xff", DType::kI8, {4}).ok());
  EXPECT_FALSE((*writer)->Declare("b", DType::kI8, {-1}).ok());
  EXPECT_FALSE((*writer)->Declare("b", DType::kI64, {INT64_MAX / 4}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*writer)->Append("12345", 5)));
  EXPECT_TRUE((*writer)->Append("123", 3).ok());
  EXPECT_FALSE((*writer)->Declare("c", DType::kI8, {4}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*writer)->Finish()));
  writer->reset();
  EXPECT_FALSE(std::filesystem::exists(file.path()));
  EXPECT_TRUE(absl::IsNotFound(
      SafetensorsWriter::Create("/no/such/folder/x").status()));
}

TEST(SafetensorsWriter, FullDiskIsAnErrorAndLeavesNothing) {
  // A limit on file size fails writes as a full disk does.
  TempFile file("");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  auto writer = SafetensorsWriter::Create(file.path());
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Declare("a", DType::kI8, {1 << 20}).ok());
  rlimit small = old;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string data(1 << 20, 'x');
  const absl::Status status = (*writer)->Append(data.data(), data.size());
  writer->reset();
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(file.path()));
  EXPECT_FALSE(std::filesystem::exists(file.path()));
}

TEST(SafetensorsFile, RefusesBadHeaders) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],)"
                           R"("data_offsets":[0,8]}})";
  EXPECT_TRUE(OpenBytes(File(good, "12345678")).ok());
  EXPECT_TRUE(OpenBytes(File(good + "   ", "12345678")).ok());
  EXPECT_TRUE(OpenBytes(File("{}", "")).ok());
  const auto entry = [](const std::string& name, const std::string& dtype,
                        const std::string& shape, const std::string& range) {
    return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
           R"(,"data_offsets":)" + range + "}";
  };
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {entry("a", "F31", "[2]", "[0,8]"), "12345678", "unknown dtype"},
      {entry("a", "F32", "[3]", "[0,8]"), "12345678", "need 12"},
      {entry("a", "F32", "[2]", "[1,9]"), "123456789", "hole"},
      {entry("a", "F32", "[2]", "[0,8]") + "," +
           entry("b", "F32", "[1]", "[4,8]"),
       "12345678", "overlap"},
      {entry("a", "I8", "[4]", "[0,4]") + "," +
           entry("b", "I8", "[4]", "[5,9]"),
       "123456789", "hole"},
      {entry("a", "I8", "[4]", "[0,4]") + "," +
           entry("e", "I8", "[0]", "[2,2]"),
       "1234", "overlap"},
      {entry("a", "F32", "[2]", "[0,8]"), "1234567", "cut short"},
      {entry("a", "F32", "[2]", "[0,8]"), "123456789", "no tensor"},
      {entry("a", "F32", "[-2]", "[0,8]"), "12345678", ">= 0"},
      {entry("a", "F32", "[1.5]", "[0,8]"), "12345678", ">= 0"},
      {entry("a", "F32", "[4611686018427387904,4]", "[0,0]"), "", "overflow"},
      {entry("a", "F32", "[0,4611686018427387904,4]", "[0,0]"), "", "overflow"},
      {entry("a", "F32", "[2]", "[8,0]"), "12345678", "range"},
      {entry("a", "F32", "[2]", "[-8,0]"), "12345678", "range"},
      {entry("a", "F32", "[2]", "[0]"), "12345678", "data_offsets"},
      {entry("a", "F32", "2", "[0,8]"), "12345678", "described"},
      {R"("a":{"dtype":"F32","shape":[]})", "", "described"},
      {R"("a":3)", "", "no description"},
      {R"("__metadata__":{"k":1})", "", "no string"},
      {R"("__metadata__":[])", "", "no object"},
      {"\"a\xff\":1", "", "JSON"},
      {"\"a\":", "", "JSON"},
      // The second "a" hides the first, whose bytes are then a hole.
      {entry("a", "I8", "[4]", "[0,4]") + "," +
           entry("a", "I8", "[4]", "[4,8]"),
       "12345678", "hole"},
  };
  for (const auto& [fields, data, why] : cases) {
    const absl::Status status = OpenBytes(File("{" + fields + "}", data));
    EXPECT_FALSE(status.ok()) << fields;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << fields;
  }
  EXPECT_FALSE(OpenBytes(File("[]", "")).ok());
  EXPECT_FALSE(OpenBytes(File("", "")).ok());
  EXPECT_FALSE(OpenBytes("1234567").ok());
  std::string huge;
  testing::PutLittle(huge, 100'000'001, 8);
  EXPECT_THAT(std::string(OpenBytes(huge + "{}").message()),
              HasSubstr("more than"));
  EXPECT_THAT(
      std::string(
          OpenBytes(File("{\"a\":" + std::string(1 << 20, '['), "")).message()),
      HasSubstr("nested"));
}

TEST(SafetensorsFile, SurvivesDamageAnywhere) {
  const std::string whole =
      File(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,1],)"
           R"("data_offsets":[0,8]},"b":{"dtype":"I8","shape":[3],)"
           R"("data_offsets":[8,11]}})",
           "12345678abc");
  ASSERT_TRUE(OpenBytes(whole).ok()) << OpenBytes(whole);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(OpenBytes(whole.substr(0, size)).ok()) << size;
  std::mt19937 random(9);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = whole;
    for (unsigned k = 0; k < 1 + random() % 3; ++k)
      bytes[random() % (bytes.size() - 11)] = static_cast<char>(random());
    TempFile file(bytes);
    auto read = SafetensorsFile::Open(file.path());
    if (!read.ok()) continue;
    for (const WeightInfo& weight : (*read)->weights())
      EXPECT_TRUE((*read)->View(weight).ok());
  }
}

}  // namespace
}  // namespace tp
