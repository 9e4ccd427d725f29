// Samples of ops that work element by element.
#include "tests/soundness/samples.h"

namespace tp::soundness {

const char kUnarySamples[] = R"(
aten.neg(f64[N,3])
aten.neg(i64[N,3])
aten.positive(f64[N,3])
aten.abs(f64[N,3])
aten.sign(f64[N,3])
aten.sgn(f64[N,3])
aten.relu(f64[N,3])
aten.relu6(f64[N,3])
aten.gelu(f64[N,3])
aten.gelu(f64[N,3]) {approximate = "tanh"}
aten.silu(f64[N,3])
aten.mish(f64[N,3])
aten.hardswish(f64[N,3])
aten.hardsigmoid(f64[N,3])
aten.hardtanh(f64[N,3])
aten.leaky_relu(f64[N,3]) {negative_slope = 0.2}
aten.elu(f64[N,3])
aten.selu(f64[N,3])
aten.celu(f64[N,3])
aten.softplus(f64[N,3])
aten.log_sigmoid(f64[N,3])
aten.threshold(f64[N,3]) {threshold = 0.5, value = 3.0}
aten.floor(f64[N,3])
aten.ceil(f64[N,3])
aten.round(f64[N,3])
aten.trunc(f64[N,3])
aten.frac(f64[N,3])
aten.square(f64[N,3])
aten.nan_to_num(f64[N,3])
aten.bitwise_not(i64[N,3])
aten.hardshrink(f64[N,3])
aten.softshrink(f64[N,3])
aten.sqrt(f64[N,3]~0.1..4)
aten.rsqrt(f64[N,3]~0.1..4)
aten.exp(f64[N,3])
aten.exp2(f64[N,3])
aten.expm1(f64[N,3])
aten.log(f64[N,3]~0.1..4)
aten.log2(f64[N,3]~0.1..4)
aten.log10(f64[N,3]~0.1..4)
aten.log1p(f64[N,3]~-0.5..4)
aten.sin(f64[N,3])
aten.cos(f64[N,3])
aten.tan(f64[N,3]~-1..1)
aten.asin(f64[N,3]~-0.9..0.9)
aten.acos(f64[N,3]~-0.9..0.9)
aten.atan(f64[N,3])
aten.sinh(f64[N,3])
aten.cosh(f64[N,3])
aten.asinh(f64[N,3])
aten.acosh(f64[N,3]~1.1..4)
aten.atanh(f64[N,3]~-0.9..0.9)
aten.tanh(f64[N,3])
aten.sigmoid(f64[N,3])
aten.erf(f64[N,3])
aten.erfc(f64[N,3])
aten.erfinv(f64[N,3]~-0.9..0.9)
aten.lgamma(f64[N,3]~0.5..3)
aten.digamma(f64[N,3]~0.5..3)
aten.sinc(f64[N,3])
aten.reciprocal(f64[N,3]~0.5..4)
aten.logit(f64[N,3]~0.1..0.9)
aten.deg2rad(f64[N,3])
aten.rad2deg(f64[N,3])
aten.isnan(f64[N,3])
aten.isinf(f64[N,3])
aten.isfinite(f64[N,3])
aten.logical_not(i64[N,3])
aten.signbit(f64[N,3])
aten.isposinf(f64[N,3])
aten.isneginf(f64[N,3])
aten.clamp(f64[N,3]) {min = -1.0, max = 0.5}
aten.clamp.Tensor(f64[N,3], f64[3]~-2..-1, f64[N,1]~0..1)
aten.clamp_min(f64[N,3]) {min = 0.25}
aten.clamp_max(f64[N,3]) {max = 0.25}
aten.dropout(f64[N,3]) {p = 0.1, train = false}
aten.feature_dropout(f64[N,3]) {p = 0.1, train = false}
aten.alpha_dropout(f64[N,3]) {p = 0.1, train = false}
aten.dropout(f64[N,3]) {p = 0.5, train = true} ! random
aten.glu(f64[N,14]) {dim = 1}
aten.glu(f64[4,N]) {dim = 0}
)";

const char kBinarySamples[] = R"(
aten.add.Tensor(f64[N,4,3], f64[N,1,3])
aten.add.Tensor(f64[N,4,3], f64[4,1]) {alpha = 2}
aten.add.Tensor(i64[N,3], i64[N,3])
aten.add.Tensor(f64[N,3], f64[])
aten.sub.Tensor(f64[N,3], f64[N,3])
aten.sub.Tensor(f64[3], f64[N,1]) {alpha = 3}
aten.rsub.Tensor(f64[N,3], f64[3])
aten.add.Scalar(f64[N,3]) {other = 2.5}
aten.add.Scalar(f64[N,3]) {other = 0}
aten.sub.Scalar(f64[N,3]) {other = 2.5}
aten.rsub.Scalar(f64[N,3]) {other = 2.5}
aten.rsub.Scalar(f64[N,3]) {other = 0}
aten.mul.Tensor(f64[N,4,3], f64[4,1])
aten.mul.Tensor(f64[1,3], f64[N,1])
aten.mul.Tensor(bool[N,3], f64[N,3])
aten.mul.Scalar(f64[N,3]) {other = 3}
aten.div.Tensor(f64[N,3], f64[N,1]~0.5..2)
aten.div.Scalar(f64[N,3]) {other = 3}
aten.div.Tensor_mode(f64[N,3], f64[3]~0.5..2) {rounding_mode = "floor"}
aten.div.Scalar_mode(f64[N,3]) {other = 0.7, rounding_mode = "trunc"}
aten.true_divide.Tensor(f64[N,3], f64[]~0.5..2)
aten.divide.Tensor(f64[N,3], f64[N,3]~0.5..2)
aten.floor_divide(i64[N,3]~-9..9, i64[3]~1..4)
aten.remainder.Tensor(f64[N,3], f64[3]~0.5..2)
aten.remainder.Scalar(i64[N,3]~-9..9) {other = 4}
aten.fmod.Tensor(f64[N,3], f64[3]~0.5..2)
aten.maximum(f64[N,3], f64[N,1])
aten.minimum(f64[N,3], f64[3])
aten.max.other(f64[N,3], f64[N,3])
aten.min.other(f64[N,3], f64[N,1])
aten.fmax(f64[N,3], f64[3])
aten.fmin(f64[N,3], f64[N,3])
aten.pow.Tensor_Scalar(f64[N,3]) {exponent = 2}
aten.pow.Scalar(f64[N,3]) {self = 2.5}
aten.pow.Tensor_Tensor(f64[N,3]~0.5..2, f64[3])
aten.bitwise_and.Tensor(i64[N,3]~0..15, i64[3]~0..15)
aten.bitwise_or.Tensor(i64[N,3]~0..15, i64[N,1]~0..15)
aten.bitwise_xor.Scalar(i64[N,3]~0..15) {other = 5}
aten.__and__.Tensor(bool[N,3], bool[N,3])
aten.__or__.Tensor(bool[N,3], bool[3])
aten.__xor__.Tensor(i64[N,3]~0..15, i64[N,1]~0..15)
aten.bitwise_left_shift.Tensor(i64[N,3], i64[3])
aten.bitwise_right_shift.Tensor(i64[N,3]~0..99, i64[3])
aten.__lshift__.Scalar(i64[N,3]) {other = 2}
aten.__rshift__.Tensor(i64[N,3]~0..99, i64[N,1])
aten.hypot(f64[N,3], f64[3])
aten.logaddexp(f64[N,3], f64[3])
aten.logaddexp2(f64[N,1], f64[N,3])
aten.heaviside(f64[N,3], f64[3]) ! no-grad LibTorch has no derivative
aten.nextafter(f64[N,3], f64[N,3]) ! no-grad LibTorch has no derivative
aten.copysign.Tensor(f64[N,3], f64[3])
aten.isclose(f64[N,3], f64[3]) {rtol = 0.5}
aten.atan2(f64[N,3], f64[N,1])
aten.xlogy.Tensor(f64[N,3], f64[3]~0.1..2)
aten.logical_and(bool[N,3], bool[3])
aten.logical_or(i64[N,3], bool[N,1])
aten.logical_xor(bool[N,3], bool[N,3])
aten.eq.Tensor(i64[N,3], i64[3])
aten.ne.Scalar(i64[N,3]) {other = 1}
aten.lt.Tensor(f64[N,1], f64[3])
aten.le.Scalar(f64[N,3]) {other = 0.5}
aten.gt.Tensor(f64[N,3], f64[N,3])
aten.ge.Scalar(i64[N,3]) {other = 2}
aten.addcmul(f64[N,3], f64[3], f64[N,1]) {value = 2}
aten.addcdiv(f64[N,3], f64[3], f64[N,1]~0.5..2)
aten.lerp.Scalar(f64[N,3], f64[N,3]) {weight = 0.25}
aten.lerp.Scalar(f64[N,3], f64[3]) {weight = 0.75}
aten.lerp.Tensor(f64[N,3], f64[N,3], f64[N,1])
aten.where.self(bool[N,1], f64[N,3], f64[3])
aten.where.ScalarOther(bool[N,3], f64[N,3]) {other = 0.0}
aten.where.ScalarOther(bool[N,3], f64[3]) {other = 2.0}
aten.where.ScalarSelf(bool[3], f64[N,3]) {self = 0}
aten.where.ScalarSelf(bool[N,3], f64[N,3]) {self = -1.5}
aten.where.Scalar(bool[N,3]) {self = 1.5, other = 2.5}
aten.masked_fill.Scalar(f64[N,3], bool[3]) {value = 0}
aten.masked_fill.Scalar(f64[N,3], bool[N,1]) {value = 7.5}
aten.masked_fill.Tensor(f64[N,3], bool[N,3], f64[])
aten.prelu(f64[4,N,3], f64[N])
aten.prelu(f64[4,N], f64[1])
)";

const char kCastSamples[] = R"(
aten.to.dtype(f64[N,3]) {dtype = f32}
aten.to.dtype(f64[N,3]) {dtype = i64}
aten.to.dtype(f32[N,3]) {dtype = f64}
aten.to.dtype(i64[N,3]) {dtype = f64}
aten._to_copy(f64[N,3]) {dtype = bf16}
aten.contiguous(f64[N,3])
aten.detach(f64[N,3])
aten.alias(f64[N,3])
aten.lift_fresh(f64[N,3])
aten.clone(f64[N,4,3])
aten.lift(f64[N,3])
aten.detach_copy(f64[N,3])
aten.alias_copy(f64[N,3])
aten.to.other(f64[N,3], f32[4])
aten.to.other(f32[N,3], f64[4])
aten.type_as(f64[N,3], i64[5])
aten.view.dtype(i64[N,3]) {dtype = f64} ! values
aten.copy(f64[N,3], f64[3])
aten.copy(f64[N,3], f64[N,1])
aten.fill.Scalar(f64[N,3]) {value = 2.5}
aten.fill.Tensor(f64[N,3], f64[])
)";

const char kCreationSamples[] = R"(
aten.zeros() {size = [N, 3], dtype = f64}
aten.ones() {size = [N, 3], dtype = f64}
aten.empty.memory_format() {size = [N, 3], dtype = f64} ! values
aten.full() {size = [N, 3], fill_value = 2.5, dtype = f64}
aten.full() {size = [3], fill_value = N}
aten.new_zeros(f64[2]) {size = [N, 3]}
aten.new_ones(f64[2]) {size = [N, 3]}
aten.new_full(f64[N,2]) {size = [N, 3], fill_value = 1.5}
aten.new_empty(f64[2]) {size = [N, 3]} ! values
aten.zeros_like(f64[N,3])
aten.ones_like(f64[N,3]) {dtype = i64}
aten.full_like(f64[N,3]) {fill_value = 2.5}
aten.empty_like(f64[N,3]) ! values
aten.arange() {end = N}
aten.arange.start() {start = 2, end = N + 2}
aten.arange.start_step() {start = 1, end = 9, step = 3}
aten.arange() {end = 2.5, dtype = f64}
aten.linspace() {start = 0, end = 1, steps = N, dtype = f64}
aten.eye() {n = N, dtype = f64}
aten.eye.m() {n = N, m = 3, dtype = f64}
aten.scalar_tensor() {s = 3.5, dtype = f64}
aten.rand() {size = [N, 3], dtype = f64} ! random
aten.randn() {size = [N, 3], dtype = f64} ! random
aten.rand_like(f64[N,3]) ! random
aten.randn_like(f64[N,3]) ! random
aten.bernoulli(f64[N,3]~0..1) ! random
tp.sym() {value = N + 1}
)";

}  // namespace tp::soundness
