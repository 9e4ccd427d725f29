// The table that maps serialized code back to Python lines ("*.debug_pkl"),
// checked before LibTorch trusts the indices in it.
#ifndef TP_FRONTEND_DEBUG_TABLE_H_
#define TP_FRONTEND_DEBUG_TABLE_H_

#include "absl/status/status.h"
#include "frontend/pickle_reader.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// InvalidArgument unless `root` has the shape torch.jit.save writes and every
// index and range in it lies inside the text it is for. `name` opens the
// error.
absl::Status CheckDebugTable(const PickleValue& root, llvm::StringRef name);

}  // namespace tp

#endif  // TP_FRONTEND_DEBUG_TABLE_H_
