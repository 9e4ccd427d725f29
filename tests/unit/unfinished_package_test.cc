#include "codegen/unfinished_package.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/file_digest.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

class UnfinishedPackageTest : public ::testing::Test {
 protected:
  UnfinishedPackageTest() { fs::create_directories(folder_); }
  ~UnfinishedPackageTest() override { fs::remove_all(folder_); }

  // Names in the folder, of all depths.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      names.push_back(fs::relative(entry.path(), folder_).string());
    std::sort(names.begin(), names.end());
    return names;
  }
  static void Write(const fs::path& path) {
    ASSERT_TRUE(WriteTextFile(path.string(), "text").ok());
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / "unfinished_package";
};

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(UnfinishedPackageTest, InstallReplacesAnOldOne) {
  for (int round = 0; round < 2; ++round) {
    UnfinishedPackage package;
    ASSERT_TRUE(package.Create(folder_ / "a" / "b").ok());
    Write(package.path() / absl::StrCat("file", round));
    ASSERT_TRUE(package.Install().ok());
    // There is nothing left to remove.
    package.Abandon();
  }
  EXPECT_THAT(Names(), ElementsAre("a", "a/b", "a/b/file1"));
}

TEST_F(UnfinishedPackageTest, WhatAKilledWriterLeftIsNotTakenOver) {
  fs::path path;
  {
    UnfinishedPackage package;
    ASSERT_TRUE(package.Create(folder_ / "a").ok());
    path = package.path();
  }
  fs::create_directories(path);
  Write(path / "rank7.tpir");
  UnfinishedPackage package;
  ASSERT_TRUE(package.Create(folder_ / "a").ok());
  Write(package.path() / "rank0.tpir");
  ASSERT_TRUE(package.Install().ok());
  EXPECT_THAT(Names(), ElementsAre("a", "a/rank0.tpir"));
}

TEST_F(UnfinishedPackageTest, AbandonLeavesNothingAndStopsTheWriter) {
  UnfinishedPackage package;
  ASSERT_TRUE(package.Create(folder_ / "a" / "b").ok());
  const fs::path path = package.path();
  Write(path / "file");
  EXPECT_FALSE(package.abandoned());
  package.Abandon();
  EXPECT_TRUE(package.abandoned());
  EXPECT_THAT(Names(), IsEmpty());
  // A writer that does not know yet.
  EXPECT_FALSE(WriteTextFile((path / "file").string(), "text").ok());
  EXPECT_EQ(package.Install().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(package.Create(folder_ / "c").code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(UnfinishedPackageTest, ScopeEndsIt) {
  Write(folder_ / "mine");
  {
    UnfinishedPackage package;
    ASSERT_TRUE(package.Create(folder_ / "a").ok());
  }
  EXPECT_THAT(Names(), ElementsAre("mine"));
  UnfinishedPackage package;
  EXPECT_EQ(package.Create(folder_ / "mine" / "a").code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tp
