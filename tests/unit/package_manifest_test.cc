#include "ir/package_manifest.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/file_digest.h"

namespace tp {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] = "tpir 1\n";

class PackageManifestTest : public ::testing::Test {
 protected:
  PackageManifestTest() {
    std::filesystem::create_directories(folder_);
    Write("plan.tpir", kText);
    Write("manifest.json",
          absl::StrCat(R"({"format_version":1,"schedule_sha256":"","files":{)",
                       R"("plan.tpir":{"sha256":")", Sha256Hex(kText),
                       R"(","bytes":7}}})"));
  }
  ~PackageManifestTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteTextFile(absl::StrCat(folder_, "/", name), text).ok());
  }

  const std::string folder_ =
      absl::StrCat(::testing::TempDir(), "/package_manifest");
};

TEST_F(PackageManifestTest, FilesAreThoseThatWereWritten) {
  auto manifest = PackageManifest::Read(folder_);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  auto text = manifest->ReadText("plan.tpir");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, kText);
  EXPECT_EQ(manifest->ReadText("rank0.tpir").status().code(),
            absl::StatusCode::kNotFound);
  Write("rank0.tpir", kText);
  const absl::Status unknown = manifest->ReadText("rank0.tpir").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.ToString(), HasSubstr("no entry for rank0.tpir"));

  Write("plan.tpir", "tpir 12\n");
  absl::Status status = manifest->ReadText("plan.tpir").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(), HasSubstr("8 bytes instead of 7"));
  Write("plan.tpir", "tpir 2\n");
  status = manifest->ReadText("plan.tpir").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.ToString(), HasSubstr("SHA-256"));
}

TEST_F(PackageManifestTest, OtherTextsAreNoManifest) {
  EXPECT_TRUE(IsPackageManifest(
      R"({"format_version":9,"schedule_sha256":"0","files":{}})"));
  EXPECT_FALSE(IsPackageManifest(R"({"name":"my app","icons":[]})"));
  for (const std::string& text : {std::string("{"), std::string("[1]"),
                                  std::string(), std::string(100000, '[')}) {
    EXPECT_FALSE(IsPackageManifest(text)) << text.substr(0, 9);
    Write("manifest.json", text);
    EXPECT_EQ(PackageManifest::Read(folder_).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text.substr(0, 9);
  }
  Write("manifest.json", R"({"format_version":9,"files":{}})");
  EXPECT_EQ(PackageManifest::Read(folder_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Write("manifest.json", R"({"format_version":1})");
  EXPECT_THAT(PackageManifest::Read(folder_).status().ToString(),
              HasSubstr("'files' is missing"));
  std::filesystem::remove(absl::StrCat(folder_, "/manifest.json"));
  EXPECT_EQ(PackageManifest::Read(folder_).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tp
