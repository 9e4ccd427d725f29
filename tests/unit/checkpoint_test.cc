#include "ir/checkpoint.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/checkpoint_convert.h"
#include "ir/checkpoint_reader.h"
#include "ir/checkpoint_writer.h"
#include "ir/file_digest.h"
#include "ir/shard_block.h"
#include "ir/text.h"
#include "tests/unit/placed_elements.h"

namespace tp {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Kind = CheckpointTensor::Kind;
// Whole values of tensors, by key.
using Values = std::map<std::string, std::string>;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::string name = (fs::temp_directory_path() / "ckptXXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~CheckpointTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const {
    return (fs::path(folder_) / name).string();
  }
  std::string folder_;
};

Placement Parsed(const std::string& text, llvm::ArrayRef<int64_t> sizes) {
  llvm::SmallVector<SymExpr, 4> dims(sizes.begin(), sizes.end());
  auto placement = ParsePlacement(text, dims);
  EXPECT_TRUE(placement.ok()) << placement.status();
  return *placement;
}

CheckpointTensor Tensor(Kind kind, const std::string& name, DType dtype,
                        std::vector<int64_t> sizes, const std::string& place,
                        const std::string& state = "") {
  CheckpointTensor tensor;
  tensor.kind = kind;
  tensor.name = name;
  tensor.state = state;
  tensor.dtype = dtype;
  tensor.sizes.assign(sizes.begin(), sizes.end());
  tensor.spec.push_back(Parsed(place, tensor.sizes));
  return tensor;
}

std::string RandomBytes(int64_t size, std::mt19937& random) {
  std::string bytes(static_cast<size_t>(size), '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

Values RandomValues(const Checkpoint& checkpoint, std::mt19937& random) {
  Values values;
  for (const CheckpointTensor& tensor : checkpoint.tensors)
    values[tensor.key()] = RandomBytes(tensor.sharded().NumBytes(), random);
  return values;
}

// What a rank holds, by the definition of placements and not by our blocks.
std::string PartOf(const CheckpointTensor& tensor, const std::string& whole,
                   int64_t ranks, int64_t rank) {
  llvm::SmallVector<SymExpr, 4> dims(tensor.sizes.begin(), tensor.sizes.end());
  const auto item = static_cast<size_t>(ByteSize(tensor.dtype));
  std::string part;
  for (int64_t at : PlacedElements(dims, tensor.spec[0], ranks, rank))
    part += whole.substr(static_cast<size_t>(at) * item, item);
  return part;
}

absl::Status Save(const std::string& dir, const Checkpoint& checkpoint,
                  const Values& values, int keep = 0) {
  auto writer = CheckpointWriter::Create(dir, checkpoint);
  if (!writer.ok()) return writer.status();
  const int64_t ranks = checkpoint.mesh.num_ranks();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    absl::Status status = (*writer)->WriteRank(
        rank,
        [&](const CheckpointTensor& tensor, CheckpointWriter::Append append) {
          const std::string part =
              PartOf(tensor, values.at(tensor.key()), ranks, rank);
          return append(part.data(), part.size());
        });
    if (!status.ok()) return status;
  }
  return (*writer)->Commit(keep);
}

Values WholeValues(const CheckpointReader& reader) {
  Values values;
  for (const CheckpointTensor& tensor : reader.checkpoint().tensors) {
    std::string& value = values[tensor.key()];
    const absl::Status status = reader.files().Stream(
        tensor.sharded(), WholeBlock(tensor.sizes),
        [&](const void* data, size_t size) {
          value.append(static_cast<const char*>(data), size);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
  }
  return values;
}

// Two ranks, an uneven and a boxed split, a copy, a state that follows.
Checkpoint Sample() {
  Checkpoint checkpoint;
  checkpoint.step = 7;
  checkpoint.epoch = 2;
  checkpoint.position = 3;
  checkpoint.seed = ~uint64_t{0};
  checkpoint.optimizer = "adamw";
  checkpoint.extra["loss_scale"] = "0x1p+16";
  checkpoint.mesh = Mesh({{"tp", 2}});
  checkpoint.tensors = {
      Tensor(Kind::kParameter, "wi", DType::kF32, {5, 4}, "S(0)"),
      Tensor(Kind::kState, "wi", DType::kF32, {5, 4}, "S(0)", "exp_avg"),
      Tensor(Kind::kParameter, "qkv", DType::kBF16, {3, 18}, "S(1:3x[3]x2)"),
      Tensor(Kind::kParameter, "norm", DType::kF64, {}, "R"),
      Tensor(Kind::kBuffer, "flags", DType::kBool, {1}, "S(0)"),
  };
  checkpoint.tensors[0].aliases = {"wo"};
  return checkpoint;
}

TEST_F(CheckpointTest, RoundTrip) {
  std::mt19937 random(1);
  const Checkpoint sample = Sample();
  const Values values = RandomValues(sample, random);
  ASSERT_TRUE(Save(folder_, sample, values).ok());
  for (const std::string& path : {folder_, Path("step-7")}) {
    auto reader = CheckpointReader::Open(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->folder(), Path("step-7"));
    const Checkpoint& read = (*reader)->checkpoint();
    EXPECT_EQ(read.step, 7);
    EXPECT_EQ(read.epoch, 2);
    EXPECT_EQ(read.position, 3);
    EXPECT_EQ(read.seed, ~uint64_t{0});
    EXPECT_EQ(read.optimizer, "adamw");
    EXPECT_EQ(read.extra, sample.extra);
    EXPECT_EQ(read.mesh, sample.mesh);
    ASSERT_EQ(read.tensors.size(), 5u);
    EXPECT_EQ(read.tensors[2].spec, sample.tensors[2].spec);
    EXPECT_THAT(read.tensors[0].aliases, ElementsAre("wo"));
    EXPECT_EQ(WholeValues(**reader), values);
    // Copies are stored once.
    EXPECT_TRUE((*reader)->files().ReadOwn(read.tensors[3].sharded(), 0).ok());
    EXPECT_TRUE(absl::IsNotFound(
        (*reader)->files().ReadOwn(read.tensors[3].sharded(), 1).status()));
  }
}

TEST_F(CheckpointTest, EveryDamageIsFoundAndTheFileNamed) {
  std::mt19937 random(2);
  const Checkpoint sample = Sample();
  const Values values = RandomValues(sample, random);
  for (const std::string name :
       {"checkpoint.json", "rank0.safetensors", "rank1.safetensors"}) {
    for (const std::string how : {"cut", "edited", "longer", "gone"}) {
      fs::remove_all(Path("step-7"));
      ASSERT_TRUE(Save(folder_, sample, values).ok());
      const std::string path = Path("step-7/" + name);
      const auto text = ReadTextFile(path);
      ASSERT_TRUE(text.ok());
      std::string damaged = *text;
      if (how == "cut") damaged.resize(damaged.size() / 2);
      if (how == "edited") damaged[damaged.find('7') % damaged.size()] ^= 1;
      if (how == "longer") damaged += "\n";
      ASSERT_TRUE(WriteTextFile(path, damaged).ok());
      if (how == "gone") fs::remove(path);
      const absl::Status status =
          CheckpointReader::Open(Path("step-7")).status();
      EXPECT_FALSE(status.ok()) << name << " " << how;
      EXPECT_THAT(
          std::string(status.message()),
          HasSubstr(how == "gone" && name == "checkpoint.json" ? Path("step-7")
                                                               : path))
          << how;
    }
  }
}

// Whatever number of bytes are flipped anywhere in the description.
TEST_F(CheckpointTest, AnyEditOfTheDescriptionIsRefused) {
  Checkpoint sample = Sample();
  for (int rank = 0; rank < 2; ++rank)
    sample.files[RankFileName(rank)] = {"00", 12};
  const std::string text = CheckpointJson(sample);
  ASSERT_TRUE(ParseCheckpointJson(text).ok());
  for (size_t at = 0; at < text.size(); ++at) {
    std::string edited = text;
    edited[at] ^= 1;
    EXPECT_FALSE(ParseCheckpointJson(edited).ok()) << at;
    EXPECT_FALSE(ParseCheckpointJson(text.substr(0, at)).ok()) << at;
  }
}

TEST_F(CheckpointTest, ThePreviousOneStaysUntilTheNextIsComplete) {
  std::mt19937 random(3);
  Checkpoint sample = Sample();
  const Values first = RandomValues(sample, random);
  ASSERT_TRUE(Save(folder_, sample, first).ok());
  // A writer that fails or is interrupted after one rank.
  sample.step = 8;
  {
    auto writer = CheckpointWriter::Create(folder_, sample);
    ASSERT_TRUE(writer.ok());
    EXPECT_TRUE(absl::IsInternal((*writer)->WriteRank(
        0, [](const CheckpointTensor&, CheckpointWriter::Append append) {
          return append("x", 1);
        })));
    EXPECT_TRUE(fs::exists(Path("step-8.tmp")));
    EXPECT_TRUE(absl::IsFailedPrecondition((*writer)->Commit(1)));
  }
  EXPECT_FALSE(fs::exists(Path("step-8.tmp")));
  EXPECT_FALSE(fs::exists(Path("step-8")));
  auto reader = CheckpointReader::Open(folder_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(WholeValues(**reader), first);
  // What a killed process leaves does not get in the way.
  fs::create_directory(Path("step-8.tmp"));
  std::ofstream(Path("step-8.tmp/rank0.safetensors")) << "torn";
  const Values second = RandomValues(sample, random);
  ASSERT_TRUE(Save(folder_, sample, second).ok());
  reader = CheckpointReader::Open(folder_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->checkpoint().step, 8);
  EXPECT_EQ(WholeValues(**reader), second);
  // The same step again replaces it.
  ASSERT_TRUE(Save(folder_, sample, first).ok());
  reader = CheckpointReader::Open(folder_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(WholeValues(**reader), first);
  EXPECT_THAT(CheckpointSteps(folder_), ElementsAre(7, 8));
  EXPECT_FALSE(fs::exists(Path("step-8.tmp")));
  EXPECT_FALSE(fs::exists(Path("step-8.old")));
  // A torn newest one: the message names what else can be loaded.
  fs::resize_file(Path("step-8/rank1.safetensors"), 20);
  EXPECT_THAT(std::string(CheckpointReader::Open(folder_).status().message()),
              HasSubstr(Path("step-7")));
}

TEST_F(CheckpointTest, KeepsTheLastOnesAndNeverRemovesTheNewOne) {
  std::mt19937 random(4);
  Checkpoint sample = Sample();
  const Values values = RandomValues(sample, random);
  for (int64_t step : {1, 2, 3, 4}) {
    sample.step = step;
    ASSERT_TRUE(Save(folder_, sample, values, 2).ok());
  }
  EXPECT_THAT(CheckpointSteps(folder_), ElementsAre(3, 4));
  // Taken up again before them.
  sample.step = 2;
  ASSERT_TRUE(Save(folder_, sample, values, 1).ok());
  EXPECT_THAT(CheckpointSteps(folder_), ElementsAre(2));
  EXPECT_TRUE(CheckpointReader::Open(folder_).ok());
}

TEST_F(CheckpointTest, OtherFoldersAreLeftAlone) {
  fs::create_directory(Path("step-7"));
  std::ofstream(Path("step-7/mine")) << "text";
  std::mt19937 random(5);
  const Checkpoint sample = Sample();
  EXPECT_TRUE(absl::IsAlreadyExists(
      Save(folder_, sample, RandomValues(sample, random))));
  EXPECT_TRUE(fs::exists(Path("step-7/mine")));
  EXPECT_TRUE(
      absl::IsNotFound(CheckpointReader::Open(Path("nothing")).status()));
}

TEST(StateSpecTest, FollowsTheParameter) {
  const std::vector<int64_t> sizes = {6, 4, 8};
  const auto text = [&](const std::string& place, const std::string& state,
                        std::vector<int64_t> state_sizes) {
    return ToString(
        StateSpec(sizes, {Parsed(place, sizes)}, state, state_sizes));
  };
  EXPECT_EQ(text("S(2:2x[4])", "exp_avg", {6, 4, 8}), "<S(2:2x[4])>");
  EXPECT_EQ(text("S(0)", "row", {6, 4}), "<S(0)>");
  EXPECT_EQ(text("S(2)", "row", {6, 4}), "<R>");
  EXPECT_EQ(text("S(1)", "col", {6, 8}), "<R>");
  EXPECT_EQ(text("S(2:2x[4])", "col", {6, 8}), "<S(1:2x[4])>");
  EXPECT_EQ(text("S(0)", "rms", {}), "<R>");
  const std::vector<int64_t> square = {4, 4};
  EXPECT_EQ(ToString(StateSpec(square, {Parsed("S(1)", square)}, "row", {4})),
            "<R>");
  EXPECT_EQ(ToString(StateSpec(square, {Parsed("S(1)", square)}, "col", {4})),
            "<S(0)>");
}

// A random placement of a tensor: whole, plain, or a box.
std::string RandomPlacement(llvm::ArrayRef<int64_t> sizes,
                            std::mt19937& random) {
  if (sizes.empty() || random() % 4 == 0) return "R";
  const size_t dim = random() % sizes.size();
  int64_t left = 1, size = sizes[dim], right = 1;
  for (int64_t divisor : {2, 3}) {
    if (size % divisor == 0 && random() % 2) left *= divisor, size /= divisor;
    if (size % divisor == 0 && random() % 2) right *= divisor, size /= divisor;
  }
  return absl::StrCat("S(", dim, ":", left, "x[", size, "]x", right, ")");
}

// A plan over `ranks` of the parameters of a checkpoint, placed at random.
std::unique_ptr<Module> RandomPlan(const Checkpoint& checkpoint, int ranks,
                                   std::mt19937& random) {
  std::string text =
      absl::StrCat("tpir 1\nmesh @m = [tp: ", ranks, "]\nfunc @forward(");
  int number = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors) {
    if (tensor.kind == Kind::kState) continue;
    absl::StrAppend(&text, number ? ", " : "", "%w", number, ": ",
                    std::string(Name(tensor.dtype)), "[");
    for (size_t d = 0; d < tensor.sizes.size(); ++d)
      absl::StrAppend(&text, d ? "," : "", tensor.sizes[d]);
    absl::StrAppend(&text, "] <", RandomPlacement(tensor.sizes, random), "> ",
                    tensor.kind == Kind::kBuffer ? "buffer" : "param", " \"",
                    tensor.name, "\"");
    for (const std::string& alias : tensor.aliases)
      absl::StrAppend(&text, " alias \"", alias, "\"");
    ++number;
  }
  absl::StrAppend(&text, ") -> ",
                  std::string(Name(checkpoint.tensors[0].dtype)), "[");
  for (size_t d = 0; d < checkpoint.tensors[0].sizes.size(); ++d)
    absl::StrAppend(&text, d ? "," : "", checkpoint.tensors[0].sizes[d]);
  absl::StrAppend(&text, "] {\n  return %w0\n}\n");
  auto module = Parse(text, "plan");
  EXPECT_TRUE(module.ok()) << module.status() << "\n" << text;
  return module.ok() ? *std::move(module) : nullptr;
}

// 2 -> 3 -> 2 and others: random sizes, dtypes and placements, with states.
TEST_F(CheckpointTest, ReshardKeepsEveryBit) {
  std::mt19937 random(6);
  const DType dtypes[] = {DType::kF32, DType::kBF16, DType::kF64, DType::kI8};
  for (int round = 0; round < 20; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 4);
    Checkpoint checkpoint = Sample();
    checkpoint.mesh = Mesh({{"tp", ranks}});
    checkpoint.tensors.clear();
    for (int i = 0; i < 4; ++i) {
      std::vector<int64_t> sizes(random() % 4);
      for (int64_t& size : sizes) size = 1 + random() % 12;
      const std::string name = absl::StrCat("w", i);
      const DType dtype = dtypes[random() % 4];
      checkpoint.tensors.push_back(Tensor(Kind::kParameter, name, dtype, sizes,
                                          RandomPlacement(sizes, random)));
      const CheckpointTensor parameter = checkpoint.tensors.back();
      const auto add = [&](const std::string& state,
                           std::vector<int64_t> state_sizes) {
        CheckpointTensor tensor =
            Tensor(Kind::kState, name, DType::kF32, state_sizes, "R", state);
        tensor.spec = StateSpec(sizes, parameter.spec, state, state_sizes);
        checkpoint.tensors.push_back(std::move(tensor));
      };
      add("exp_avg", sizes);
      if (sizes.size() < 2) continue;
      std::vector<int64_t> row = sizes, col = sizes;
      row.pop_back();
      col.erase(col.end() - 2);
      add("row", row);
      add("col", col);
    }
    checkpoint.tensors[0].aliases = {"tied"};
    const Values values = RandomValues(checkpoint, random);
    fs::remove_all(Path("a"));
    ASSERT_TRUE(Save(Path("a"), checkpoint, values).ok());
    std::string from = "a";
    for (int next : {3, 2, 1 + static_cast<int>(random() % 5)}) {
      auto reader = CheckpointReader::Open(Path(from));
      ASSERT_TRUE(reader.ok()) << reader.status();
      auto plan = RandomPlan(checkpoint, next, random);
      ASSERT_NE(plan, nullptr);
      const std::string to = absl::StrCat("to", next);
      fs::remove_all(Path(to));
      if (to == from) continue;
      const absl::Status status =
          ReshardCheckpoint(**reader, *plan, Path(to), {});
      ASSERT_TRUE(status.ok()) << status;
      auto moved = CheckpointReader::Open(Path(to));
      ASSERT_TRUE(moved.ok()) << moved.status();
      EXPECT_EQ((*moved)->checkpoint().mesh.num_ranks(), next);
      EXPECT_EQ((*moved)->checkpoint().position, 3);
      ASSERT_EQ(WholeValues(**moved), values) << round;
      from = to;
    }
  }
}

TEST_F(CheckpointTest, ExportAndImport) {
  std::mt19937 random(7);
  Checkpoint sample = Sample();
  const Values values = RandomValues(sample, random);
  ASSERT_TRUE(Save(Path("a"), sample, values).ok());
  auto reader = CheckpointReader::Open(Path("a"));
  ASSERT_TRUE(reader.ok());
  const std::string file = Path("weights.safetensors");
  EXPECT_TRUE(
      absl::IsInvalidArgument(ExportCheckpoint(**reader, nullptr, folder_)));
  ASSERT_TRUE(ExportCheckpoint(**reader, nullptr, file).ok());
  auto given = OpenWeights(file);
  ASSERT_TRUE(given.ok()) << given.status();
  Values exported;
  for (const WeightInfo& weight : (*given)->weights()) {
    auto bytes = (*given)->View(weight);
    ASSERT_TRUE(bytes.ok());
    exported[weight.name].assign(bytes->begin(), bytes->end());
  }
  Values wanted = values;
  wanted.erase("wi#exp_avg");
  wanted["wo"] = values.at("wi");  // a tied weight under each name
  EXPECT_EQ(exported, wanted);

  auto plan = RandomPlan(sample, 3, random);
  ASSERT_TRUE(ImportCheckpoint(**given, *plan, Path("b"), {}).ok());
  auto imported = CheckpointReader::Open(Path("b"));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ((*imported)->checkpoint().step, 0);
  wanted.erase("wo");
  EXPECT_EQ(WholeValues(**imported), wanted);
}

TEST_F(CheckpointTest, ReshardRefusesAnotherModel) {
  std::mt19937 random(8);
  Checkpoint sample = Sample();
  ASSERT_TRUE(Save(Path("a"), sample, RandomValues(sample, random)).ok());
  auto reader = CheckpointReader::Open(Path("a"));
  ASSERT_TRUE(reader.ok());
  const auto reshard = [&](Checkpoint other) {
    auto plan = RandomPlan(other, 2, random);
    return ReshardCheckpoint(**reader, *plan, Path("b"), {});
  };
  Checkpoint other = sample;
  other.tensors[2].name = "kv";
  EXPECT_THAT(std::string(reshard(other).message()), HasSubstr("\"qkv\""));
  other = sample;
  other.tensors[2].sizes = {3, 12};
  EXPECT_THAT(std::string(reshard(other).message()),
              HasSubstr("bf16[3,18], in the package it is bf16[3,12]"));
  other = sample;
  other.tensors.push_back(other.tensors[2]);
  other.tensors.back().name = "more";
  EXPECT_THAT(std::string(reshard(other).message()),
              HasSubstr("lacks \"more\""));
  EXPECT_FALSE(fs::exists(Path("b")));
}

// Per-shard statistics: each rank gets its own back; nothing else can be done.
TEST_F(CheckpointTest, StatesThatDifferBetweenRanks) {
  Checkpoint sample = Sample();
  sample.tensors = {
      Tensor(Kind::kParameter, "w", DType::kI8, {2}, "R"),
      Tensor(Kind::kState, "w", DType::kI8, {2}, "P", "row"),
  };
  auto writer = CheckpointWriter::Create(folder_, sample);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int64_t rank = 0; rank < 2; ++rank)
    ASSERT_TRUE((*writer)
                    ->WriteRank(rank,
                                [&](const CheckpointTensor& tensor,
                                    CheckpointWriter::Append append) {
                                  return append(tensor.state.empty() ? "ww"
                                                : rank == 0          ? "aa"
                                                                     : "bb",
                                                2);
                                })
                    .ok());
  ASSERT_TRUE((*writer)->Commit(0).ok());
  auto reader = CheckpointReader::Open(folder_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const CheckpointTensor* row = (*reader)->Find("w#row");
  ASSERT_NE(row, nullptr);
  for (int64_t rank = 0; rank < 2; ++rank) {
    auto own = (*reader)->files().ReadOwn(row->sharded(), rank);
    ASSERT_TRUE(own.ok());
    EXPECT_EQ(own->data()[0], rank == 0 ? 'a' : 'b');
  }
  std::mt19937 random(9);
  auto plan = RandomPlan(sample, 3, random);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ReshardCheckpoint(**reader, *plan, Path("b"), {})));
  EXPECT_TRUE(
      ReshardCheckpoint(**reader, *plan, Path("b"), {/*weights_only=*/true})
          .ok());
}

}  // namespace
}  // namespace tp
