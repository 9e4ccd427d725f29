// A trainable weight as one rank holds it.
#ifndef TP_RUNTIME_TRAIN_PARAMETER_H_
#define TP_RUNTIME_TRAIN_PARAMETER_H_

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "ir/placement.h"
#include "ir/type.h"
#include "ir/weight_source.h"

namespace tp {

struct TrainableParameter {
  std::string name;                  // first original dotted name
  std::vector<std::string> aliases;  // other names of the same storage
  at::Tensor value;                  // local part, contiguous, updated in place
  TensorType type;                   // whole (global) type, constant dims
  ShardingSpec spec;                 // one placement per mesh axis (R or Shard)
  std::vector<DimIntervals> block;   // per dim, which indices that is
};

}  // namespace tp

#endif  // TP_RUNTIME_TRAIN_PARAMETER_H_
