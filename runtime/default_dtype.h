// The dtype of what names none, while a program runs in f64.
#ifndef TP_RUNTIME_DEFAULT_DTYPE_H_
#define TP_RUNTIME_DEFAULT_DTYPE_H_

#include <c10/core/DefaultDtype.h>

namespace tp {

// In f64, what PyTorch picks where an op names no dtype (zeros, integers
// divided) is f64 too, as in the reference. Process-wide, for its life.
class DefaultDType {
 public:
  explicit DefaultDType(bool f64) : before_(c10::get_default_dtype()) {
    if (f64) c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  }
  ~DefaultDType() { c10::set_default_dtype(before_); }
  DefaultDType(const DefaultDType&) = delete;
  DefaultDType& operator=(const DefaultDType&) = delete;

 private:
  caffe2::TypeMeta before_;
};

}  // namespace tp

#endif  // TP_RUNTIME_DEFAULT_DTYPE_H_
