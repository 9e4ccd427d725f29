#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/comm/reduce_kernels.h"
#include "tests/unit/comm_reference.h"

namespace tp {
namespace {

Bytes Reduce(ReduceKernel kernel, const std::vector<Bytes>& inputs,
             int64_t count, size_t num_targets = 1) {
  std::vector<const std::byte*> sources;
  for (const Bytes& input : inputs) sources.push_back(input.data());
  std::vector<Bytes> results(num_targets, Bytes(inputs[0].size()));
  std::vector<std::byte*> targets;
  for (Bytes& result : results) targets.push_back(result.data());
  kernel(sources, absl::MakeSpan(targets), count);
  for (const Bytes& result : results) EXPECT_EQ(result, results[0]);
  return results[0];
}

TEST(ReduceKernels, EveryVariantEqualsTheReference) {
  for (const ReduceKernelVariant& variant : RunnableReduceKernelVariants()) {
    for (const CommDType dtype : kAllCommDTypes) {
      for (const ReduceOp op : kAllReduceOps) {
        const ReduceKernel kernel = variant.find(dtype, op);
        for (const int64_t count : {1, 2, 7, 15, 16, 17, 63, 64, 65, 129, 1000})
          for (const int num_sources : {1, 2, 3, 8}) {
            std::vector<Bytes> inputs;
            for (int s = 0; s < num_sources; ++s) {
              inputs.push_back(RandomElements(dtype, count, s * 1000 + count));
            }
            ASSERT_EQ(Reduce(kernel, inputs, count),
                      ReduceReference(dtype, op, inputs))
                << variant.name << " " << Name(dtype) << " " << Name(op) << " "
                << count << " elements, " << num_sources << " sources";
          }
      }
    }
  }
}

TEST(ReduceKernels, WritesEveryTargetAndMayWriteOverASource) {
  constexpr int64_t kCount = 1003;
  std::vector<Bytes> inputs;
  for (int s = 0; s < 3; ++s) {
    inputs.push_back(RandomElements(CommDType::kF32, kCount, s));
  }
  const Bytes expected =
      ReduceReference(CommDType::kF32, ReduceOp::kSum, inputs);
  const ReduceKernel kernel = FindReduceKernel(CommDType::kF32, ReduceOp::kSum);
  EXPECT_EQ(Reduce(kernel, inputs, kCount, 3), expected);
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;
  for (Bytes& input : inputs) {
    sources.push_back(input.data());
    targets.push_back(input.data());
  }
  kernel(sources, absl::MakeSpan(targets), kCount);
  for (const Bytes& input : inputs) EXPECT_EQ(input, expected);
}

TEST(ReduceKernels, TakesUnalignedBuffersAndWritesNoFurther) {
  constexpr int64_t kCount = 77;
  for (const ReduceKernelVariant& variant : RunnableReduceKernelVariants()) {
    const Bytes a = RandomElements(CommDType::kF32, kCount + 1, 1);
    const Bytes b = RandomElements(CommDType::kF32, kCount + 1, 2);
    Bytes out((kCount + 3) * 4, std::byte{0x5a});
    const std::vector<const std::byte*> sources = {a.data() + 4, b.data() + 1};
    std::vector<std::byte*> targets = {out.data() + 7};
    variant.find(CommDType::kF32, ReduceOp::kSum)(
        sources, absl::MakeSpan(targets), kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      float x, y, sum;
      std::memcpy(&x, a.data() + 4 + i * 4, 4);
      std::memcpy(&y, b.data() + 1 + i * 4, 4);
      std::memcpy(&sum, out.data() + 7 + i * 4, 4);
      const float expected = x + y;
      ASSERT_EQ(std::memcmp(&sum, &expected, 4), 0) << variant.name << " " << i;
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (i < 7 || i >= 7 + kCount * 4) {
        ASSERT_EQ(out[i], std::byte{0x5a}) << variant.name << " " << i;
      }
    }
  }
}

// All 65536 bit patterns through load and store.
TEST(ReduceKernels, SmallFloatsConvertExactly) {
  for (const CommDType dtype : {CommDType::kF16, CommDType::kBF16}) {
    const SmallFloat format =
        dtype == CommDType::kF16 ? kF16Format : kBF16Format;
    Bytes all(65536 * 2);
    for (int i = 0; i < 65536; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i);
      std::memcpy(all.data() + 2 * i, &bits, 2);
    }
    for (const ReduceKernelVariant& variant : RunnableReduceKernelVariants()) {
      const Bytes copy =
          Reduce(variant.find(dtype, ReduceOp::kSum), {all}, 65536);
      for (int i = 0; i < 65536; ++i) {
        uint16_t bits;
        std::memcpy(&bits, copy.data() + 2 * i, 2);
        if ((i & 0x7fff) > format.infinity()) {
          ASSERT_TRUE(std::isnan(format.Decode(bits)))
              << variant.name << " " << i;
        } else {
          ASSERT_EQ(bits, i) << variant.name << " " << Name(dtype);
        }
      }
    }
  }
}

// Sums of pairs hit ties, carries into the exponent, overflow and subnormals.
TEST(ReduceKernels, SmallFloatSumsRoundToNearestEven) {
  for (const CommDType dtype : {CommDType::kF16, CommDType::kBF16}) {
    constexpr int64_t kCount = 65536;
    Bytes a(kCount * 2);
    for (int seed = 0; seed < 4; ++seed) {
      std::mt19937_64 random(seed);
      Bytes b(kCount * 2);
      for (int64_t i = 0; i < kCount; ++i) {
        const SmallFloat format =
            dtype == CommDType::kF16 ? kF16Format : kBF16Format;
        uint16_t x = static_cast<uint16_t>(i);
        if ((x & 0x7fff) >= format.infinity()) x = 0x0001;
        uint16_t y = static_cast<uint16_t>(random());
        if ((y & 0x7fff) >= format.infinity()) {
          y = static_cast<uint16_t>(format.infinity() - 1);
        }
        // Near in exponent, so that the sum needs rounding.
        if (seed > 1) y = static_cast<uint16_t>(x ^ (random() & 0x87ff));
        if ((y & 0x7fff) >= format.infinity()) y = x;
        std::memcpy(a.data() + 2 * i, &x, 2);
        std::memcpy(b.data() + 2 * i, &y, 2);
      }
      const Bytes expected = ReduceReference(dtype, ReduceOp::kSum, {a, b});
      for (const ReduceKernelVariant& variant :
           RunnableReduceKernelVariants()) {
        ASSERT_EQ(Reduce(variant.find(dtype, ReduceOp::kSum), {a, b}, kCount),
                  expected)
            << variant.name << " " << Name(dtype) << " " << seed;
      }
    }
  }
}

TEST(ReduceKernels, SixteenBitSumsRoundOnce) {
  // 256 + 1 is no bf16, but 256 + 1 + 1 is: rounding in between loses both.
  const auto element = [](float value) {
    const uint16_t bits = kBF16Format.Encode(value);
    Bytes bytes(2);
    std::memcpy(bytes.data(), &bits, 2);
    return bytes;
  };
  const ReduceKernel kernel =
      FindReduceKernel(CommDType::kBF16, ReduceOp::kSum);
  EXPECT_EQ(Reduce(kernel, {element(256), element(1), element(1)}, 1),
            element(258));
}

TEST(ReduceKernels, MaxAndMinPropagateNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceKernelVariant& variant : RunnableReduceKernelVariants()) {
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      for (int place = 0; place < 3; ++place) {
        float values[3] = {1, 2, 3};
        values[place] = nan;
        std::vector<Bytes> inputs(3, Bytes(4));
        for (int s = 0; s < 3; ++s) {
          std::memcpy(inputs[s].data(), &values[s], 4);
        }
        const Bytes result =
            Reduce(variant.find(CommDType::kF32, op), inputs, 1);
        float value;
        std::memcpy(&value, result.data(), 4);
        EXPECT_TRUE(std::isnan(value)) << variant.name << " " << place;
      }
    }
  }
}

TEST(ReduceKernels, InfinityAndSignedZeroAreKept) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float a[4] = {infinity, -0.0f, -0.0f, -infinity};
  const float b[4] = {1, -0.0f, 0.0f, -1};
  std::vector<Bytes> inputs(2, Bytes(16));
  std::memcpy(inputs[0].data(), a, 16);
  std::memcpy(inputs[1].data(), b, 16);
  const Bytes result =
      Reduce(FindReduceKernel(CommDType::kF32, ReduceOp::kSum), inputs, 4);
  float sum[4];
  std::memcpy(sum, result.data(), 16);
  EXPECT_EQ(sum[0], infinity);
  EXPECT_TRUE(std::signbit(sum[1]));
  EXPECT_FALSE(std::signbit(sum[2]));
  EXPECT_EQ(sum[3], -infinity);
}

}  // namespace
}  // namespace tp
