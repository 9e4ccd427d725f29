// tp-run --grads: gradients of a training package, written and compared.
#ifndef TP_TOOLS_TP_RUN_GRADS_H_
#define TP_TOOLS_TP_RUN_GRADS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/train/train_session.h"

namespace tp {

struct GradientsRequest {
  std::string package;
  std::string model;   // to compare with; empty: nothing is compared
  std::string output;  // safetensors; empty: nothing is written
  std::vector<std::string> allow_ops;  // custom operators of the model
  double tolerance = 0;                // relative; 0: by dtype
  bool quiet = false;
  TrainOptions session;
};

// Runs forward and backward once on what is given for the model's arguments.
// False if a gradient or the loss is too far from that of the unsharded model.
absl::StatusOr<bool> RunGradients(const GradientsRequest& request,
                                  const NamedTensors& given);

}  // namespace tp

#endif  // TP_TOOLS_TP_RUN_GRADS_H_
