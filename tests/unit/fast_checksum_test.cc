#include "ir/fast_checksum.h"

#include <random>
#include <set>

#include "gtest/gtest.h"

namespace tp {
namespace {

std::string Sum(const std::vector<uint8_t>& bytes) {
  FastChecksum sum;
  sum.Update(bytes);
  return sum.FinishHex();
}

std::vector<uint8_t> RandomBytes(size_t size) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(FastChecksumTest, DoesNotDependOnHowBytesCome) {
  const std::vector<uint8_t> bytes = RandomBytes((5 << 19) + 123);
  const std::string expected = Sum(bytes);
  EXPECT_EQ(expected.size(), 16u);
  std::mt19937 random(1);
  for (size_t largest : {1000u, 1u << 20, 3u << 20}) {
    FastChecksum sum;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size =
          std::min<size_t>(1 + random() % largest, bytes.size() - at);
      sum.Update(llvm::ArrayRef(bytes).slice(at, size));
      at += size;
    }
    EXPECT_EQ(sum.FinishHex(), expected) << largest;
  }
}

TEST(FastChecksumTest, ShowsEveryChange) {
  std::vector<uint8_t> bytes = RandomBytes((2 << 20) + 17);
  std::set<std::string> sums = {Sum(bytes)};
  for (size_t at : {size_t{0}, size_t{1} << 20, bytes.size() - 1}) {
    bytes[at] ^= 1;
    EXPECT_TRUE(sums.insert(Sum(bytes)).second) << at;
  }
  bytes.push_back(0);
  EXPECT_TRUE(sums.insert(Sum(bytes)).second);
  bytes.resize(1 << 20);
  EXPECT_TRUE(sums.insert(Sum(bytes)).second);
  EXPECT_TRUE(sums.insert(Sum({})).second);
}

}  // namespace
}  // namespace tp
