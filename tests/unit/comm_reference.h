// Collectives spelled out element by element, to compare communicators with.
#ifndef TP_TESTS_UNIT_COMM_REFERENCE_H_
#define TP_TESTS_UNIT_COMM_REFERENCE_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "runtime/comm/communicator.h"

namespace tp {

using Bytes = std::vector<std::byte>;

inline constexpr CommDType kAllCommDTypes[] = {
    CommDType::kF32, CommDType::kF64, CommDType::kF16, CommDType::kBF16,
    CommDType::kI64, CommDType::kI32, CommDType::kI16, CommDType::kI8,
    CommDType::kU8,  CommDType::kBool};
inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::kSum, ReduceOp::kMax,
                                             ReduceOp::kMin};

// A 16-bit float by its numbers of bits, decoded and encoded by arithmetic.
struct SmallFloat {
  int exponent_bits;
  int fraction_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int infinity() const { return ((1 << exponent_bits) - 1) << fraction_bits; }

  float Decode(uint16_t bits) const {
    const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    const int magnitude = bits & 0x7fff;
    if (magnitude > infinity()) return std::numeric_limits<float>::quiet_NaN();
    if (magnitude == infinity()) return sign * INFINITY;
    const int exponent = magnitude >> fraction_bits;
    const int fraction = magnitude & ((1 << fraction_bits) - 1);
    if (exponent == 0) {
      return sign * std::ldexp(static_cast<float>(fraction),
                               1 - bias() - fraction_bits);
    }
    return sign *
           std::ldexp(static_cast<float>(fraction + (1 << fraction_bits)),
                      exponent - bias() - fraction_bits);
  }

  uint16_t Encode(float value) const {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return sign | infinity() | 1;
    if (std::isinf(value)) return sign | infinity();
    const double magnitude = std::abs(static_cast<double>(value));
    if (magnitude == 0) return sign;
    const int exponent = std::max(std::ilogb(magnitude), 1 - bias());
    // In units of the last place; nearbyint rounds ties to even.
    const int units = static_cast<int>(
        std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent)));
    // A carry out of the fraction runs into the exponent, as it should.
    const int bits = ((exponent + bias() - 1) << fraction_bits) + units;
    return sign | static_cast<uint16_t>(std::min(bits, infinity()));
  }
};
inline constexpr SmallFloat kF16Format = {5, 10};
inline constexpr SmallFloat kBF16Format = {8, 7};

// Calls visit(T{}) with the type an element of `dtype` is stored as.
template <class Visit>
auto VisitStorage(CommDType dtype, const Visit& visit) {
  switch (dtype) {
    case CommDType::kF32:
      return visit(float{});
    case CommDType::kF64:
      return visit(double{});
    case CommDType::kF16:
    case CommDType::kBF16:
      return visit(uint16_t{});
    case CommDType::kI64:
      return visit(int64_t{});
    case CommDType::kI32:
      return visit(int32_t{});
    case CommDType::kI16:
      return visit(int16_t{});
    case CommDType::kI8:
      return visit(int8_t{});
    case CommDType::kU8:
    case CommDType::kBool:
      return visit(uint8_t{});
  }
  return visit(uint8_t{});
}

// Numbers of many magnitudes, so that the order of a sum shows in its bits; no
// NaN and no infinity. The same for the same arguments on every rank.
inline Bytes RandomElements(CommDType dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + 12345);
  Bytes bytes(count * ByteSize(dtype));
  VisitStorage(dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < count; ++i) {
      T value;
      if constexpr (std::is_floating_point_v<T>) {
        const double fraction =
            static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63;
        value = static_cast<T>(
            std::ldexp(fraction, static_cast<int>(random() % 24)));
      } else if (dtype == CommDType::kF16) {
        const uint64_t r = random();  // An exponent below the largest ones.
        value = static_cast<T>((r & 0x83ff) | ((r >> 20) % 26) << 10);
      } else if (dtype == CommDType::kBF16) {
        const uint64_t r = random();
        value = static_cast<T>((r & 0x807f) | (110 + (r >> 20) % 24) << 7);
      } else if (dtype == CommDType::kBool) {
        value = static_cast<T>(random() % 3 == 0 ? random() % 256 : 0);
      } else {
        value = static_cast<T>(random());
      }
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

template <class T>
T ReduceTwo(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceOp::kSum) return a + b;
    if (std::isnan(a) || std::isnan(b)) {
      return std::numeric_limits<T>::quiet_NaN();
    }
  } else if (op == ReduceOp::kSum) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  if (op == ReduceOp::kMax) return a > b ? a : b;
  return a < b ? a : b;
}

// Element-wise, in the order of `inputs`.
inline Bytes ReduceReference(CommDType dtype, ReduceOp op,
                             const std::vector<Bytes>& inputs) {
  Bytes result(inputs[0].size());
  VisitStorage(dtype, [&]<class T>(T) {
    const SmallFloat format =
        dtype == CommDType::kF16 ? kF16Format : kBF16Format;
    for (size_t at = 0; at < result.size(); at += sizeof(T)) {
      const auto load = [&](size_t rank) {
        T value;
        std::memcpy(&value, inputs[rank].data() + at, sizeof(T));
        return value;
      };
      T value;
      if (dtype == CommDType::kF16 || dtype == CommDType::kBF16) {
        float sum = format.Decode(load(0));
        for (size_t rank = 1; rank < inputs.size(); ++rank) {
          sum = ReduceTwo(op, sum, format.Decode(load(rank)));
        }
        value = static_cast<T>(format.Encode(sum));
      } else if (dtype == CommDType::kBool) {
        bool any = false;
        bool all = true;
        for (size_t rank = 0; rank < inputs.size(); ++rank) {
          any = any || load(rank) != 0;
          all = all && load(rank) != 0;
        }
        value = static_cast<T>(op == ReduceOp::kMin ? all : any);
      } else {
        value = load(0);
        for (size_t rank = 1; rank < inputs.size(); ++rank) {
          value = ReduceTwo(op, value, load(rank));
        }
      }
      std::memcpy(result.data() + at, &value, sizeof(T));
    }
  });
  return result;
}

// The extents the interface promises without explicit ones.
inline std::vector<int64_t> DefaultExtents(int64_t factor, int size) {
  std::vector<int64_t> extents(size, 0);
  for (int64_t i = 0; i < factor; ++i) extents[i % size] += 1;
  return extents;
}

// Rank `rank`'s part of a row-major [outer, factor, inner].
inline Bytes ShardReference(const Bytes& global, int64_t outer, int64_t inner,
                            int64_t element_bytes,
                            const std::vector<int64_t>& extents, int rank) {
  int64_t offset = 0;
  int64_t factor = 0;
  for (size_t r = 0; r < extents.size(); ++r) {
    if (static_cast<int>(r) < rank) offset += extents[r];
    factor += extents[r];
  }
  Bytes local;
  const int64_t row = inner * element_bytes;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t f = offset; f < offset + extents[rank]; ++f) {
      for (int64_t b = 0; b < row; ++b) {
        local.push_back(global[(o * factor + f) * row + b]);
      }
    }
  }
  return local;
}

}  // namespace tp

#endif  // TP_TESTS_UNIT_COMM_REFERENCE_H_
