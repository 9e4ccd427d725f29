// SHA-256, by the processor's own instructions where it has them: package
// files are hashed whenever they are written and opened.
#ifndef TP_IR_SHA256_H_
#define TP_IR_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/SHA256.h"

namespace tp {

class Sha256 {
 public:
  void Update(llvm::ArrayRef<uint8_t> bytes);
  void Update(llvm::StringRef bytes);
  // Of all bytes so far, in lower-case hex. The last call.
  std::string FinishHex();

 private:
  void Compress(const uint8_t* blocks, size_t count);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                    0xa54ff53a, 0x510e527f, 0x9b05688c,
                                    0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_;  // the start of a block
  uint64_t size_ = 0;
  llvm::SHA256 portable_;  // used instead where there are no instructions
};

}  // namespace tp

#endif  // TP_IR_SHA256_H_
