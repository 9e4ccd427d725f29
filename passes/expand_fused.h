// Ops that hide several others: as one op, what splits in those could not be
// split.
#ifndef TP_PASSES_EXPAND_FUSED_H_
#define TP_PASSES_EXPAND_FUSED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "ir/builder.h"
#include "ir/value.h"

namespace tp {

//   _transformer_encoder_layer_fwd -> two norms, attention, two products
//   _native_multi_head_attention   -> products around an attention by heads
//   embedding_bag                  -> a lookup and sums by bag
//   losses                         -> see expand_loss.h
//
// One value per result that replaces it, built in canonical spelling. Empty
// for every other op.
absl::StatusOr<std::vector<Value*>> ExpandFused(const Op& op, Builder& builder);

}  // namespace tp

#endif  // TP_PASSES_EXPAND_FUSED_H_
