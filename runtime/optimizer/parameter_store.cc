#include "runtime/optimizer/parameter_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

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

// The indices in the whole tensor, row-major, of the elements of a block, one
// after the other.
class WholeIndices {
 public:
  WholeIndices(const std::vector<int64_t>& sizes,
               llvm::ArrayRef<DimIntervals> block)
      : at_(sizes.size()) {
    int64_t stride = 1;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      std::vector<int64_t> offsets;
      for (const Interval& part : block[dim]) {
        for (int64_t k = 0; k < part.extent; ++k) {
          offsets.push_back((part.start + k) * stride);
        }
      }
      stride *= sizes[dim];
      offsets_.insert(offsets_.begin(), std::move(offsets));
    }
    if (!at_.empty()) Restart();
  }

  int64_t Next() {
    if (at_.empty()) return 0;  // of a scalar
    const size_t last = at_.size() - 1;
    const int64_t index = outer_ + offsets_[last][at_[last]];
    if (++at_[last] == offsets_[last].size()) {
      size_t dim = last;
      while (dim > 0 && at_[dim] == offsets_[dim].size()) {
        at_[dim] = 0;
        ++at_[--dim];
      }
      if (at_[0] < offsets_[0].size()) Restart();
    }
    return index;
  }

 private:
  void Restart() {
    outer_ = 0;
    for (size_t dim = 0; dim + 1 < at_.size(); ++dim) {
      if (!offsets_[dim].empty()) outer_ += offsets_[dim][at_[dim]];
    }
  }

  std::vector<std::vector<int64_t>> offsets_;  // by dim, of its indices
  std::vector<size_t> at_;
  int64_t outer_ = 0;  // of all dims but the last
};

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
  const bool f16 = value.scalar_type() == at::kHalf;
  WholeIndices at(whole_sizes(i), parameter.block);
  for (int64_t n = 0; n < value.numel(); ++n) {
    const uint64_t hash = Scramble(key + static_cast<uint64_t>(at.Next()));
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
  state.spec = spec(i);
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
