#include "frontend/archive_check.h"

#include <random>

#include "frontend/archive_weight_source.h"
#include "frontend/skeleton_archive.h"
#include "gmock/gmock.h"
#include "tests/unit/archive_test_util.h"

namespace tp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeZip;
using testing::PickleWriter;
using testing::ScriptEntries;
using testing::TempFile;
using testing::TestEntry;

absl::Status Check(const std::string& bytes,
                   const ArchiveOptions& options = {}) {
  TempFile file(bytes);
  return CheckArchive(file.path(), options).status();
}

// The good archive with record `name` replaced, or added.
std::vector<TestEntry> With(TestEntry entry) {
  std::vector<TestEntry> entries = ScriptEntries();
  for (TestEntry& old : entries)
    if (old.name == entry.name) {
      old = std::move(entry);
      return entries;
    }
  entries.push_back(std::move(entry));
  return entries;
}

std::vector<TestEntry> Without(const std::string& prefix) {
  std::vector<TestEntry> entries;
  for (const TestEntry& entry : ScriptEntries())
    if (entry.name.rfind(prefix, 0) != 0) entries.push_back(entry);
  return entries;
}

std::vector<float> Floats(const Bytes& bytes) {
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), out.size() * 4);
  return out;
}

TEST(CheckArchive, AcceptsAndListsTensors) {
  TempFile file(MakeZip({.entries = ScriptEntries()}));
  auto archive = CheckArchive(file.path());
  ASSERT_TRUE(archive.ok()) << archive.status();
  std::vector<std::string> names;
  for (const NamedTensor& tensor : (*archive)->tensors)
    names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("weight", "head", "turned"));
  EXPECT_EQ(*DescribeFile(file.path()), "a TorchScript archive");
}

TEST(CheckArchive, SaysWhatAWrongFileIs) {
  const auto zip = [](std::vector<TestEntry> entries) {
    return MakeZip({.entries = std::move(entries)});
  };
  std::string safetensors;
  testing::PutLittle(safetensors, 2, 8);
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  const std::pair<std::string, std::string> cases[] = {
      {"", "an empty file"},
      {"import torch\n\nclass M(torch.nn.Module):\n  pass\n", "a text file"},
      {"gr\xc3\xbc\xc3\x9f", "a text file"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "LFS"},
      {safetensors + "{}", "a safetensors file"},
      {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", "before 1.6"},
      {"\x80\x04\x95.", "a Python pickle"},
      {"GGUF\x03", "GGUF"},
      {"\x93NUMPY\x01", "NumPy"},
      {"\x1f\x8b\x08", "gzip"},
      {tar, "tar"},
      {"\x7f"
       "ELF\x02",
       "shared object"},
      {std::string(100, '\0'), "zeros"},
      {"\x01\x02\x03\xff", "does not start as a zip"},
      {zip(Without("m/code/")), "a state dict or pickled module"},
      {zip({{"m/data.pkl", "x"}, {"m/version", "3"}, {"m/data/0", ""}}),
       "a state dict or pickled module"},
      {zip({{"m/archive_format", "pt2"}, {"m/models/model.json", "{}"}}),
       "a torch.export archive (.pt2)"},
      {zip({{"serialized_exported_program.json", "{}"}, {"version", "7"}}),
       "a torch.export archive (.pt2)"},
      {zip({{"m/.data/extern_modules", ""}, {"m/x.py", ""}}),
       "a torch.package"},
      {zip({{"weight.npy", ""}}), ".npz"},
      {zip({{"m/model.json", "{}"}, {"m/tensors/0", ""}}), "before PyTorch"},
      {zip({{"m/readme", "hi"}}), "not of TorchScript"},
  };
  for (const auto& [bytes, what] : cases) {
    TempFile file(bytes);
    const absl::Status status = CheckArchive(file.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), HasSubstr(file.path()));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("not a TorchScript archive; "));
    EXPECT_THAT(*DescribeFile(file.path()), HasSubstr(what));
  }
  EXPECT_TRUE(absl::IsNotFound(CheckArchive("/no/such/file").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckArchive("/").status()));
}

TEST(CheckArchive, EveryTruncationIsAnError) {
  const std::string whole = MakeZip({.entries = ScriptEntries()});
  for (size_t size = 0; size < whole.size(); size += 7)
    EXPECT_FALSE(Check(whole.substr(0, size)).ok()) << size;
  const absl::Status status = Check(whole.substr(0, whole.size() / 2));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

// A changed byte of any record is found: in small ones at once, in weights
// when they are read.
TEST(CheckArchive, FlippedBytesAreFound) {
  for (const TestEntry& entry : ScriptEntries()) {
    if (entry.deflate) continue;
    std::string bytes = MakeZip({.entries = ScriptEntries()});
    const size_t at = bytes.find(entry.name) + entry.name.size();
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    TempFile file(bytes);
    auto archive = CheckArchive(file.path());
    if (entry.name != "m/data/0") {
      // The serialization id says nothing about the model.
      if (entry.name == "m/.data/serialization_id") continue;
      EXPECT_TRUE(absl::IsDataLoss(archive.status())) << entry.name;
      continue;
    }
    ASSERT_TRUE(archive.ok()) << archive.status();
    auto source = MakeArchiveWeightSource(**archive);
    const absl::Status status = source->View(*source->Find("weight")).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"weight\""));
  }
}

TEST(CheckArchive, RefusesUnsafeParts) {
  const std::string code = "m/code/__torch__.py";
  const std::string save =
      "class M(Module):\n"
      "  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n"
      "    torch.save(x, \"file\")\n"
      "    return x\n";
  absl::Status status = Check(MakeZip({.entries = With({code, save})}));
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("aten::save"));
  ArchiveOptions options;
  options.allow_ops = {"aten::save"};
  EXPECT_TRUE(Check(MakeZip({.entries = With({code, save})}), options).ok());

  const std::string evil = PickleWriter()
                               .Global("os", "system")
                               .Raw("(")
                               .String("ls")
                               .Raw("tR")
                               .Finish();
  for (const char* record :
       {"m/data.pkl", "m/constants.pkl", "m/code/__torch__.py.debug_pkl"}) {
    status = Check(MakeZip({.entries = With({record, evil})}));
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << record << status;
  }
}

TEST(CheckArchive, RefusesRecordsThatDoNotFit) {
  EXPECT_THAT(
      std::string(Check(MakeZip({.entries = Without("m/data/0")})).message()),
      HasSubstr("record data/0, are missing"));
  EXPECT_THAT(
      std::string(
          Check(MakeZip({.entries = With({"m/data/0", "12"})})).message()),
      HasSubstr("has 2 bytes"));
  PickleWriter constants;
  constants.Raw("(").Tensor("LongStorage", "0", 4, 0, {4}, {1}).Raw("t");
  std::vector<TestEntry> entries =
      With({"m/constants.pkl", constants.Finish()});
  entries.push_back({"m/constants/0", std::string(31, '\1')});
  EXPECT_THAT(std::string(Check(MakeZip({.entries = entries})).message()),
              HasSubstr("has 31 bytes"));
  entries.back().data += "\1";
  EXPECT_TRUE(Check(MakeZip({.entries = entries})).ok());
  EXPECT_TRUE(absl::IsUnimplemented(
      Check(MakeZip({.entries = With({"m/byteorder", "big"})}))));
  EXPECT_FALSE(Check(MakeZip({.entries = Without("m/version")})).ok());
  EXPECT_FALSE(
      Check(MakeZip({.entries = With({"m/data.pkl", "\x80\x02N."})})).ok());
}

TEST(Skeleton, KeepsTheProgramAndShrinksWeights) {
  std::vector<TestEntry> entries = ScriptEntries();
  PickleWriter constants;
  constants.Raw("(").Tensor("LongStorage", "0", 1, 0, {}, {}).Raw("t");
  entries = With({"m/constants.pkl", constants.Finish()});
  entries.push_back({"m/constants/0", "12345678"});
  entries.push_back({"m/traced_inputs.pkl", "anything"});
  entries.push_back({"m/traced_inputs/0", ""});
  entries.push_back({"m/extra/notes", "anything"});
  TempFile file(MakeZip({.entries = entries}));
  auto archive = CheckArchive(file.path());
  ASSERT_TRUE(archive.ok()) << archive.status();
  auto skeleton = BuildSkeleton(**archive);
  ASSERT_TRUE(skeleton.ok()) << skeleton.status();

  TempFile again(*skeleton);
  auto checked = CheckArchive(again.path());
  ASSERT_TRUE(checked.ok()) << checked.status();
  const ZipReader& zip = *(*checked)->zip;
  EXPECT_EQ(zip.entries().size(), entries.size() - 3);
  for (const ZipEntry& entry : zip.entries()) {
    EXPECT_EQ(entry.data_offset % 64, 0u) << entry.name;
    auto original = (*archive)->zip->Read(entry.record);
    if (entry.record == "data.pkl" || entry.record == "data/0") continue;
    EXPECT_EQ(*zip.Read(entry), *original) << entry.record;
  }
  EXPECT_EQ(*zip.Read("data/0"), std::string(64, '\0'));
  ASSERT_EQ((*checked)->tensors.size(), 3u);
  const PickledTensor& turned = *(*checked)->tensors[2].tensor;
  EXPECT_EQ(turned.storage_numel, 1);
  EXPECT_THAT(turned.sizes, ElementsAre(3, 2));
  EXPECT_THAT(turned.strides, ElementsAre(0, 0));

  EXPECT_TRUE(absl::IsUnimplemented(
      BuildSkeleton(**archive, {.max_constant_bytes = 7}).status()));
  EXPECT_TRUE(BuildSkeleton(**archive, {.max_constant_bytes = 8}).ok());
}

TEST(ArchiveWeightSource, ReadsStoredAndDeflatedWeights) {
  for (bool deflate : {false, true}) {
    std::vector<TestEntry> entries = ScriptEntries();
    for (TestEntry& entry : entries) entry.deflate = deflate;
    TempFile file(MakeZip({.entries = entries}));
    auto archive = CheckArchive(file.path());
    ASSERT_TRUE(archive.ok()) << archive.status();
    auto source = MakeArchiveWeightSource(**archive);
    archive->reset();  // the source stands alone
    ASSERT_EQ(source->weights().size(), 3u);
    const WeightInfo& weight = *source->Find("weight");
    const WeightInfo& head = *source->Find("head");
    EXPECT_EQ(weight.storage, head.storage);
    EXPECT_EQ(weight.dtype, DType::kF32);
    EXPECT_TRUE(weight.IsContiguous());
    const WeightInfo& turned = *source->Find("turned");
    EXPECT_FALSE(turned.IsContiguous());
    auto view = source->View(turned);
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_THAT(Floats(*view), ElementsAre(0, 1, 2, 3, 4, 5));
    std::vector<float> out(6);
    ASSERT_TRUE(
        CopyBlock(turned, *view, WholeBlock(turned.sizes), out.data(), 24)
            .ok());
    EXPECT_THAT(out, ElementsAre(0, 3, 1, 4, 2, 5));
  }
}

TEST(ArchiveWeightSource, SaysWhyATensorIsNoWeight) {
  PickleWriter data;
  data.Object("__torch__", "M");
  data.String("phase").Tensor("ComplexFloatStorage", "0", 1, 0, {}, {});
  data.String("ghost").Tensor("FloatStorage", "9", 4, 0, {4}, {1}, "meta");
  data.EndObject();
  TempFile file(MakeZip({.entries = With({"m/data.pkl", data.Finish()})}));
  auto archive = CheckArchive(file.path());
  ASSERT_TRUE(archive.ok()) << archive.status();
  auto source = MakeArchiveWeightSource(**archive);
  EXPECT_TRUE(absl::IsUnimplemented(source->Get("phase").status()));
  EXPECT_TRUE(absl::IsNotFound(source->Get("none").status()));
  auto ghost = source->Get("ghost");
  ASSERT_TRUE(ghost.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(source->View(**ghost).status()));
}

TEST(CheckArchive, SurvivesRandomDamage) {
  std::vector<TestEntry> entries = ScriptEntries();
  std::mt19937 random(5);
  for (int round = 0; round < 1500; ++round) {
    // Damage within a record, with a correct CRC, reaches the inner readers.
    std::vector<TestEntry> damaged = entries;
    std::string& data = damaged[random() % damaged.size()].data;
    for (unsigned k = 0; k < 1 + random() % 3; ++k)
      data[random() % data.size()] = static_cast<char>(random());
    TempFile file(MakeZip({.entries = damaged}));
    auto archive = CheckArchive(file.path());
    if (!archive.ok()) continue;
    (void)BuildSkeleton(**archive);
    auto source = MakeArchiveWeightSource(**archive);
    for (const WeightInfo& weight : source->weights())
      (void)source->View(weight);
  }
}

}  // namespace
}  // namespace tp
