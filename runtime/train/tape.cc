#include "runtime/train/tape.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

using torch::autograd::Edge;
using torch::autograd::impl::gradient_edge;

Tape::Segment& SegmentOf(Frame& frame, const BoundInstruction& bound) {
  std::vector<Tape::Segment>& segments = frame.tape->segments;
  const auto number = static_cast<size_t>(bound.offset);
  if (segments.size() <= number) segments.resize(number + 1);
  return segments[number];
}

// Empties the memory of gathered parameters that nothing but the graph needs:
// a view of one may have left the segment.
void LetGo(const Tape::Segment& segment, const BoundInstruction& bound,
           const std::set<const c10::StorageImpl*>& left) {
  for (int64_t input : bound.segment_inputs) {
    const c10::Storage& storage =
        segment.entered[static_cast<size_t>(input)].storage();
    if (left.count(storage.unsafeGetStorageImpl()) > 0) continue;
    storage.set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
    storage.unsafeGetStorageImpl()->set_nbytes(0);
  }
}

}  // namespace

absl::Status RunEnter(Frame& frame, const BoundInstruction& bound) {
  const auto& operands = bound.instruction->operands;
  if (frame.tape == nullptr) {
    for (size_t i = 0; i < operands.size(); ++i) {
      Put(frame, bound, Take(frame, operands[i]), i);
    }
    return absl::OkStatus();
  }
  Tape::Segment& segment = SegmentOf(frame, bound);
  segment = Tape::Segment();
  if (frame.recompute) {
    segment.runs_again = true;
    for (int reg : bound.instruction->captured) {
      segment.captured.emplace_back(reg, frame.registers[reg]);
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      segment.entered.push_back(Take(frame, operands[i]));
      Put(frame, bound, segment.entered.back(), i);
    }
    return absl::OkStatus();
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    at::Tensor leaf = Take(frame, operands[i]).detach();
    leaf.set_requires_grad(true);
    segment.entered.push_back(leaf);
    Put(frame, bound, std::move(leaf), i);
  }
  return absl::OkStatus();
}

absl::Status RunLeave(Frame& frame, const BoundInstruction& bound) {
  const auto& operands = bound.instruction->operands;
  std::set<const c10::StorageImpl*> left;
  for (size_t i = 0; i < operands.size(); ++i) {
    at::Tensor value = Take(frame, operands[i]);
    if (!bound.segment_inputs.empty()) {
      left.insert(value.storage().unsafeGetStorageImpl());
    }
    if (frame.tape != nullptr && !SegmentOf(frame, bound).runs_again) {
      SegmentOf(frame, bound)
          .left.push_back(value.requires_grad() ? gradient_edge(value)
                                                : Edge());
      value = value.detach();
    }
    Put(frame, bound, std::move(value), i);
  }
  if (frame.tape != nullptr) LetGo(SegmentOf(frame, bound), bound, left);
  return absl::OkStatus();
}

absl::Status RunRefill(Frame& frame, const BoundInstruction& bound) {
  const at::Tensor value =
      Take(frame, bound.instruction->operands[0]).contiguous();
  if (frame.tape == nullptr) {
    return absl::FailedPreconditionError("no forward pass came before");
  }
  const Tape::Segment& segment = SegmentOf(frame, bound);
  const auto input = static_cast<size_t>(bound.segment_inputs[0]);
  if (input >= segment.entered.size()) {
    return absl::InternalError("no such input of the segment");
  }
  const c10::Storage& storage = segment.entered[input].storage();
  if (storage.nbytes() != 0) return absl::OkStatus();  // it was kept
  // The memory itself changes hands; nothing is copied.
  storage.unsafeGetStorageImpl()->set_nbytes(value.storage().nbytes());
  storage.set_data_ptr_noswap(value.storage().set_data_ptr(at::DataPtr()));
  return absl::OkStatus();
}

absl::Status RunSegmentGrad(Frame& frame, const BoundInstruction& bound) {
  if (frame.tape == nullptr) {
    return absl::FailedPreconditionError("no forward pass came before");
  }
  Tape::Segment segment = std::exchange(SegmentOf(frame, bound), {});
  if (segment.runs_again) {
    Tape again;
    again.segments.resize(static_cast<size_t>(bound.offset) + 1);
    again.segments.back() = std::move(segment);
    at::AutoGradMode recording(true);
    TP_RETURN_IF_ERROR(frame.tape->replay(bound.offset, again));
    segment = std::move(again.segments.back());
  }
  const auto& operands = bound.instruction->operands;
  if (operands.size() != segment.left.size() ||
      bound.instruction->results.size() != segment.entered.size()) {
    return absl::InternalError(absl::StrCat(
        "@forward and @backward disagree about segment ", bound.offset));
  }
  torch::autograd::edge_list roots;
  torch::autograd::variable_list given;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].reg < 0) continue;
    at::Tensor gradient = Take(frame, operands[i]);
    if (!segment.left[i].is_valid()) continue;
    roots.push_back(std::move(segment.left[i]));
    given.push_back(std::move(gradient));
  }
  // Only what somebody reads is computed.
  torch::autograd::edge_list wanted;
  std::vector<size_t> results;
  for (size_t i = 0; i < segment.entered.size(); ++i) {
    if (bound.instruction->results[i] < 0) continue;
    results.push_back(i);
    wanted.push_back(gradient_edge(segment.entered[i]));
  }
  torch::autograd::variable_list gradients(results.size());
  if (!roots.empty() && !wanted.empty()) {
    gradients = torch::autograd::Engine::get_default_engine().execute(
        roots, given, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/false, wanted);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    at::Tensor gradient = std::move(gradients[i]);
    // Ranks meet in collectives whether or not a gradient reached them.
    if (!gradient.defined()) {
      gradient = at::zeros_like(segment.entered[results[i]].detach());
    }
    Put(frame, bound, std::move(gradient), results[i]);
  }
  return absl::OkStatus();
}

}  // namespace tp
