// The bodies of the reduce kernels. Included by reduce_kernels.cc once per
// instruction set, inside a namespace of its own, with
//   TP_COMM_TARGET        the function attribute that selects the instructions
//   TP_COMM_VECTOR_BYTES  16, 32 or 64; from 32 on f16 converts in hardware
// Only function attributes select instructions, so no code of a shared header
// is ever compiled for a processor that may not be there.
// No include guard: included several times on purpose.

#define TP_COMM_INLINE TP_COMM_TARGET __attribute__((always_inline)) inline

template <class T, int kLanes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(sizeof(T) * kLanes)));
};

template <class V>
TP_COMM_INLINE V LoadVector(const std::byte* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(V));
  return v;
}

template <class V>
TP_COMM_INLINE void StoreVector(const V& v, std::byte* to) {
  __builtin_memcpy(to, &v, sizeof(V));
}

// How a dtype is loaded into, and stored from, the vector V it is reduced in.
template <class T>
struct PlainElement {
  static constexpr int kLanes = TP_COMM_VECTOR_BYTES / sizeof(T);
  static constexpr int kBytes = sizeof(T);
  using V = typename VectorOf<T, kLanes>::Type;
  static TP_COMM_INLINE V Load(const std::byte* from) {
    return LoadVector<V>(from);
  }
  static TP_COMM_INLINE void Store(const V& v, std::byte* to) {
    StoreVector(v, to);
  }
};

struct Bf16Element {
  static constexpr int kLanes = TP_COMM_VECTOR_BYTES / 4;
  static constexpr int kBytes = 2;
  using V = VectorOf<float, kLanes>::Type;
  using Half = VectorOf<uint16_t, kLanes>::Type;
  using Bits = VectorOf<uint32_t, kLanes>::Type;
  static TP_COMM_INLINE V Load(const std::byte* from) {
    const Half half = LoadVector<Half>(from);
    const Bits bits = __builtin_convertvector(half, Bits) << 16;
    return reinterpret_cast<V>(bits);
  }
  static TP_COMM_INLINE void Store(const V& v, std::byte* to) {
    const Bits bits = reinterpret_cast<Bits>(v);
    // Adding just under half, plus the kept part's last bit, rounds to even.
    const Bits rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Bits quiet = (bits >> 16) | 0x40;
    const Bits is_nan = reinterpret_cast<Bits>(v != v);
    const Bits kept = (quiet & is_nan) | (rounded & ~is_nan);
    StoreVector(__builtin_convertvector(kept, Half), to);
  }
};

struct F16Element {
  static constexpr int kLanes = TP_COMM_VECTOR_BYTES / 4;
  static constexpr int kBytes = 2;
  using V = VectorOf<float, kLanes>::Type;
#if TP_COMM_VECTOR_BYTES == 64
  // The zero-masking forms, with a full mask: GCC 12 warns about the others.
  static TP_COMM_INLINE V Load(const std::byte* from) {
    return _mm512_maskz_cvtph_ps(0xffff, LoadVector<__m256i>(from));
  }
  static TP_COMM_INLINE void Store(const V& v, std::byte* to) {
    StoreVector(_mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT),
                to);
  }
#elif TP_COMM_VECTOR_BYTES == 32
  static TP_COMM_INLINE V Load(const std::byte* from) {
    return _mm256_cvtph_ps(LoadVector<__m128i>(from));
  }
  static TP_COMM_INLINE void Store(const V& v, std::byte* to) {
    StoreVector(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT), to);
  }
#else
  static TP_COMM_INLINE V Load(const std::byte* from) {
    V v;
    for (int lane = 0; lane < kLanes; ++lane) {
      uint16_t half;
      __builtin_memcpy(&half, from + lane * 2, 2);
      v[lane] = F16ToF32(half);
    }
    return v;
  }
  static TP_COMM_INLINE void Store(const V& v, std::byte* to) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint16_t half = F32ToF16(v[lane]);
      __builtin_memcpy(to + lane * 2, &half, 2);
    }
  }
#endif
};

// Any non-zero byte is true.
struct BoolElement : PlainElement<uint8_t> {
  static TP_COMM_INLINE V Load(const std::byte* from) {
    const V raw = LoadVector<V>(from);
    return reinterpret_cast<V>(raw != 0) & 1;
  }
};

template <ReduceOp kOp, class Element>
TP_COMM_INLINE void Accumulate(const typename Element::V& term,
                               typename Element::V* sum) {
  if constexpr (kOp == ReduceOp::kSum) {
    *sum += term;
  } else if constexpr (kOp == ReduceOp::kMax) {
    // The second comparison keeps a NaN; one in `term` fails the first.
    *sum = ((*sum > term) | (*sum != *sum)) ? *sum : term;
  } else {
    *sum = ((*sum < term) | (*sum != *sum)) ? *sum : term;
  }
}

// Reduces kVectors vectors at byte offset `at`.
template <ReduceOp kOp, class Element, int kVectors>
TP_COMM_INLINE void ReduceBlock(const std::byte* const* sources,
                                size_t num_sources, std::byte* const* targets,
                                size_t num_targets, int64_t at) {
  using V = typename Element::V;
  constexpr int kStep = Element::kLanes * Element::kBytes;
  V sums[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    sums[i] = Element::Load(sources[0] + at + i * kStep);
  }
  if (kVectors > 1 && num_targets > 1) {
    // The targets are peers' buffers and mostly sources too. Asking for their
    // lines as owner saves asking twice, to read and to write.
    constexpr int64_t kAhead = 1024;
    for (size_t t = 0; t < num_targets; ++t) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        __builtin_prefetch(targets[t] + at + kAhead + i * kStep, 1, 3);
      }
    }
  }
  for (size_t s = 1; s < num_sources; ++s) {
    const std::byte* source = sources[s] + at;
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      Accumulate<kOp, Element>(Element::Load(source + i * kStep), &sums[i]);
    }
  }
  for (size_t t = 0; t < num_targets; ++t) {
    std::byte* target = targets[t] + at;
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      Element::Store(sums[i], target + i * kStep);
    }
  }
}

template <ReduceOp kOp, class Element>
TP_COMM_TARGET void ReduceAll(absl::Span<const std::byte* const> sources,
                              absl::Span<std::byte* const> targets,
                              int64_t count) {
  constexpr int64_t kStep = Element::kLanes * Element::kBytes;
  const int64_t bytes = count * Element::kBytes;
  const std::byte* const* from = sources.data();
  std::byte* const* to = targets.data();
  int64_t at = 0;
  for (; at + 4 * kStep <= bytes; at += 4 * kStep) {
    ReduceBlock<kOp, Element, 4>(from, sources.size(), to, targets.size(), at);
  }
  for (; at + kStep <= bytes; at += kStep) {
    ReduceBlock<kOp, Element, 1>(from, sources.size(), to, targets.size(), at);
  }
  if (at == bytes) return;
  // The tail, at most one vector, goes through a padded copy, so that it runs
  // the same instructions as the rest.
  const size_t tail = static_cast<size_t>(bytes - at);
  std::byte padded[kStep] = {};
  std::memcpy(padded, from[0] + at, tail);
  typename Element::V sum = Element::Load(padded);
  for (size_t s = 1; s < sources.size(); ++s) {
    std::memcpy(padded, from[s] + at, tail);
    Accumulate<kOp, Element>(Element::Load(padded), &sum);
  }
  Element::Store(sum, padded);
  for (size_t t = 0; t < targets.size(); ++t) {
    std::memcpy(to[t] + at, padded, tail);
  }
}

template <class Element>
ReduceKernel FindForElement(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      if constexpr (std::is_same_v<Element, BoolElement>) {
        return &ReduceAll<ReduceOp::kMax, Element>;
      } else {
        return &ReduceAll<ReduceOp::kSum, Element>;
      }
    case ReduceOp::kMax:
      return &ReduceAll<ReduceOp::kMax, Element>;
    case ReduceOp::kMin:
      return &ReduceAll<ReduceOp::kMin, Element>;
  }
  return nullptr;
}

// Sums of signed integers run as unsigned: they wrap, as in ATen.
template <class Signed, class Unsigned>
ReduceKernel FindForSigned(ReduceOp op) {
  return op == ReduceOp::kSum ? FindForElement<PlainElement<Unsigned>>(op)
                              : FindForElement<PlainElement<Signed>>(op);
}

inline ReduceKernel Find(CommDType dtype, ReduceOp op) {
  switch (dtype) {
    case CommDType::kF32:
      return FindForElement<PlainElement<float>>(op);
    case CommDType::kF64:
      return FindForElement<PlainElement<double>>(op);
    case CommDType::kF16:
      return FindForElement<F16Element>(op);
    case CommDType::kBF16:
      return FindForElement<Bf16Element>(op);
    case CommDType::kI64:
      return FindForSigned<int64_t, uint64_t>(op);
    case CommDType::kI32:
      return FindForSigned<int32_t, uint32_t>(op);
    case CommDType::kI16:
      return FindForSigned<int16_t, uint16_t>(op);
    case CommDType::kI8:
      return FindForSigned<int8_t, uint8_t>(op);
    case CommDType::kU8:
      return FindForElement<PlainElement<uint8_t>>(op);
    case CommDType::kBool:
      return FindForElement<BoolElement>(op);
  }
  return nullptr;
}

#undef TP_COMM_INLINE
