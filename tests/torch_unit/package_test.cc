// Packages on disk: good ones run, and every way to damage one is told apart
// from the others.

#include <ATen/ATen.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/file_digest.h"
#include "ir/schedule.h"
#include "ir/text.h"
#include "runtime/session.h"

namespace tp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ProgramOf(int rank) {
  return absl::StrCat("tpir 1\nmesh @m = [tp: 2]\nrank ", rank, R"(
symbol batch = 2 from "x":0
func @forward(
    %x: f32[batch,4],
    %u: f32[3,4] param "up",
    %d: f32[4,3] param "down") -> f32[batch,4] {
  %0 = aten.linear(%x, %u) : f32[batch,3]
  %1 = aten.linear(%0, %d) : f32[batch,4]
  %2 = tp.all_reduce(%1) {axis = "tp", reduce = "sum"} : f32[batch,4]
  return %2
}
)");
}

class PackageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = (std::filesystem::temp_directory_path() /
                  absl::StrCat("tp_package_test_", getpid()))
                     .string();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    up_ = at::rand({6, 4});
    down_ = at::rand({4, 6});
    std::vector<std::unique_ptr<Module>> modules;
    std::vector<const Module*> pointers;
    for (int rank = 0; rank < 2; ++rank) {
      Write(absl::StrCat("rank", rank, ".tpir"), ProgramOf(rank));
      auto module = Parse(ProgramOf(rank), "test");
      ASSERT_TRUE(module.ok()) << module.status();
      modules.push_back(*std::move(module));
      pointers.push_back(modules.back().get());
      ASSERT_TRUE(WriteTensors(Path(absl::StrCat("rank", rank, ".safetensors")),
                               {{"up", up_.narrow(0, 3 * rank, 3)},
                                {"down", down_.narrow(1, 3 * rank, 3)}})
                      .ok());
    }
    auto hash = HashSchedules(pointers);
    ASSERT_TRUE(hash.ok()) << hash.status();
    schedule_ = *hash;
    WriteManifest();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(directory_, "/", name);
  }
  std::string Read(const std::string& name) const {
    std::ifstream in(Path(name), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
  }
  void Edit(const std::string& name, const std::string& from,
            const std::string& to) const {
    const std::string text = Read(name);
    ASSERT_THAT(text, HasSubstr(from));
    Write(name, absl::StrReplaceAll(text, {{from, to}}));
  }
  // Describes the files as they are now.
  void WriteManifest() const {
    std::string files;
    for (const char* name : {"rank0.tpir", "rank1.tpir", "rank0.safetensors",
                             "rank1.safetensors"}) {
      const std::string text = Read(name);
      absl::StrAppend(&files, files.empty() ? "" : ",", "\"", name,
                      "\":{\"sha256\":\"", Sha256Hex(text),
                      "\",\"bytes\":", text.size(), "}");
    }
    Write("manifest.json",
          absl::StrCat(R"({"format_version":1,"tool_version":"0.1.0",
"torch_version":"2.11.0","mesh":[{"name":"tp","size":2}],"files":{)",
                       files, R"(},"schedule_sha256":")", schedule_,
                       R"(","notes":["a note"]})"));
  }
  void ExpectError(absl::StatusCode code,
                   const ::testing::Matcher<absl::string_view>& message,
                   const SessionOptions& options = {}) const {
    auto session = Session::Open(directory_, options);
    EXPECT_EQ(session.status().code(), code) << session.status();
    EXPECT_THAT(session.status().message(), message);
  }

  std::string directory_;
  std::string schedule_;
  at::Tensor up_;
  at::Tensor down_;
};

TEST_F(PackageTest, OpensAndRuns) {
  auto session = Session::Open(directory_, {});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->num_ranks(), 2);
  EXPECT_EQ((*session)->WeightBytes(1), 24 * 4);
  EXPECT_THAT((*session)->notes(), ::testing::ElementsAre("a note"));
  const at::Tensor x = at::rand({5, 4});
  auto outputs = (*session)->Run({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(
      at::allclose((*outputs)[0], at::linear(at::linear(x, up_), down_)));
}

TEST_F(PackageTest, F64) {
  SessionOptions options;
  options.f64 = true;
  auto session = Session::Open(directory_, options);
  ASSERT_TRUE(session.ok()) << session.status();
  const at::Tensor x = at::rand({5, 4});
  auto outputs = (*session)->Run({{"x", x}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(at::allclose(
      (*outputs)[0],
      at::linear(at::linear(x.to(at::kDouble), up_.to(at::kDouble)),
                 down_.to(at::kDouble)),
      1e-13, 1e-13));
}

TEST_F(PackageTest, NoSuchFolder) {
  directory_ = "/nonexistent";
  ExpectError(absl::StatusCode::kNotFound,
              HasSubstr("/nonexistent is not a package"));
}

TEST_F(PackageTest, ManifestThatIsNotJson) {
  Write("manifest.json", "{");
  ExpectError(absl::StatusCode::kInvalidArgument,
              HasSubstr("manifest.json: not valid JSON"));
}

TEST_F(PackageTest, AnotherVersion) {
  Edit("manifest.json", "\"format_version\":1", "\"format_version\":2");
  ExpectError(absl::StatusCode::kFailedPrecondition,
              HasSubstr("package format 2"));
}

TEST_F(PackageTest, EditedProgram) {
  Edit("rank1.tpir", "f32[batch,3]", "f32[batch,5]");
  ExpectError(absl::StatusCode::kDataLoss,
              AllOf(HasSubstr("rank1.tpir"), HasSubstr("SHA-256 differs")));
}

TEST_F(PackageTest, LongerProgram) {
  Write("rank1.tpir", Read("rank1.tpir") + "\n");
  ExpectError(absl::StatusCode::kDataLoss, HasSubstr("bytes instead of"));
}

TEST_F(PackageTest, SwappedRanksWithHonestHashes) {
  std::filesystem::rename(Path("rank0.tpir"), Path("swap"));
  std::filesystem::rename(Path("rank1.tpir"), Path("rank0.tpir"));
  std::filesystem::rename(Path("swap"), Path("rank1.tpir"));
  WriteManifest();
  ExpectError(
      absl::StatusCode::kDataLoss,
      AllOf(HasSubstr("rank0.tpir"), HasSubstr("it is the program of rank 1")));
}

TEST_F(PackageTest, FlippedWeightByte) {
  std::string bytes = Read("rank1.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  Write("rank1.safetensors", bytes);
  ExpectError(absl::StatusCode::kDataLoss, HasSubstr("rank1.safetensors"));
  SessionOptions trusting;
  trusting.package.hash_weights = false;
  EXPECT_TRUE(Session::Open(directory_, trusting).ok());
}

TEST_F(PackageTest, TruncatedWeights) {
  const std::string bytes = Read("rank0.safetensors");
  Write("rank0.safetensors", bytes.substr(0, bytes.size() - 8));
  ExpectError(absl::StatusCode::kDataLoss, HasSubstr("rank0.safetensors"));
}

TEST_F(PackageTest, MissingFiles) {
  std::filesystem::remove(Path("rank1.safetensors"));
  ExpectError(absl::StatusCode::kNotFound, HasSubstr("rank1.safetensors"));
  std::filesystem::remove(Path("rank0.tpir"));
  ExpectError(absl::StatusCode::kNotFound, HasSubstr("rank0.tpir"));
}

TEST_F(PackageTest, WeightsThatDoNotFitTheProgram) {
  ASSERT_TRUE(
      WriteTensors(Path("rank0.safetensors"),
                   {{"up", at::rand({3, 4})}, {"down", at::rand({3, 4})}})
          .ok());
  WriteManifest();
  ExpectError(
      absl::StatusCode::kDataLoss,
      AllOf(HasSubstr("rank 0"), HasSubstr("'down'"), HasSubstr("f32[4,3]")));
  ASSERT_TRUE(
      WriteTensors(Path("rank0.safetensors"), {{"up", at::rand({3, 4})}}).ok());
  WriteManifest();
  ExpectError(absl::StatusCode::kNotFound, HasSubstr("down"));
}

TEST_F(PackageTest, AScheduleThatWasNotProven) {
  for (const char* name : {"rank0.tpir", "rank1.tpir"}) {
    Edit(name, "\"sum\"", "\"max\"");
  }
  WriteManifest();  // honest about the files, not about the schedule
  ExpectError(absl::StatusCode::kFailedPrecondition,
              HasSubstr("schedule hash"));
}

TEST_F(PackageTest, AnotherMesh) {
  for (const char* name : {"rank0.tpir", "rank1.tpir"}) {
    Edit(name, "[tp: 2]", "[dp: 2]");
  }
  WriteManifest();
  ExpectError(absl::StatusCode::kDataLoss, HasSubstr("its mesh is [dp: 2]"));
}

TEST_F(PackageTest, OutputRankThatIsNotThere) {
  SessionOptions options;
  options.output_rank = 2;
  ExpectError(absl::StatusCode::kInvalidArgument, HasSubstr("output rank 2"),
              options);
}

TEST_F(PackageTest, OutputsThatCannotBeWrittenLeaveNothing) {
  EXPECT_FALSE(WriteTensors("/nonexistent/y.safetensors", {{"y", up_}}).ok());
  EXPECT_FALSE(std::filesystem::exists("/nonexistent"));
}

}  // namespace
}  // namespace tp
