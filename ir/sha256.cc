#include "ir/sha256.h"

#include <algorithm>
#include <cstring>

#include "llvm/ADT/StringExtras.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tp {
namespace {

#if defined(__x86_64__)

bool HasInstructions() {
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
    return ((ebx >> 29) & 1) != 0 && __builtin_cpu_supports("sse4.1");
  }();
  return has;
}

// The first 32 bits of the fractional parts of the cube roots of the first 64
// primes, as FIPS 180-4 gives them.
alignas(16) constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The instructions want the state as the words (a, b, e, f) and (c, d, g, h),
// highest first, and do two rounds each.
__attribute__((target("sha,sse4.1"))) void CompressBlocks(uint32_t* state,
                                                          const uint8_t* blocks,
                                                          size_t count) {
  const __m128i big_endian =
      _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count > 0; --count, blocks += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i words[16];  // four words of the message schedule each
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if (i < 4) {
        words[i] = _mm_shuffle_epi8(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks) + i),
            big_endian);
      } else {
        const __m128i sum =
            _mm_add_epi32(_mm_sha256msg1_epu32(words[i - 4], words[i - 3]),
                          _mm_alignr_epi8(words[i - 1], words[i - 2], 4));
        words[i] = _mm_sha256msg2_epu32(sum, words[i - 1]);
      }
      const __m128i input = _mm_add_epi32(
          words[i], _mm_load_si128(
                        reinterpret_cast<const __m128i*>(kRoundConstants) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, input);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(input, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  dcba = _mm_blend_epi16(feba, dchg, 0xf0);
  hgfe = _mm_alignr_epi8(dchg, feba, 8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), dcba);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), hgfe);
}

#else

bool HasInstructions() { return false; }
void CompressBlocks(uint32_t*, const uint8_t*, size_t) {}

#endif

}  // namespace

void Sha256::Compress(const uint8_t* blocks, size_t count) {
  CompressBlocks(state_.data(), blocks, count);
}

void Sha256::Update(llvm::StringRef bytes) {
  Update(llvm::ArrayRef(reinterpret_cast<const uint8_t*>(bytes.data()),
                        bytes.size()));
}

void Sha256::Update(llvm::ArrayRef<uint8_t> bytes) {
  if (bytes.empty()) return;  // perhaps without memory
  if (!HasInstructions()) {
    portable_.update(bytes);
    return;
  }
  const size_t filled = size_ % 64;
  size_ += bytes.size();
  if (filled > 0) {
    const size_t taken = std::min(bytes.size(), 64 - filled);
    std::memcpy(pending_.data() + filled, bytes.data(), taken);
    bytes = bytes.drop_front(taken);
    if (filled + taken < 64) return;
    Compress(pending_.data(), 1);
  }
  Compress(bytes.data(), bytes.size() / 64);
  bytes = bytes.drop_front(bytes.size() / 64 * 64);
  if (!bytes.empty()) {
    std::memcpy(pending_.data(), bytes.data(), bytes.size());
  }
}

std::string Sha256::FinishHex() {
  std::array<uint8_t, 32> digest;
  if (!HasInstructions()) {
    digest = portable_.final();
  } else {
    // A one bit, zeros up to 8 bytes before the end of a block, the length.
    const uint64_t bits = size_ * 8;
    const size_t filled = size_ % 64;
    std::array<uint8_t, 64> padding = {0x80};
    const size_t zeros = (filled < 56 ? 56 : 120) - filled;
    Update(llvm::ArrayRef(padding.data(), std::min<size_t>(zeros, 64)));
    if (zeros > 64) Update(llvm::ArrayRef(padding.data() + 1, zeros - 64));
    std::array<uint8_t, 8> length;
    for (int i = 0; i < 8; ++i) {
      length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
    }
    Update(length);
    for (int i = 0; i < 32; ++i) {
      digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    }
  }
  return llvm::toHex(digest, /*LowerCase=*/true);
}

}  // namespace tp
