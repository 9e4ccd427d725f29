// Loss scaling: f16 gradients are kept in range by a larger loss.
#ifndef TP_RUNTIME_OPTIMIZER_LOSS_SCALE_H_
#define TP_RUNTIME_OPTIMIZER_LOSS_SCALE_H_

#include <cstdint>

namespace tp {

struct LossScaleOptions {
  // kAuto: dynamic if a parameter is f16.
  enum class Kind : uint8_t { kAuto, kOff, kFixed, kDynamic };
  Kind kind = Kind::kAuto;
  // As torch.amp.GradScaler's.
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  int growth_interval = 2000;  // good steps before the scale grows
};

// The scale from step to step. Every rank sees the same norm of all
// gradients, so every rank decides alike.
class LossScale {
 public:
  LossScale(const LossScaleOptions& options, bool has_f16)
      : options_(options),
        on_(options.kind == LossScaleOptions::Kind::kFixed ||
            options.kind == LossScaleOptions::Kind::kDynamic ||
            (options.kind == LossScaleOptions::Kind::kAuto && has_f16)),
        scale_(on_ ? options.initial : 1) {}

  bool on() const { return on_; }
  double scale() const { return scale_; }
  int good_steps() const { return good_steps_; }
  // Whether the step counts; a gradient that overflowed makes the scale less.
  bool Update(bool finite) {
    if (!on_) return true;
    if (options_.kind == LossScaleOptions::Kind::kFixed) return finite;
    if (!finite) {
      scale_ *= options_.backoff;
      good_steps_ = 0;
      return false;
    }
    if (++good_steps_ == options_.growth_interval) {
      scale_ *= options_.growth;
      good_steps_ = 0;
    }
    return true;
  }
  void Restore(double scale, int good_steps) {
    scale_ = scale;
    good_steps_ = good_steps;
  }

 private:
  const LossScaleOptions options_;
  const bool on_;
  double scale_;
  int good_steps_ = 0;
};

}  // namespace tp

#endif  // TP_RUNTIME_OPTIMIZER_LOSS_SCALE_H_
