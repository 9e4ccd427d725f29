// Weights by original name, from ordinary safetensors files.
#ifndef TP_IR_WEIGHTS_BY_NAME_H_
#define TP_IR_WEIGHTS_BY_NAME_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "ir/weight_source.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// Opens a safetensors file, or a folder: with model.safetensors.index.json
// (the index of HuggingFace's sharded models), or else all its .safetensors
// files. Bytes are mapped when asked for. kInvalidArgument: an index that does
// not fit its files, a name in two files, or a package or checkpoint.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(
    const std::string& path);

struct MatchedWeights {
  // One per argument of the function: its weight in the source; null for
  // inputs, and for the buffers and constants of `kept`.
  std::vector<const WeightInfo*> weights;
  // Buffers that the source has not: the model's own are used.
  std::vector<std::string> kept;
};

struct MatchOptions {
  // Names that may be in the source though the function has no such weight:
  // those of the model that it does not use.
  std::vector<std::string> known;
  bool allow_unexpected = false;
};

// Finds every weight of a planned function in `given`, under its name or an
// alias. Every name is accounted for: kInvalidArgument lists parameters that
// are missing, names nothing asks for, other shapes or dtypes, and tied
// weights whose names hold different bytes.
absl::StatusOr<MatchedWeights> MatchWeights(const Function& function,
                                            const WeightSource& given,
                                            const MatchOptions& options);

// The weights of `model`, with the bytes of `given` where it has them. `kept`
// (may be null) gets MatchedWeights::kept.
absl::StatusOr<std::shared_ptr<const WeightSource>> ReplaceWeights(
    const Function& function, std::shared_ptr<const WeightSource> model,
    std::shared_ptr<const WeightSource> given, std::vector<std::string>* kept);

// The whole sizes of a weight, also in the program of one rank.
// kInvalidArgument: a symbolic size.
absl::StatusOr<llvm::SmallVector<int64_t, 4>> WholeSizes(const Value& weight);

}  // namespace tp

#endif  // TP_IR_WEIGHTS_BY_NAME_H_
