#include "ir/entry_weights.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text.h"

namespace tp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Weights of four bytes, by name, each of one letter.
class Letters : public WeightSource {
 public:
  explicit Letters(const std::map<std::string, char>& letters) {
    for (const auto& [name, letter] : letters) {
      WeightInfo info;
      info.name = name;
      info.sizes = {4};
      info.strides = {1};
      info.dtype = DType::kU8;
      info.storage = name;
      info.storage_bytes = 4;
      bytes_[name] = std::make_shared<std::string>(4, letter);
      Add(std::move(info));
    }
  }
  absl::StatusOr<Bytes> View(const WeightInfo& weight) const override {
    const auto& text = bytes_.at(weight.name);
    return Bytes(reinterpret_cast<const uint8_t*>(text->data()), 4, text);
  }

 private:
  std::map<std::string, std::shared_ptr<std::string>> bytes_;
};

std::shared_ptr<const WeightSource> Source(
    const std::map<std::string, char>& letters) {
  return std::make_shared<Letters>(letters);
}

std::unique_ptr<Module> Read(const std::string& second) {
  auto module = Parse(R"(tpir 1
mesh @m = [tp: 1]
func @encode(%e: u8[4] buffer "embed", %w: u8[4] param "w",
             %c: u8[4] const "constant.0") -> u8[4] {
  return %w
}
func @step()" + second + R"() -> u8[4] {
  return %v
}
)",
                      "module");
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

char LetterOf(const WeightSource& source, const std::string& name) {
  auto info = source.Get(name);
  EXPECT_TRUE(info.ok()) << info.status();
  if (!info.ok()) return '?';
  auto bytes = source.View(**info);
  return bytes.ok() ? static_cast<char>(bytes->data()[0]) : '?';
}

TEST(EntryWeightsTest, OneNameForEachAndConstantsApart) {
  auto module = Read(R"(%v: u8[4] param "head" alias "embed",
      %w: u8[4] buffer "w", %k: u8[4] const "constant.0")");
  const std::vector<std::shared_ptr<const WeightSource>> sources = {
      Source({{"embed", 'e'}, {"w", 'w'}, {"constant.0", 'x'}}),
      Source({{"head", 'e'}, {"w", 'w'}, {"constant.0", 'y'}})};
  auto shared = ShareWeights(*module, sources);
  ASSERT_TRUE(shared.ok()) << shared.status();
  for (const char* function : {"encode", "step"}) {
    const auto& infos = module->function(function)->arguments();
    EXPECT_EQ(infos[0].name, "embed");
    EXPECT_THAT(infos[0].aliases, ElementsAre("head"));
    // Trained in one, so a parameter everywhere.
    EXPECT_EQ(infos[0].kind, ArgumentKind::kParameter);
    EXPECT_EQ(infos[1].kind, ArgumentKind::kParameter);
  }
  EXPECT_EQ(module->function("step")->arguments()[2].name, "step.constant.0");
  EXPECT_EQ((*shared)->weights().size(), 4);
  EXPECT_EQ(LetterOf(**shared, "embed"), 'e');
  EXPECT_EQ(LetterOf(**shared, "constant.0"), 'x');
  EXPECT_EQ(LetterOf(**shared, "step.constant.0"), 'y');
}

TEST(EntryWeightsTest, OtherContentTypeOrTiesAreErrors) {
  const auto first = Source({{"embed", 'e'}, {"w", 'w'}, {"constant.0", 'x'}});
  auto module = Read(R"(%v: u8[4] param "w")");
  auto shared = ShareWeights(*module, {first, Source({{"w", 'v'}})});
  EXPECT_EQ(shared.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shared.status().message()),
              HasSubstr("'w' of @encode and @step has two contents"));
  module = Read(R"(%v: u8[4] param "w" alias "embed")");
  shared = ShareWeights(*module, {first, Source({{"w", 'w'}})});
  EXPECT_THAT(std::string(shared.status().message()),
              HasSubstr("one weight in one entry and two in another"));
}

}  // namespace
}  // namespace tp
