#include "ir/sha256.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "llvm/ADT/StringExtras.h"

namespace tp {
namespace {

// The examples of FIPS 180-4.
TEST(Sha256, KnownDigests) {
  Sha256 empty;
  EXPECT_EQ(empty.FinishHex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 abc;
  abc.Update("abc");
  EXPECT_EQ(abc.FinishHex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, EveryLengthAndCutEqualsThePortableOne) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(1000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (size_t size = 0; size <= 200; ++size) {
    const llvm::ArrayRef<uint8_t> part(bytes.data(), size);
    const std::string expected =
        llvm::toHex(llvm::SHA256::hash(part), /*LowerCase=*/true);
    for (size_t cut : {size_t{0}, size / 3, size / 2, size}) {
      Sha256 hasher;
      hasher.Update(part.take_front(cut));
      hasher.Update(part.drop_front(cut));
      EXPECT_EQ(hasher.FinishHex(), expected) << size << " cut at " << cut;
    }
  }
  Sha256 hasher;
  hasher.Update(bytes);
  EXPECT_EQ(hasher.FinishHex(),
            llvm::toHex(llvm::SHA256::hash(bytes), /*LowerCase=*/true));
}

}  // namespace
}  // namespace tp
