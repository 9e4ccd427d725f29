// Writes the weights of one rank.
#ifndef TP_CODEGEN_WEIGHT_SHARDER_H_
#define TP_CODEGEN_WEIGHT_SHARDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/module.h"
#include "ir/weight_source.h"

namespace tp {

// The block of a weight that a rank holds (ir/shard_block.h). `weight` is an
// argument of a planned (global) function with constant sizes.
absl::StatusOr<std::vector<DimIntervals>> BlockOf(const Value& weight,
                                                  const Mesh& mesh,
                                                  int64_t rank);

struct RankWeights {
  int64_t tensor_bytes = 0;
  int64_t file_bytes = 0;
  std::string sha256;    // of the file, hex
  std::string checksum;  // of the file (FastChecksum)
};

// Writes the blocks of all weights of the planned functions that one rank
// holds, each once, in argument order, as a safetensors file. Memory: one
// block at a time.
absl::StatusOr<RankWeights> WriteRankWeights(const Module& planned,
                                             int64_t rank,
                                             const WeightSource& source,
                                             const std::string& path);

}  // namespace tp

#endif  // TP_CODEGEN_WEIGHT_SHARDER_H_
