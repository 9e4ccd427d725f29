// What Verify found, for callers that can show where it is.
#ifndef TP_IR_VERIFIER_H_
#define TP_IR_VERIFIER_H_

#include "absl/status/status.h"
#include "ir/module.h"

namespace tp {

struct VerifyResult {
  absl::Status status;
  // What the error is about, where it is about one of them.
  const Op* op = nullptr;
  const Value* argument = nullptr;
  const Function* function = nullptr;
  // Indices into the module's symbols and guards.
  int symbol = -1;
  int guard = -1;
};

// As Verify of text.h: stops at the first error.
VerifyResult VerifyWithSubject(const Module& module);

}  // namespace tp

#endif  // TP_IR_VERIFIER_H_
