#include "runtime/train/loss_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tp {
namespace {

// Pixels.
constexpr double kWidth = 720;
constexpr double kHeight = 360;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 16;
constexpr double kBottom = 40;
constexpr int kTicks = 6;

struct Range {
  double low = 0;
  double high = 1;

  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// 1, 2 or 5 times a power of ten, for about kTicks ticks.
double TickStep(const Range& range) {
  const double rough = (range.high - range.low) / kTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

class Plot {
 public:
  Plot(const Range& steps, const Range& losses)
      : steps_(steps), losses_(losses) {}

  double X(double step) const {
    return kLeft + (step - steps_.low) / (steps_.high - steps_.low) *
                       (kWidth - kLeft - kRight);
  }
  double Y(double loss) const {
    return kHeight - kBottom -
           (loss - losses_.low) / (losses_.high - losses_.low) *
               (kHeight - kTop - kBottom);
  }

  void AddAxes() {
    const double step = std::max(1.0, TickStep(steps_));
    for (double at = std::ceil(steps_.low / step) * step; at <= steps_.high;
         at += step)
      absl::StrAppendFormat(
          &text_,
          "<path class=\"g\" d=\"M%.1f %.1fV%.1f\"/>"
          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n",
          X(at), kTop, kHeight - kBottom, X(at), kHeight - kBottom + 16, at);
    const double loss = TickStep(losses_);
    for (double at = std::ceil(losses_.low / loss) * loss; at <= losses_.high;
         at += loss)
      absl::StrAppendFormat(
          &text_,
          "<path class=\"g\" d=\"M%.1f %.1fH%.1f\"/>"
          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
          kLeft, Y(at), kWidth - kRight, kLeft - 6, Y(at) + 4,
          std::abs(at) < loss / 2 ? 0 : at);
    absl::StrAppendFormat(
        &text_,
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">step</text>\n",
        (kLeft + kWidth - kRight) / 2, kHeight - 6);
  }

  void AddLine(const LossCurve& curve) {
    std::string path;
    bool drawing = false;
    for (const auto& [step, loss] : curve) {
      if (!std::isfinite(loss)) {
        drawing = false;
        continue;
      }
      absl::StrAppendFormat(&path, "%s%.1f %.1f", drawing ? "L" : "M", X(step),
                            Y(loss));
      drawing = true;
    }
    absl::StrAppend(&text_, "<path class=\"loss\" d=\"", path, "\"/>\n");
  }

  void AddDots(const LossCurve& curve) {
    for (const auto& [step, loss] : curve) {
      if (!std::isfinite(loss)) continue;
      absl::StrAppendFormat(
          &text_,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>evaluation loss "
          "%.4g at step %d</title></circle>\n",
          X(step), Y(loss), loss, step);
    }
  }

  std::string Finish() const {
    return absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
        "role=\"img\" aria-label=\"loss by optimizer step\">\n"
        "<style>svg{background:#fff}text{font:11px sans-serif;fill:#444}"
        ".g{stroke:#ddd}.loss{fill:none;stroke:#0b62a4;stroke-width:1.5}"
        "circle{fill:#c2410c}</style>\n%s</svg>\n",
        kWidth, kHeight, text_);
  }

 private:
  Range steps_;
  Range losses_;
  std::string text_;
};

}  // namespace

std::string LossPlot(const LossCurve& training, const LossCurve& evaluation) {
  Range steps{HUGE_VAL, -HUGE_VAL};
  Range losses{HUGE_VAL, -HUGE_VAL};
  for (const LossCurve* curve : {&training, &evaluation})
    for (const auto& [step, loss] : *curve) {
      steps.Include(static_cast<double>(step));
      if (std::isfinite(loss)) losses.Include(loss);
    }
  if (!(steps.low <= steps.high)) steps = Range();
  if (!(losses.low <= losses.high)) losses = Range();
  for (Range* range : {&steps, &losses}) {
    if (range->high > range->low) continue;
    range->low -= 0.5;
    range->high += 0.5;
  }
  Plot plot(steps, losses);
  plot.AddAxes();
  plot.AddLine(training);
  plot.AddDots(evaluation);
  return plot.Finish();
}

}  // namespace tp
