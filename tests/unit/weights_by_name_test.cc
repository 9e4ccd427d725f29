#include "ir/weights_by_name.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/file_digest.h"
#include "ir/safetensors.h"
#include "ir/text.h"

namespace tp {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kModel[] = R"(tpir 1
mesh @m = [tp: 1]
func @forward(%x: f32[2] input "x", %e: f32[2,2] param "embed" alias "head",
              %n: f32[2] buffer "mask", %c: f32[2] const "constant.0")
    -> f32[2] {
  return %x
}
)";

struct Given {
  std::string name;
  std::vector<int64_t> sizes;
  char fill = 'a';
  DType dtype = DType::kF32;
};

class WeightsByNameTest : public ::testing::Test {
 protected:
  WeightsByNameTest() {
    std::string name = (fs::temp_directory_path() / "namesXXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    auto module = Parse(kModel, "model");
    EXPECT_TRUE(module.ok()) << module.status();
    if (module.ok()) module_ = *std::move(module);
  }
  ~WeightsByNameTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const {
    return (fs::path(folder_) / name).string();
  }

  void Write(const std::string& name, const std::vector<Given>& weights) {
    auto writer = SafetensorsWriter::Create(Path(name));
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::string bytes;
    for (const Given& weight : weights) {
      ASSERT_TRUE(
          (*writer)->Declare(weight.name, weight.dtype, weight.sizes).ok());
      int64_t size = ByteSize(weight.dtype);
      for (int64_t dim : weight.sizes) size *= dim;
      bytes.append(static_cast<size_t>(size), weight.fill);
    }
    ASSERT_TRUE((*writer)->Append(bytes.data(), bytes.size()).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }

  // Matches one file of these weights with the model.
  absl::StatusOr<MatchedWeights> Match(const std::vector<Given>& weights,
                                       const MatchOptions& options = {}) {
    Write("file.safetensors", weights);
    auto given = OpenWeights(Path("file.safetensors"));
    if (!given.ok()) return given.status();
    given_ = *std::move(given);
    return MatchWeights(*module_->function("forward"), *given_, options);
  }

  std::string MatchError(const std::vector<Given>& weights) {
    return std::string(Match(weights).status().message());
  }
  std::string OpenError() {
    return std::string(OpenWeights(folder_).status().message());
  }

  std::string folder_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<WeightSource> given_;
};

TEST_F(WeightsByNameTest, FindsWeightsUnderAnyOfTheirNames) {
  for (const std::string name : {"embed", "head"}) {
    auto matched = Match({{name, {2, 2}}});
    ASSERT_TRUE(matched.ok()) << matched.status();
    ASSERT_NE(matched->weights[1], nullptr);
    EXPECT_EQ(matched->weights[1]->name, name);
    EXPECT_EQ(matched->weights[0], nullptr);
    EXPECT_THAT(matched->kept, ElementsAre("mask"));
  }
  auto both = Match({{"embed", {2, 2}}, {"head", {2, 2}}, {"mask", {2}}});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->kept, ElementsAre());
}

TEST_F(WeightsByNameTest, EveryNameIsAccountedFor) {
  EXPECT_THAT(MatchError({{"mask", {2}}}), HasSubstr("1 missing: embed"));
  EXPECT_THAT(MatchError({{"embed", {2, 2}}, {"other", {1}}}),
              HasSubstr("1 that the model has not: other"));
  EXPECT_THAT(MatchError({{"embed", {4}}}),
              HasSubstr("embed is f32[4], not f32[2,2]"));
  EXPECT_THAT(MatchError({{"embed", {2, 2}, 'a', DType::kBF16}}),
              HasSubstr("embed is bf16[2,2], not f32[2,2]"));
  EXPECT_THAT(MatchError({{"embed", {2, 2}, 'a'}, {"head", {2, 2}, 'b'}}),
              HasSubstr("different values: embed and head"));
  EXPECT_THAT(MatchError({{"model.embed", {2, 2}}}),
              HasSubstr("begin with \"model.\""));
  MatchOptions options;
  options.known = {"unused"};
  EXPECT_TRUE(Match({{"embed", {2, 2}}, {"unused", {1}}}, options).ok());
  options.allow_unexpected = true;
  EXPECT_TRUE(Match({{"embed", {2, 2}}, {"other", {1}}}, options).ok());
}

TEST_F(WeightsByNameTest, FolderWithAnIndex) {
  Write("a.safetensors", {{"embed", {2, 2}, 'e'}});
  Write("b.safetensors", {{"mask", {2}, 'm'}});
  const std::string index = Path("model.safetensors.index.json");
  const auto write = [&](const std::string& map) {
    ASSERT_TRUE(
        WriteTextFile(index, absl::StrCat("{\"metadata\": {\"total_size\": 1}, "
                                          "\"weight_map\": {",
                                          map, "}}"))
            .ok());
  };
  write(R"("embed": "a.safetensors", "mask": "b.safetensors")");
  auto given = OpenWeights(folder_);
  ASSERT_TRUE(given.ok()) << given.status();
  ASSERT_EQ((*given)->weights().size(), 2u);
  auto bytes = (*given)->View(*(*given)->Find("mask"));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(std::string(bytes->begin(), bytes->end()), "mmmmmmmm");

  write(R"("embed": "b.safetensors", "mask": "a.safetensors")");
  EXPECT_THAT(OpenError(), HasSubstr("but it is in"));
  write(R"("embed": "a.safetensors", "mask": "b.safetensors",
           "more": "a.safetensors")");
  EXPECT_THAT(OpenError(), HasSubstr("\"more\" is listed in a.safetensors, "
                                     "but it is not there"));
  Write("b.safetensors", {{"mask", {2}}, {"extra", {1}}});
  write(R"("embed": "a.safetensors", "mask": "b.safetensors")");
  EXPECT_THAT(OpenError(), HasSubstr("\"extra\" of b.safetensors is not "
                                     "listed"));
  write(R"("embed": "../a.safetensors")");
  EXPECT_THAT(OpenError(), HasSubstr("not in a file of this folder"));
  write(R"("embed": "gone.safetensors")");
  EXPECT_THAT(OpenError(), HasSubstr("gone.safetensors"));
  ASSERT_TRUE(WriteTextFile(index, "{}").ok());
  EXPECT_THAT(OpenError(), HasSubstr("no 'weight_map'"));
}

TEST_F(WeightsByNameTest, FolderWithoutAnIndex) {
  EXPECT_THAT(OpenError(), HasSubstr("neither"));
  Write("a.safetensors", {{"embed", {2, 2}}});
  Write("b.safetensors", {{"mask", {2}}});
  auto given = OpenWeights(folder_);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ((*given)->weights().size(), 2u);
  Write("b.safetensors", {{"embed", {2, 2}}});
  EXPECT_THAT(OpenError(), HasSubstr("is in two files"));
  ASSERT_TRUE(WriteTextFile(Path("latest"), "step-1\n").ok());
  EXPECT_THAT(OpenError(), HasSubstr("tp-ckpt export"));
}

TEST_F(WeightsByNameTest, ReplacedWeightsKeepWhatIsNotGiven) {
  Write("model.safetensors", {{"embed", {2, 2}, 'o'},
                              {"mask", {2}, 'm'},
                              {"constant.0", {2}, 'c'},
                              {"unused", {1}, 'u'}});
  Write("new.safetensors", {{"head", {2, 2}, 'n'}, {"unused", {1}}});
  auto model = OpenWeights(Path("model.safetensors"));
  auto given = OpenWeights(Path("new.safetensors"));
  ASSERT_TRUE(model.ok() && given.ok());
  std::vector<std::string> kept;
  auto replaced = ReplaceWeights(*module_->function("forward"),
                                 *std::move(model), *std::move(given), &kept);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_THAT(kept, ElementsAre("mask"));
  const auto first = [&](const std::string& name) {
    auto bytes = (*replaced)->View(*(*replaced)->Find(name));
    return bytes.ok() ? static_cast<char>(bytes->data()[0]) : '?';
  };
  EXPECT_EQ(first("embed"), 'n');
  EXPECT_EQ(first("mask"), 'm');
  EXPECT_EQ(first("constant.0"), 'c');
}

}  // namespace
}  // namespace tp
