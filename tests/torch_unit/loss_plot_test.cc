#include "runtime/train/loss_plot.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LossPlotTest, LinesDotsAndTicks) {
  const std::string plot =
      LossPlot({{1, 4.0}, {2, 3.0}, {3, NAN}, {4, 2.0}, {5, 1.0}}, {{5, 1.5}});
  // From the left edge at the top to the right one at the bottom, with a gap.
  EXPECT_THAT(plot, HasSubstr("d=\"M64.0 16.0L224.0 117.3M544.0 218.7"
                              "L704.0 320.0\""));
  EXPECT_THAT(plot, HasSubstr("<circle cx=\"704.0\" cy=\"269.3\""));
  EXPECT_THAT(plot, HasSubstr(">3.5</text>"));
  EXPECT_THAT(plot, Not(HasSubstr("nan")));
}

TEST(LossPlotTest, OneStepOrNone) {
  EXPECT_THAT(LossPlot({{7, 2.0}}, {}), HasSubstr("M384.0 168.0"));
  for (const LossCurve& curve : {LossCurve(), LossCurve{{1, NAN}}}) {
    const std::string plot = LossPlot(curve, {});
    EXPECT_THAT(plot, HasSubstr("</svg>"));
    EXPECT_THAT(plot, Not(HasSubstr("nan")));
    EXPECT_THAT(plot, Not(HasSubstr("inf")));
  }
}

}  // namespace
}  // namespace tp
