#include "ir/weight_source.h"

#include <cstring>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

using ::testing::ElementsAre;

// What CopyBlock must do, element by element.
std::string NaiveCopy(const WeightInfo& weight, const std::string& storage,
                      const std::vector<DimIntervals>& block) {
  std::vector<std::vector<int64_t>> picked;
  for (const DimIntervals& dim : block) {
    picked.emplace_back();
    for (const Interval& part : dim)
      for (int64_t i = 0; i < part.extent; ++i)
        picked.back().push_back(part.start + i);
  }
  const auto item = static_cast<size_t>(ByteSize(weight.dtype));
  std::string out;
  std::vector<size_t> index(block.size(), 0);
  for (int64_t n = BlockElements(block); n > 0; --n) {
    int64_t at = weight.offset;
    for (size_t d = 0; d < block.size(); ++d)
      at += picked[d][index[d]] * weight.strides[d];
    out += storage.substr(static_cast<size_t>(at) * item, item);
    for (size_t d = block.size(); d-- > 0;) {
      if (++index[d] < picked[d].size()) break;
      index[d] = 0;
    }
  }
  return out;
}

WeightInfo Weight(DType dtype, llvm::ArrayRef<int64_t> sizes,
                  llvm::ArrayRef<int64_t> strides, int64_t offset) {
  WeightInfo weight;
  weight.name = "w";
  weight.dtype = dtype;
  weight.sizes.assign(sizes.begin(), sizes.end());
  weight.strides.assign(strides.begin(), strides.end());
  weight.offset = offset;
  return weight;
}

std::string RandomBytes(size_t size, std::mt19937& random) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

// Random layouts (permuted, expanded, with gaps), random intervals, every
// element size, aligned and not.
TEST(CopyBlock, EqualsAnElementwiseCopy) {
  std::mt19937 random(3);
  const DType dtypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI8};
  for (int round = 0; round < 4000; ++round) {
    const DType dtype = dtypes[random() % 4];
    const size_t ndim = random() % 5;
    std::vector<int64_t> sizes(ndim), strides(ndim);
    std::vector<size_t> order(ndim);
    std::iota(order.begin(), order.end(), 0);
    if (random() % 2) std::shuffle(order.begin(), order.end(), random);
    int64_t stride = 1;
    for (size_t k = ndim; k-- > 0;) {
      sizes[order[k]] = 1 + random() % (round % 10 == 0 ? 70 : 6);
      strides[order[k]] = random() % 6 == 0 ? 0 : stride;
      stride *= sizes[order[k]] + (random() % 4 == 0 ? random() % 3 : 0);
      if (stride > 200000) break;
    }
    if (stride > 200000) continue;
    const int64_t offset = random() % 3;
    std::vector<DimIntervals> block;
    for (int64_t size : sizes) {
      DimIntervals dim;
      int64_t start = 0;
      do {
        if (random() % 3) start += random() % (size - start + 1);
        const int64_t extent =
            random() % 2 ? size - start : random() % (size - start + 1);
        dim.push_back({start, extent});
        start += extent;
      } while (start < size && random() % 2);
      block.push_back(dim);
    }
    const WeightInfo weight = Weight(dtype, sizes, strides, offset);
    const auto item = static_cast<size_t>(ByteSize(dtype));
    const std::string storage =
        RandomBytes(static_cast<size_t>(stride + offset + 1) * item, random);
    const std::string want = NaiveCopy(weight, storage, block);
    // Odd addresses as they occur in a zip file that others have rewritten.
    const size_t shift = random() % 2;
    std::vector<uint64_t> room(storage.size() / 8 + 2);
    auto* data = reinterpret_cast<char*>(room.data()) + shift;
    std::memcpy(data, storage.data(), storage.size());
    const Bytes bytes(reinterpret_cast<const uint8_t*>(data), storage.size(),
                      nullptr);
    std::vector<uint64_t> got(want.size() / 8 + 1, ~uint64_t{0});
    const absl::Status status =
        CopyBlock(weight, bytes, block, got.data(), want.size());
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0) << round;
  }
}

TEST(CopyBlock, TakesSeveralIntervals) {
  // [Q|K|V] of 2 heads x 2 rows: head 1 of each.
  std::vector<float> fused(12);
  std::iota(fused.begin(), fused.end(), 0.f);
  const Bytes bytes(reinterpret_cast<const uint8_t*>(fused.data()), 48,
                    nullptr);
  const WeightInfo weight = Weight(DType::kF32, {12, 1}, {1, 1}, 0);
  const std::vector<DimIntervals> block = {{{2, 2}, {6, 2}, {10, 2}}, {{0, 1}}};
  EXPECT_EQ(BlockElements(block), 6);
  std::vector<float> out(6);
  ASSERT_TRUE(CopyBlock(weight, bytes, block, out.data(), 24).ok());
  EXPECT_THAT(out, ElementsAre(2, 3, 6, 7, 10, 11));
}

TEST(CopyBlock, EmptyAndScalarBlocks) {
  const float one = 7;
  const Bytes bytes(reinterpret_cast<const uint8_t*>(&one), 4, nullptr);
  float out = 0;
  EXPECT_TRUE(
      CopyBlock(Weight(DType::kF32, {}, {}, 0), bytes, {}, &out, 4).ok());
  EXPECT_EQ(out, 7);
  const std::vector<DimIntervals> empty = {{{3, 0}}, {{0, 5}}};
  EXPECT_TRUE(
      CopyBlock(Weight(DType::kF32, {3, 5}, {5, 1}, 0), {}, empty, &out, 0)
          .ok());
}

TEST(CopyBlock, RefusesWhatDoesNotFit) {
  const std::string data(24, 'x');
  const Bytes bytes(reinterpret_cast<const uint8_t*>(data.data()), 24, nullptr);
  std::vector<char> out(64);
  const auto copy = [&](const WeightInfo& weight,
                        std::vector<DimIntervals> block, size_t size) {
    return CopyBlock(weight, bytes, block, out.data(), size).code();
  };
  const WeightInfo weight = Weight(DType::kF32, {2, 3}, {3, 1}, 0);
  const auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(copy(weight, {{{0, 2}}, {{0, 3}}}, 24), absl::StatusCode::kOk);
  EXPECT_EQ(copy(weight, {{{0, 2}}, {{0, 3}}}, 20), kBad);
  EXPECT_EQ(copy(weight, {{{0, 3}}, {{0, 2}}}, 24), kBad);
  EXPECT_EQ(copy(weight, {{{1, 2}}, {{0, 3}}}, 24), kBad);
  EXPECT_EQ(copy(weight, {{{-1, 2}}, {{0, 3}}}, 24), kBad);
  EXPECT_EQ(copy(weight, {{{0, 2}}}, 8), kBad);
  EXPECT_EQ(copy(weight, {{{INT64_MAX, 1}}, {{0, 3}}}, 12), kBad);
  const WeightInfo shifted = Weight(DType::kF32, {2, 3}, {3, 1}, 1);
  EXPECT_EQ(copy(shifted, {{{0, 2}}, {{0, 3}}}, 24), kBad);
  EXPECT_EQ(copy(shifted, {{{0, 1}}, {{0, 3}}}, 12), absl::StatusCode::kOk);
  const WeightInfo huge =
      Weight(DType::kF32, {INT64_MAX, 3}, {INT64_MAX, 1}, 0);
  EXPECT_EQ(copy(huge, {{{5, 1}}, {{0, 3}}}, 12), kBad);
}

TEST(WeightInfo, KnowsItsSizeAndLayout) {
  const WeightInfo plain = Weight(DType::kBF16, {4, 1, 3}, {3, 99, 1}, 0);
  EXPECT_EQ(plain.NumElements(), 12);
  EXPECT_EQ(plain.NumBytes(), 24);
  EXPECT_TRUE(plain.IsContiguous());
  EXPECT_FALSE(Weight(DType::kF32, {2, 3}, {1, 2}, 0).IsContiguous());
  EXPECT_FALSE(Weight(DType::kF32, {2, 3}, {0, 0}, 0).IsContiguous());
  EXPECT_TRUE(Weight(DType::kF32, {0, 3}, {1, 2}, 0).IsContiguous());
}

}  // namespace
}  // namespace tp
