// The arguments of the model that a package was made from, which are more
// than the inputs of its program: scalars are compiled in.
#ifndef TP_IR_MODEL_ARGUMENT_H_
#define TP_IR_MODEL_ARGUMENT_H_

#include <cstdint>
#include <string>

namespace tp {

// One tensor or scalar that the model takes; "input_<i>" means the i-th of
// them, counted depth first.
struct ModelArgument {
  enum class Kind : uint8_t {
    kTensor,  // the program has an input of this name
    kScalar,  // compiled in with this value
    kAbsent,  // not given when the package was made
  };
  std::string name;
  Kind kind = Kind::kTensor;
  std::string value;  // of a scalar: 16000, 0.5, true, text without quotes
};

}  // namespace tp

#endif  // TP_IR_MODEL_ARGUMENT_H_
