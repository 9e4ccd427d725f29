#include "tests/soundness/samples.h"

#include "tests/soundness/sample.h"

namespace tp::soundness {

const std::vector<Family>& Families() {
  static const auto* const families = new std::vector<Family>{
      {"unary", Lines(kUnarySamples)},
      {"binary", Lines(kBinarySamples)},
      {"cast", Lines(kCastSamples)},
      {"creation", Lines(kCreationSamples)},
      {"product", Lines(kProductSamples)},
      {"fused", Lines(kFusedSamples)},
      {"view", Lines(kViewSamples)},
      {"part", Lines(kPartSamples)},
      {"lookup", Lines(kLookupSamples)},
      {"reduction", Lines(kReductionSamples)},
      {"norm", Lines(kNormSamples)},
      {"loss", Lines(kLossSamples)},
      {"convolution", Lines(kConvolutionSamples)},
      {"pixel", Lines(kPixelSamples)},
      {"distance", Lines(kDistanceSamples)},
      {"recurrent", Lines(kRecurrentSamples)},
  };
  return *families;
}

}  // namespace tp::soundness
