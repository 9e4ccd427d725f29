// Looks through the TorchScript source of an archive before LibTorch compiles
// it, and decides which operators a graph may hold. LibTorch runs some of what
// it loads (default arguments, __setstate__), so this comes first.
#ifndef TP_FRONTEND_CODE_SCAN_H_
#define TP_FRONTEND_CODE_SCAN_H_

#include <string>

#include "absl/status/status.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// Whether a graph may hold the operator `name`, such as "aten::add".
// PermissionDenied for those that reach files, processes or Python;
// Unimplemented for namespaces other than aten and prim. `allow_ops` lifts
// both: entries are "aten::save", "torchvision::*" or, for aten, just "save".
absl::Status CheckOperator(llvm::StringRef name,
                           llvm::ArrayRef<std::string> allow_ops);

// Checks one source record. `where` names it in errors ("model.pt:
// code/__torch__.py"). Besides CheckOperator's errors: PermissionDenied for
// code that would run while loading (__setstate__, computed default values,
// C++ classes) or that hides what it calls; InvalidArgument for source nested
// so deeply that compiling it could exhaust the stack.
absl::Status ScanCode(llvm::StringRef source, llvm::StringRef where,
                      llvm::ArrayRef<std::string> allow_ops);

}  // namespace tp

#endif  // TP_FRONTEND_CODE_SCAN_H_
