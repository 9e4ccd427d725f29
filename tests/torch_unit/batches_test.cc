#include "runtime/train/batches.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/file_digest.h"

namespace tp {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class BatchesTest : public ::testing::Test {
 protected:
  BatchesTest() {
    std::string name = (fs::temp_directory_path() / "dataXXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~BatchesTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const {
    return (fs::path(folder_) / name).string();
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteTextFile(Path(name), text).ok());
  }
  // Lines whose only id is their number.
  void WriteNumbers(int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      absl::StrAppend(&text, "{\"input_ids\": [", i, "]}\n");
    Write("numbers.jsonl", text);
  }
  BatchOptions Options() const {
    BatchOptions options;
    options.paths = {folder_};
    options.shuffle = false;
    options.pad_to_multiple = 1;
    return options;
  }
  static NamedTensors Take(Batches& batches) {
    auto next = batches.Next();
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok() || !*next) return {};
    return **std::move(next);
  }
  // The ids of the next `count` micro-batches.
  static std::vector<int64_t> Ids(Batches& batches, int count) {
    std::vector<int64_t> ids;
    for (int i = 0; i < count; ++i) {
      for (const auto& [name, tensor] : Take(batches)) {
        const at::Tensor flat = tensor.flatten();
        ids.insert(ids.end(), flat.const_data_ptr<int64_t>(),
                   flat.const_data_ptr<int64_t>() + flat.numel());
      }
    }
    return ids;
  }
  std::string NextError(const BatchOptions& options) {
    auto batches = Batches::Open(options);
    if (!batches.ok()) return std::string(batches.status().message());
    return std::string((*batches)->Next().status().message());
  }

  std::string folder_;
};

TEST_F(BatchesTest, PadsAndMasks) {
  Write("a.jsonl",
        "{\"input_ids\": [5, 6, 7], \"labels\": [1], \"weight\": 0.5}\n\n"
        "{\"input_ids\": [8], \"labels\": [2, 3], \"weight\": 2}\r\n");
  BatchOptions options = Options();
  options.pad_to_multiple = 4;
  options.pad_id = 9;
  options.inputs = {"input_ids", "attention_mask", "labels", "weight"};
  auto batches = Batches::Open(options);
  ASSERT_TRUE(batches.ok()) << batches.status();
  std::map<std::string, at::Tensor> got;
  for (auto& [name, tensor] : Take(**batches)) got[name] = tensor;
  ASSERT_EQ(got.size(), 4u);
  const auto rows = [](std::vector<int64_t> values) {
    return at::tensor(values).view({2, 4});
  };
  EXPECT_TRUE(at::equal(got["input_ids"], rows({5, 6, 7, 9, 8, 9, 9, 9})));
  EXPECT_TRUE(at::equal(got["attention_mask"], rows({1, 1, 1, 0, 1, 0, 0, 0})));
  EXPECT_TRUE(
      at::equal(got["labels"], rows({1, -100, -100, -100, 2, 3, -100, -100})));
  EXPECT_TRUE(at::equal(got["weight"], at::tensor({0.5f, 2.f})));
}

TEST_F(BatchesTest, ShufflesByTheSeedAndTakesEveryExampleOnce) {
  WriteNumbers(23);
  BatchOptions options = Options();
  options.shuffle = true;
  options.batch_size = 4;
  options.epochs = 0;
  auto batches = Batches::Open(options);
  ASSERT_TRUE(batches.ok()) << batches.status();
  ASSERT_EQ((*batches)->size(), 6);
  const std::vector<int64_t> first = Ids(**batches, 6);
  const std::vector<int64_t> second = Ids(**batches, 6);
  for (const auto& epoch : {first, second}) {
    EXPECT_EQ(epoch.size(), 23u);
    EXPECT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), 23u);
    EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
  }
  EXPECT_NE(first, second);
  auto again = Batches::Open(options);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(Ids(**again, 6), first);
  options.seed = 7;
  auto other = Batches::Open(options);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(Ids(**other, 6), first);
}

TEST_F(BatchesTest, GoesOnFromAnyPosition) {
  WriteNumbers(11);
  BatchOptions options = Options();
  options.shuffle = true;
  options.batch_size = 3;
  options.epochs = 0;
  auto batches = Batches::Open(options);
  ASSERT_TRUE(batches.ok()) << batches.status();
  for (int used = 0; used < 9; ++used) {
    auto resumed = Batches::Open(options);
    ASSERT_TRUE(resumed.ok());
    (*resumed)->Seek((*batches)->epoch(), (*batches)->position());
    auto reference = Batches::Open(options);
    ASSERT_TRUE(reference.ok());
    Ids(**reference, used);
    EXPECT_EQ(Ids(**resumed, 5), Ids(**reference, 5)) << used;
    Take(**batches);
  }
}

TEST_F(BatchesTest, EndsAfterTheEpochs) {
  WriteNumbers(5);
  BatchOptions options = Options();
  options.batch_size = 2;
  options.epochs = 2;
  auto batches = Batches::Open(options);
  ASSERT_TRUE(batches.ok());
  EXPECT_EQ(Ids(**batches, 6).size(), 10u);
  auto end = (*batches)->Next();
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
}

TEST_F(BatchesTest, SafetensorsFilesAreMicroBatchesInOrder) {
  for (int64_t i : {2, 0, 1})
    ASSERT_TRUE(WriteTensors(Path(absl::StrCat(i, ".safetensors")),
                             {{"input_ids", at::full({1, 2}, i, at::kLong)}})
                    .ok());
  auto batches = Batches::Open(Options());
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(Ids(**batches, 3), (std::vector<int64_t>{0, 0, 1, 1, 2, 2}));
}

TEST_F(BatchesTest, BadLinesAreErrorsThatNameThem) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"input_ids\": [1]", "a.jsonl:2: "},
      {"[1]", "not an object"},
      {"{\"input_ids\": [1.5]}", "other than integers"},
      {"{\"input_ids\": \"text\"}", "neither a number nor a list"},
      {"{\"input_ids\": 1}", "not like in the lines before"},
      {"{\"labels\": [1]}", "not like in the lines before"},
      {"{}", "\"input_ids\" is missing"},
      {"{\"input_ids\": " + std::string(1000000, '['), "nested too deeply"},
  };
  for (const auto& [line, message] : cases) {
    Write("a.jsonl", "{\"input_ids\": [1]}\n" + line + "\n");
    EXPECT_THAT(NextError(Options()), HasSubstr(message)) << line.substr(0, 40);
    EXPECT_THAT(NextError(Options()), HasSubstr("a.jsonl:2: "));
  }
}

TEST_F(BatchesTest, RefusesFilesThatDoNotGoTogether) {
  EXPECT_THAT(NextError(Options()), HasSubstr("no .safetensors or .jsonl"));
  Write("a.jsonl", "\n");
  EXPECT_THAT(NextError(Options()), HasSubstr("no example"));
  ASSERT_TRUE(
      WriteTensors(Path("b.safetensors"), {{"x", at::zeros({1}, at::kLong)}})
          .ok());
  EXPECT_THAT(NextError(Options()), HasSubstr("not both"));
  BatchOptions options = Options();
  options.paths = {Path("gone")};
  EXPECT_THAT(NextError(options), HasSubstr("gone"));
}

}  // namespace
}  // namespace tp
