// The course of a training as a picture.
#ifndef TP_RUNTIME_TRAIN_LOSS_PLOT_H_
#define TP_RUNTIME_TRAIN_LOSS_PLOT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tp {

// Optimizer step and loss, steps ascending.
using LossCurve = std::vector<std::pair<int64_t, double>>;

// An SVG file: the losses as a line, those of evaluations as dots, with axes.
// Losses that are no numbers leave a gap.
std::string LossPlot(const LossCurve& training, const LossCurve& evaluation);

}  // namespace tp

#endif  // TP_RUNTIME_TRAIN_LOSS_PLOT_H_
