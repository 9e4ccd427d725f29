#include "runtime/comm/reduce_kernels.h"

#include <bit>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tp {
namespace {

[[maybe_unused]] float F16ToF32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) {  // Infinity or NaN; a NaN becomes quiet.
    const uint32_t quiet = magnitude > 0x7c00 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet |
                                (magnitude & 0x3ff) << 13);
  }
  if (magnitude >= 0x400) {  // Normal: 112 is the difference of the biases.
    return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  }
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

[[maybe_unused]] uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return sign | 0x7e00 | static_cast<uint16_t>((magnitude >> 13) & 0x3ff);
  }
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // Rounds past 65504.
  if (magnitude >= 0x38800000) {
    const uint32_t shifted = magnitude - (112u << 23);
    return sign | static_cast<uint16_t>(
                      (shifted + 0xfff + ((shifted >> 13) & 1)) >> 13);
  }
  // Subnormal: 0.5f has an ulp of 2^-24, so the addition itself rounds.
  const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
  return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) -
                                      std::bit_cast<uint32_t>(0.5f));
}

namespace baseline {
#define TP_COMM_TARGET
#define TP_COMM_VECTOR_BYTES 16
#include "runtime/comm/reduce_kernels_inl.h"
#undef TP_COMM_TARGET
#undef TP_COMM_VECTOR_BYTES
}  // namespace baseline

#if defined(__x86_64__)
namespace avx2 {
#define TP_COMM_TARGET __attribute__((target("avx2,f16c,prfchw")))
#define TP_COMM_VECTOR_BYTES 32
#include "runtime/comm/reduce_kernels_inl.h"
#undef TP_COMM_TARGET
#undef TP_COMM_VECTOR_BYTES
}  // namespace avx2

namespace avx512 {
#define TP_COMM_TARGET                                     \
  __attribute__((                                          \
      target("avx2,f16c,prfchw,avx512f,avx512bw,avx512dq," \
             "avx512vl")))
#define TP_COMM_VECTOR_BYTES 64
#include "runtime/comm/reduce_kernels_inl.h"
#undef TP_COMM_TARGET
#undef TP_COMM_VECTOR_BYTES
}  // namespace avx512

bool SupportsF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

std::vector<ReduceKernelVariant> RunnableReduceKernelVariants() {
  std::vector<ReduceKernelVariant> variants = {{"baseline", &baseline::Find}};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && SupportsF16c()) {
    variants.push_back({"avx2", &avx2::Find});
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      variants.push_back({"avx512", &avx512::Find});
    }
  }
#endif
  return variants;
}

ReduceKernel FindReduceKernel(CommDType dtype, ReduceOp op) {
  static const ReduceKernelVariant best = RunnableReduceKernelVariants().back();
  return best.find(dtype, op);
}

}  // namespace tp
