// Fuses neighbouring ops of a rank program into one kernel.
#ifndef TP_PASSES_FUSE_LOCAL_H_
#define TP_PASSES_FUSE_LOCAL_H_

#include "ir/module.h"

namespace tp {

// add(linear(x, w), b) -> linear(x, w, b) and add(mm(x, w), b) -> addmm(b, x,
// w), where the product has no other use and b is one row: one pass over the
// result instead of two.
void FuseLocal(Module& module, Function& function);

}  // namespace tp

#endif  // TP_PASSES_FUSE_LOCAL_H_
