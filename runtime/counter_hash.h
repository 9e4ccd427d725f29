// Random numbers of counters: what is drawn depends on the place it is drawn
// for, not on how many ranks draw.
#ifndef TP_RUNTIME_COUNTER_HASH_H_
#define TP_RUNTIME_COUNTER_HASH_H_

#include <cstdint>

namespace tp {

// A bijection whose every output bit depends on every input bit (the
// finalizer of SplitMix64).
inline uint64_t Scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace tp

#endif  // TP_RUNTIME_COUNTER_HASH_H_
