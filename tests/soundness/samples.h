// The texts of samples, a file per kind of op.
#ifndef TESTS_SOUNDNESS_SAMPLES_H_
#define TESTS_SOUNDNESS_SAMPLES_H_

namespace tp::soundness {

// samples_elementwise.cc
extern const char kUnarySamples[];
extern const char kBinarySamples[];
extern const char kCastSamples[];
extern const char kCreationSamples[];
// samples_structure.cc
extern const char kProductSamples[];
extern const char kFusedSamples[];
extern const char kViewSamples[];
extern const char kPartSamples[];
extern const char kLookupSamples[];
// samples_numeric.cc
extern const char kReductionSamples[];
extern const char kNormSamples[];
extern const char kLossSamples[];
extern const char kConvolutionSamples[];
extern const char kPixelSamples[];
extern const char kDistanceSamples[];
extern const char kRecurrentSamples[];

}  // namespace tp::soundness

#endif  // TESTS_SOUNDNESS_SAMPLES_H_
