// What one forward pass leaves behind for the backward pass: per segment, the
// leaves of its autograd graph and where gradients enter it. No collective is
// inside such a graph, so the order of communication is the program's.
#ifndef TP_RUNTIME_TRAIN_TAPE_H_
#define TP_RUNTIME_TRAIN_TAPE_H_

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>

#include <functional>
#include <utility>
#include <vector>

#include "runtime/binding.h"

namespace tp {

struct Tape {
  struct Segment {
    // Leaves, as tp.enter gave them; of a segment that will run again, what
    // they will be made of.
    std::vector<at::Tensor> entered;
    // Of a segment that will run again: other values it reads, by register.
    std::vector<std::pair<int, at::Tensor>> captured;
    bool runs_again = false;
    // Where the gradients of the tp.leave operands go; no function where a
    // value turned out not to depend on any leaf. The values themselves are
    // not held, so their memory can be reused.
    std::vector<torch::autograd::Edge> left;
  };
  std::vector<Segment> segments;
  // Runs a segment of the forward pass again, recorded on `again`.
  std::function<absl::Status(int64_t segment, Tape& again)> replay;
};

// Kernels of tp.enter, tp.leave and tp.segment_grad. Without a tape the first
// two pass their operands on.
absl::Status RunEnter(Frame& frame, const BoundInstruction& bound);
absl::Status RunLeave(Frame& frame, const BoundInstruction& bound);
absl::Status RunSegmentGrad(Frame& frame, const BoundInstruction& bound);
// tp.refill: what autograd kept of a gathered parameter is memory that
// tp.leave took away; the kernel puts it back.
absl::Status RunRefill(Frame& frame, const BoundInstruction& bound);

}  // namespace tp

#endif  // TP_RUNTIME_TRAIN_TAPE_H_
