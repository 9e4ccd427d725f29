#include "runtime/optimizer/parameter_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "ir/shard_extent.h"
#include "runtime/counter_hash.h"

namespace tp {
namespace {

uint64_t HashOf(const std::string& text) {
  uint64_t hash = 0;
  for (const char c : text) hash = Scramble(hash + static_cast<uint8_t>(c) + 1);
  return hash;
}

bool IsHalf(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16;
}

// bf16 is the upper half of f32: a random lower half is added before it is
// cut off.
uint16_t RoundToBf16(float value, uint64_t hash) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  // Infinity and NaN stay what they are.
  if ((bits & 0x7f800000U) != 0x7f800000U) {
    bits += static_cast<uint32_t>(hash >> 48);
  }
  return static_cast<uint16_t>(bits >> 16);
}

// f16 has denormals where f32 has none, so the distance to the next number is
// worked out.
uint16_t RoundToF16(float value, uint64_t hash) {
  constexpr double kMax = 65504;
  if (!(std::abs(value) < kMax)) return c10::Half(value).x;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 1, -14) - 10;
  const double chance = std::ldexp(static_cast<double>(hash >> 32), -32);
  const double units =
      std::floor(std::ldexp(static_cast<double>(value), -unit) + chance);
  return c10::Half(static_cast<float>(std::ldexp(units, unit))).x;
}

}  // namespace

ParameterStore::ParameterStore(const OptimizerOptions& options,
                               std::vector<TrainableParameter> parameters)
    : stochastic_rounding_(options.stochastic_rounding),
      seed_(options.seed),
      parameters_(std::move(parameters)),
      masters_(parameters_.size()) {
  if (!options.master_weights) return;
  for (int i = 0; i < size(); ++i) {
    const at::Tensor& value = parameters_[i].value;
    if (IsHalf(value.scalar_type())) masters_[i] = value.to(at::kFloat);
  }
}

std::vector<int64_t> ParameterStore::whole_sizes(int i) const {
  std::vector<int64_t> sizes;
  for (const SymExpr& dim : parameters_[i].type.dims) {
    sizes.push_back(dim.constant());
  }
  return sizes;
}

int64_t ParameterStore::whole_numel(int i) const {
  int64_t numel = 1;
  for (int64_t size : whole_sizes(i)) numel *= size;
  return numel;
}

at::ScalarType ParameterStore::math_dtype(int i) const {
  return parameters_[i].value.scalar_type() == at::kDouble ? at::kDouble
                                                           : at::kFloat;
}

at::Tensor ParameterStore::Load(int i) const {
  if (masters_[i].defined()) return masters_[i];
  return parameters_[i].value.to(math_dtype(i));  // itself, if it is that
}

void ParameterStore::Store(int i, const at::Tensor& updated, int64_t step) {
  at::Tensor& value = parameters_[i].value;
  if (updated.is_same(value)) return;
  if (stochastic_rounding_ && !masters_[i].defined() &&
      IsHalf(value.scalar_type())) {
    RoundByChance(i, updated, step);
    return;
  }
  value.copy_(updated);
}

// Elements are numbered in the whole tensor.
void ParameterStore::RoundByChance(int i, const at::Tensor& updated,
                                   int64_t step) {
  const TrainableParameter& parameter = parameters_[i];
  at::Tensor& value = parameters_[i].value;
  const at::Tensor from = updated.contiguous();
  const auto* in = from.const_data_ptr<float>();
  auto* out = reinterpret_cast<uint16_t*>(value.data_ptr());
  const uint64_t key = Scramble(Scramble(seed_ + static_cast<uint64_t>(step)) +
                                HashOf(parameter.name));
  const Placement& placed = placement(i);
  const bool f16 = value.scalar_type() == at::kHalf;
  // The part as [outer][left][extent][inner] of [outer][left][size][inner].
  int64_t size = 1;
  int64_t inner = value.numel();
  int64_t extent = 1;
  int64_t offset = 0;
  if (placed.is_shard() && value.numel() > 0) {
    const DimFactor& box = placed.factor();
    size = box.size.constant();
    extent =
        value.size(placed.dim()) / (box.left.constant() * box.right.constant());
    inner = box.right.constant();
    for (int64_t dim = placed.dim() + 1; dim < value.dim(); ++dim) {
      inner *= value.size(dim);
    }
    offset = parameter.shard_offset;
  }
  for (int64_t n = 0; n < value.numel(); ++n) {
    const int64_t row = n / inner;
    const int64_t index =
        (row / extent * size + offset + row % extent) * inner + n % inner;
    const uint64_t hash = Scramble(key + static_cast<uint64_t>(index));
    out[n] = f16 ? RoundToF16(in[n], hash) : RoundToBf16(in[n], hash);
  }
}

at::Tensor ParameterStore::Zeros(int i) const {
  return at::zeros(parameters_[i].value.sizes(), at::dtype(math_dtype(i)));
}

OptimizerState ParameterStore::StateOf(int i, const char* name,
                                       at::Tensor value) const {
  OptimizerState state;
  state.parameter = i;
  state.name = name;
  state.value = std::move(value);
  state.sizes = whole_sizes(i);
  state.placement = placement(i);
  return state;
}

void ParameterStore::AddMasters(std::vector<OptimizerState>& states) const {
  for (int i = 0; i < size(); ++i) {
    if (masters_[i].defined()) {
      states.push_back(StateOf(i, "master", masters_[i]));
    }
  }
}

}  // namespace tp
