#include "frontend/zip_reader.h"

#include <random>

#include "gmock/gmock.h"
#include "tests/unit/archive_test_util.h"

namespace tp {
namespace {

using ::testing::HasSubstr;
using testing::MakeZip;
using testing::TempFile;
using testing::TestEntry;
using testing::TestZip;

absl::Status OpenBytes(const std::string& bytes, const ZipLimits& limits = {}) {
  TempFile file(bytes);
  return ZipReader::Open(file.path(), limits).status();
}

void ExpectRefused(const TestZip& zip, const std::string& why,
                   const ZipLimits& limits = {}) {
  const absl::Status status = OpenBytes(MakeZip(zip), limits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(ZipReader, ReadsStoredAndDeflatedRecords) {
  for (bool zip64 : {false, true}) {
    const std::string big(100000, 'q');
    TestZip zip;
    zip.entries = {{"m/a", "stored"}, {"m/sub/b", big, true}, {"m/empty", ""}};
    zip.zip64 = zip64;
    zip.comment = zip64 ? "" : "a comment";
    TempFile file(MakeZip(zip));
    auto reader = ZipReader::Open(file.path());
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->top_folder(), "m");
    EXPECT_EQ((*reader)->entries().size(), 3u);
    EXPECT_EQ(*(*reader)->Read("a"), "stored");
    EXPECT_EQ(*(*reader)->Read("sub/b"), big);
    EXPECT_EQ(*(*reader)->Read("empty"), "");
    EXPECT_TRUE(absl::IsNotFound((*reader)->Read("none").status()));
    for (const ZipEntry& entry : (*reader)->entries()) {
      auto view = (*reader)->View(entry);
      ASSERT_TRUE(view.ok()) << view.status();
      EXPECT_EQ(std::string(view->begin(), view->end()),
                *(*reader)->Read(entry));
      EXPECT_TRUE((*reader)->Verify(entry).ok());
    }
  }
}

TEST(ZipReader, EveryTruncationIsAnError) {
  for (bool zip64 : {false, true}) {
    TestZip zip;
    zip.entries = {{"m/a", "some data"}, {"m/b", std::string(500, 'x'), true}};
    zip.zip64 = zip64;
    const std::string whole = MakeZip(zip);
    ASSERT_TRUE(OpenBytes(whole).ok());
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_FALSE(OpenBytes(whole.substr(0, size)).ok()) << size;
  }
}

// Whatever byte is changed, reading either fails or gives the true data.
TEST(ZipReader, EveryFlippedByteIsFoundOrHarmless) {
  for (bool zip64 : {false, true}) {
    const std::string data(64, 'x');
    TestZip zip;
    zip.entries = {{"m/a", "some data"}, {"m/b", data, true}};
    zip.zip64 = zip64;
    const std::string whole = MakeZip(zip);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
      TempFile file(bytes);
      auto reader = ZipReader::Open(file.path());
      if (!reader.ok()) continue;
      for (const ZipEntry& entry : (*reader)->entries()) {
        auto read = (*reader)->Read(entry);
        auto view = (*reader)->View(entry);
        EXPECT_EQ(read.ok(), view.ok());
        if (!read.ok()) continue;
        EXPECT_TRUE(*read == "some data" || *read == data) << at;
      }
    }
  }
}

TEST(ZipReader, DamagedDataIsNamed) {
  TestZip zip;
  zip.entries = {{"m/data/7", "0123456789"}};
  std::string bytes = MakeZip(zip);
  bytes[bytes.find("01234")] = 'X';
  TempFile file(bytes);
  auto reader = ZipReader::Open(file.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const absl::Status& status :
       {(*reader)->Read("data/7").status(),
        (*reader)->View((*reader)->entries()[0]).status(),
        (*reader)->Verify((*reader)->entries()[0])}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"m/data/7\""));
  }
}

TEST(ZipReader, RefusesBadNames) {
  const std::pair<std::string, std::string> cases[] = {
      {"/etc/passwd", "absolute"},
      {"C:/x", "absolute"},
      {"m/../x", "\"..\""},
      {"../x", "\"..\""},
      {"m/./x", "\".\""},
      {"m//x", "empty"},
      {"m\\x", "backslash"},
      {std::string("m/a\0b", 5), "NUL"},
      {"m/a\nb", "control"},
      {"m/\xff\xfe", "UTF-8"},
      {"", "empty"},
      {"alone", "no folder"},
      {"other/x", "two top folders"},
      {"m/ok", "two entries are named"},
      {"m/OK", "differ only in case"},
      {"M/ok", "differ only in case"},
      {"m/" + std::string(5000, 'n'), "too long"},
  };
  for (const auto& [name, why] : cases)
    ExpectRefused({.entries = {{"m/ok", "1"}, {name, "2"}}}, why);
  ExpectRefused({.entries = {}}, "empty");
}

TEST(ZipReader, FolderEntriesHoldNothing) {
  TestZip zip;
  zip.entries = {{"m/", ""}, {"m/a", "1"}};
  EXPECT_TRUE(OpenBytes(MakeZip(zip)).ok());
  ExpectRefused({.entries = {{"m/a", "1"}, {"m/b/", "hidden"}}}, "empty");
}

TEST(ZipReader, RefusesEncryptionMethodsAndDisks) {
  for (uint16_t flags : {0x1, 0x40, 0x2000}) {
    TestEntry entry{"m/a", "1"};
    entry.flags = flags;
    ExpectRefused({.entries = {entry}}, "encrypted");
  }
  for (uint16_t method : {1, 9, 12, 14, 93, 99}) {
    TestEntry entry{"m/a", "1"};
    entry.method = method;
    ExpectRefused({.entries = {entry}}, "compression method");
  }
  TestZip zip{.entries = {{"m/a", "1"}}};
  zip.disk = 1;
  ExpectRefused(zip, "several disks");
}

TEST(ZipReader, RefusesOverlapsAndTwoTruths) {
  TestEntry second{"m/b", "2"};
  second.local_name = "m/a";
  second.header_offset = 0;
  ExpectRefused({.entries = {{"m/a", "1"}, second}}, "overlaps");
  TestEntry renamed{"m/a", "1"};
  renamed.local_name = "m/x";
  ExpectRefused({.entries = {renamed}}, "in its own header");
  TestEntry sizes{"m/a", "123"};
  sizes.size = 2;
  ExpectRefused({.entries = {sizes}}, "two different sizes");
  // An entry that holds another one.
  TestEntry inner{"m/c", "inner"};
  const std::string hidden = MakeZip({.entries = {inner}}).substr(0, 38);
  TestEntry outer{"m/b", hidden};
  inner.header_offset = 30 + 3;
  EXPECT_FALSE(OpenBytes(MakeZip({.entries = {outer, inner}})).ok());
}

TEST(ZipReader, RefusesHiddenBytesAtTheEnd) {
  TestZip zip{.entries = {{"m/a", "1"}}};
  zip.before_end = "hidden";
  EXPECT_FALSE(OpenBytes(MakeZip(zip)).ok());
  EXPECT_FALSE(OpenBytes(MakeZip({.entries = {{"m/a", "1"}}}) + "more").ok());
}

TEST(ZipReader, RefusesCountsThatLie) {
  for (uint64_t count : {0, 1, 3, 65535})
    for (bool zip64 : {false, true}) {
      TestZip zip{.entries = {{"m/a", "1"}, {"m/b", "2"}}};
      zip.zip64 = zip64;
      zip.count = count;
      EXPECT_FALSE(OpenBytes(MakeZip(zip)).ok()) << count;
    }
  TestZip zip{.entries = {{"m/a", "1"}, {"m/b", "2"}}};
  ExpectRefused(zip, "more than 1", {.max_entries = 1});
}

TEST(ZipReader, RefusesBombs) {
  const std::string zeros(1 << 20, '\0');
  TestZip zip{.entries = {{"m/a", zeros, true}, {"m/b", zeros, true}}};
  EXPECT_TRUE(OpenBytes(MakeZip(zip)).ok());
  ExpectRefused(zip, "claims to inflate", {.free_inflated_bytes = 1000});
  ExpectRefused(zip, "inflates to", {.max_inflated_entry = 1 << 19});
  ExpectRefused(zip, "inflate to more",
                {.max_inflated_total = (1 << 20) + (1 << 19)});
  // Deflate cannot reach this ratio.
  TestEntry liar{"m/a", zeros, true};
  liar.size = uint64_t{3} << 30;
  ExpectRefused({.entries = {liar}}, "claims to inflate",
                {.max_ratio = 1 << 30});
}

TEST(ZipReader, InflatedSizeMustBeTheClaimedOne) {
  for (int64_t difference : {-1, 1, -1000, 1000}) {
    const std::string data(5000, 'a');
    TestEntry entry{"m/a", data, true};
    entry.size = data.size() + static_cast<uint64_t>(difference);
    TempFile file(MakeZip({.entries = {entry}}));
    auto reader = ZipReader::Open(file.path());
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->Read("a").status().code(),
              absl::StatusCode::kDataLoss);
    EXPECT_EQ((*reader)->View((*reader)->entries()[0]).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(ZipReader, ReadHasALimit) {
  TempFile file(MakeZip({.entries = {{"m/a", "12345"}}}));
  auto reader = ZipReader::Open(file.path());
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE((*reader)->Read("a", 5).ok());
  EXPECT_FALSE((*reader)->Read("a", 4).ok());
}

TEST(ZipReader, SurvivesRandomDamage) {
  TestZip zip;
  zip.entries = {{"m/a", "some data"}, {"m/b", std::string(300, 'x'), true}};
  zip.zip64 = true;
  const std::string whole = MakeZip(zip);
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (unsigned k = 0; k < 1 + random() % 6; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    TempFile file(bytes);
    auto reader = ZipReader::Open(file.path());
    if (!reader.ok()) continue;
    for (const ZipEntry& entry : (*reader)->entries())
      (void)(*reader)->View(entry);
  }
}

}  // namespace
}  // namespace tp
