#include "frontend/pickle_reader.h"

#include <random>

#include "gmock/gmock.h"
#include "tests/unit/archive_test_util.h"

namespace tp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = PickleValue::Kind;
using testing::PickleWriter;

absl::StatusOr<Pickle> Read(const std::string& bytes) {
  return ReadPickle(bytes, "test");
}

void ExpectError(const std::string& bytes, absl::StatusCode code,
                 const std::string& why) {
  const absl::Status status = Read(bytes).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(PickleReader, ReadsPlainValues) {
  PickleWriter writer;
  writer.Raw("(N\x88\x89").Int(7).Int(300).Int(-5).Int(int64_t{1} << 40);
  writer.Raw(std::string("G\x3f\xf8\0\0\0\0\0\0", 9)).String("hi").Raw("](");
  writer.Int(1).Raw("e}(").String("k").Int(2).Raw("u)t");
  auto pickle = Read(writer.Finish());
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const auto& items = pickle->root->items;
  ASSERT_EQ(items.size(), 12u);
  EXPECT_EQ(items[0]->kind, Kind::kNone);
  EXPECT_TRUE(items[1]->flag);
  EXPECT_FALSE(items[2]->flag);
  EXPECT_EQ(items[3]->integer, 7);
  EXPECT_EQ(items[4]->integer, 300);
  EXPECT_EQ(items[5]->integer, -5);
  EXPECT_EQ(items[6]->integer, int64_t{1} << 40);
  EXPECT_EQ(items[7]->real, 1.5);
  EXPECT_EQ(items[8]->text, "hi");
  EXPECT_EQ(items[9]->items.at(0)->integer, 1);
  EXPECT_EQ(items[10]->Get("k")->integer, 2);
  EXPECT_EQ(items[10]->Get("none"), nullptr);
  EXPECT_EQ(items[11]->kind, Kind::kTuple);
}

TEST(PickleReader, ReadsObjectsTensorsAndTheirSpecialForms) {
  PickleWriter writer;
  writer.Object("__torch__.models", "Net");
  writer.String("training").Raw("\x89");
  writer.String("w").Tensor("HalfStorage", "3", 100, 4, {2, 3}, {3, 1});
  writer.String("dims").Global("torch.jit._pickle", "build_intlist");
  writer.Raw("(](").Int(5).Raw("etR");
  writer.String("place").Global("torch", "device").Raw("(");
  writer.String("cpu").Raw("tR");
  writer.String("color").Global("__torch__", "Color").Int(2).Raw("R");
  writer.String("table").Global("torch.jit._pickle", "restore_type_tag");
  writer.Raw("(}(").String("gain").Tensor("FloatStorage", "4", 1, 0, {}, {});
  writer.Raw("u").String("Dict[str, Tensor]").Raw("tR");
  writer.EndObject();
  auto pickle = Read(writer.Finish());
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const PickleValue& net = *pickle->root;
  EXPECT_EQ(net.text, "__torch__.models.Net");
  const PickledTensor& w = *net.Get("w")->tensor;
  EXPECT_EQ(w.dtype, DType::kF16);
  EXPECT_EQ(w.storage_key, "3");
  EXPECT_EQ(w.storage_numel, 100);
  EXPECT_EQ(w.storage_bytes, 200);
  EXPECT_EQ(w.offset, 4);
  EXPECT_THAT(w.sizes, ElementsAre(2, 3));
  EXPECT_THAT(w.strides, ElementsAre(3, 1));
  EXPECT_EQ(net.Get("dims")->items.at(0)->integer, 5);
  EXPECT_EQ(net.Get("dims")->type_tag, "intlist");
  EXPECT_EQ(net.Get("place")->text, "cpu");
  EXPECT_EQ(net.Get("color")->kind, Kind::kEnum);
  EXPECT_EQ(net.Get("color")->items.at(0)->integer, 2);
  EXPECT_EQ(net.Get("table")->type_tag, "Dict[str, Tensor]");
  auto tensors = FlattenTensors(net);
  ASSERT_TRUE(tensors.ok());
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "w");
  EXPECT_EQ((*tensors)[1].name, "table.gain");
}

TEST(PickleReader, FlattensModulesListsAndTiesInOrder) {
  PickleWriter writer;
  writer.Object("__torch__", "Net").String("b").Object("__torch__", "Sub");
  writer.String("weight").Tensor("FloatStorage", "0", 6, 0, {6}, {1});
  writer.EndObject().Raw("q\x01");
  writer.String("a").Raw("h\x01");  // the same module again
  writer.String("list").Raw("](");
  writer.Tensor("FloatStorage", "1", 1, 0, {}, {});
  writer.Tensor("FloatStorage", "0", 6, 3, {3}, {1}).Raw("e");
  writer.EndObject();
  auto pickle = Read(writer.Finish());
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  auto tensors = FlattenTensors(*pickle->root);
  ASSERT_TRUE(tensors.ok());
  std::vector<std::string> names;
  for (const NamedTensor& tensor : *tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("b.weight", "a.weight", "list.0", "list.1"));
  EXPECT_EQ((*tensors)[0].tensor, (*tensors)[1].tensor);
  EXPECT_EQ((*tensors)[3].tensor->offset, 3);
}

TEST(PickleReader, SkeletonHasOneElementPerStorage) {
  PickleWriter writer;
  writer.Object("__torch__", "Net");
  writer.String("w").Tensor("FloatStorage", "0", 70000, 300, {100, 600},
                            {600, 1});
  writer.String("n").Int(600);
  writer.String("e").Tensor("LongStorage", "1", 0, 0, {0, 4}, {4, 1});
  writer.String("s").Tensor("BoolStorage", "2", 1, 0, {}, {});
  writer.EndObject();
  const std::string bytes = writer.Finish();
  auto pickle = Read(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  auto skeleton = Read(SkeletonPickle(bytes, *pickle));
  ASSERT_TRUE(skeleton.ok()) << skeleton.status();
  const PickledTensor& w = *skeleton->root->Get("w")->tensor;
  EXPECT_EQ(w.storage_numel, 1);
  EXPECT_EQ(w.offset, 0);
  EXPECT_THAT(w.sizes, ElementsAre(100, 600));
  EXPECT_THAT(w.strides, ElementsAre(0, 0));
  EXPECT_EQ(skeleton->root->Get("n")->integer, 600);
  EXPECT_EQ(skeleton->root->Get("e")->tensor->storage_numel, 0);
  EXPECT_EQ(skeleton->root->Get("s")->tensor->storage_numel, 1);
}

TEST(PickleReader, RefusesWhatCouldRunCode) {
  const std::pair<std::string, std::string> globals[] = {
      {"os", "system"},
      {"builtins", "eval"},
      {"posix", "system"},
      {"__builtin__", "exec"},
      {"torch", "load"},
      {"torch._utils", "_rebuild_parameter"},
      {"__torch__.torch.classes.evil", "Thing"},
      {"__torch__x", "y"},
      {"torch.jit._pickle", "other"},
  };
  for (const auto& [module, name] : globals)
    ExpectError(PickleWriter().Global(module, name).Raw("(tR").Finish(),
                absl::StatusCode::kPermissionDenied, name);
  // State other than a dict goes to __setstate__.
  PickleWriter writer;
  writer.Global("__torch__", "M").Raw(")\x81").Int(1).Raw("b");
  ExpectError(writer.Finish(), absl::StatusCode::kPermissionDenied,
              "__setstate__");
  // Opcodes that import, call or build in other ways.
  for (char opcode : std::string("iobIpPdlSTUV012F"))
    EXPECT_FALSE(Read(PickleWriter().Raw("()").Raw({opcode}).Finish()).ok());
  for (const char* global : {"_rebuild_qtensor", "_rebuild_sparse_tensor"})
    ExpectError(PickleWriter().Global("torch._utils", global).Finish(),
                absl::StatusCode::kUnimplemented, "dense");
  ExpectError(PickleWriter().Tensor("QInt8Storage", "0", 1, 0, {}, {}).Finish(),
              absl::StatusCode::kUnimplemented, "QInt8Storage");
}

TEST(PickleReader, TensorsStayInsideTheirStorage) {
  const int64_t huge = int64_t{1} << 62;
  const auto tensor = [](int64_t numel, int64_t offset,
                         std::vector<int64_t> sizes,
                         std::vector<int64_t> strides) {
    return PickleWriter()
        .Tensor("FloatStorage", "0", numel, offset, sizes, strides)
        .Finish();
  };
  EXPECT_TRUE(Read(tensor(6, 0, {2, 3}, {3, 1})).ok());
  EXPECT_TRUE(Read(tensor(1, 0, {1000, 1000}, {0, 0})).ok());
  EXPECT_TRUE(Read(tensor(0, 0, {0, huge}, {1, 1})).ok());
  for (const std::string& bytes :
       {tensor(5, 0, {2, 3}, {3, 1}), tensor(6, 1, {2, 3}, {3, 1}),
        tensor(6, -1, {2, 3}, {3, 1}), tensor(6, 0, {-2, 3}, {3, 1}),
        tensor(6, 0, {2, 3}, {-3, 1}), tensor(6, 0, {huge, 8}, {0, 0}),
        tensor(6, 0, {huge, 8}, {8, 1}), tensor(6, huge, {2}, {huge}),
        tensor(-6, 0, {2}, {1}), tensor(huge, 0, {2}, {1}),
        tensor(6, 0, {2, 3}, {3}), tensor(0, 0, {1}, {1})})
    EXPECT_EQ(Read(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* key : {"", "../x", "a/b", " "})
    EXPECT_FALSE(
        Read(PickleWriter().Tensor("FloatStorage", key, 1, 0, {}, {}).Finish())
            .ok());
}

TEST(PickleReader, RefusesMalformedPickles) {
  for (const std::string& bytes : std::vector<std::string>{
           "",
           "\x80",
           "\x80\x02",
           "\x80\x04N.",
           "N.",
           "\x80\x02.",
           "\x80\x02NN.",
           "\x80\x02N.N",
           "\x80\x02(N.",
           "\x80\x02t.",
           "\x80\x02h\x05.",
           "\x80\x02q\x01N.",
           "\x80\x02NNa.",
           "\x80\x02N(Ne.",
           "\x80\x02}(NNNu.",
           "\x80\x02X\xff\xff\xff\xffhi.",
           "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi.",
           "\x80\x02NR.",
           "\x80\x02NQ.",
           "\x80\x02)Q.",
           "\x80\x02NN\x81.",
           "\x80\x02N}b.",
           "\x80\x02\x87.",
           "\x80\x02\x8a\x09"
           "123456789.",
           "\x80\x02"
           "cabc",
           "\x80\x02(N\x85.",
           "\x80\x02N(\x85."})
    EXPECT_FALSE(Read(bytes).ok()) << bytes;
}

TEST(PickleReader, LimitsNestingAndLoops) {
  for (const std::string& opcodes :
       {std::string(500, '('), "N" + std::string(500, '\x85')})
    ExpectError("\x80\x02" + opcodes + ".", absl::StatusCode::kInvalidArgument,
                "nested");
  // Lists made first and then put into each other from the outside in.
  std::string chain = "\x80\x02(";
  for (int i = 0; i < 1000; ++i) {
    chain += "]r";
    testing::PutLittle(chain, static_cast<uint64_t>(i), 4);
    if (i == 0) continue;
    chain += 'j';
    testing::PutLittle(chain, static_cast<uint64_t>(i - 1), 4);
    chain += 'j';
    testing::PutLittle(chain, static_cast<uint64_t>(i), 4);
    chain += 'a';
  }
  ExpectError(chain + "t.", absl::StatusCode::kInvalidArgument, "nested");
  ExpectError(
      "\x80\x02]q\x01h\x01"
      "a.",
      absl::StatusCode::kInvalidArgument, "contains itself");
  // Sharing makes few bytes name very many tensors.
  PickleWriter writer;
  writer.Raw("(").Tensor("FloatStorage", "0", 1, 0, {}, {}).Raw("tq").Raw({1});
  for (int i = 0; i < 60; ++i) writer.Raw("h\x01h\x01\x86q\x01");
  auto pickle = Read(writer.Raw(std::string(59, '\x86') + "\x86").Finish());
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_FALSE(FlattenTensors(*pickle->root, 1000).ok());
  EXPECT_FALSE(ReadPickle("\x80\x02(NNNt.", "test", {.max_values = 3}).ok());
  EXPECT_FALSE(ReadPickle("\x80\x02N.", "test", {.max_bytes = 3}).ok());
}

TEST(PickleReader, SurvivesRandomDamage) {
  const std::string whole = testing::ScriptEntries()[0].data;
  ASSERT_TRUE(Read(whole).ok()) << Read(whole).status();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(Read(whole.substr(0, size)).ok());
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    auto pickle = Read(bytes);
    if (!pickle.ok()) continue;
    (void)FlattenTensors(*pickle->root);
    EXPECT_TRUE(Read(SkeletonPickle(bytes, *pickle)).ok());
  }
}

}  // namespace
}  // namespace tp
