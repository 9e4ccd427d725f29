// Adafactor (Shazeer and Stern, "Adafactor: Adaptive Learning Rates with
// Sublinear Memory Cost") with the defaults of transformers' Trainer.
//
// Of a matrix, only means over rows and columns of squared gradients are
// kept. Means and the RMS of an update are of the whole tensor: where a
// parameter is split, each rank's sums are added up over ranks, those of all
// parameters by one collective.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/status.h"
#include "runtime/optimizer/families.h"
#include "runtime/optimizer/flat_reduce.h"
#include "runtime/optimizer/square_sum.h"

namespace tp {
namespace {

class Adafactor : public Optimizer {
 public:
  Adafactor(const OptimizerOptions& options, ParameterStore store,
            std::vector<double> decay, std::vector<Communicator*> axes)
      : options_(options),
        store_(std::move(store)),
        decay_(std::move(decay)),
        axes_(std::move(axes)),
        slots_(store_.size()) {
    for (int i = 0; i < store_.size(); ++i) {
      const at::Tensor value = store_.parameter(i).value;
      const auto dtype = at::dtype(store_.math_dtype(i));
      Slot& slot = slots_[i];
      if (value.dim() < 2) {
        slot.square = at::zeros(value.sizes(), dtype);
        continue;
      }
      std::vector<int64_t> sizes = value.sizes().vec();
      const int64_t last = sizes.back();
      sizes.pop_back();
      slot.row = at::zeros(sizes, dtype);
      sizes.back() = last;
      slot.col = at::zeros(sizes, dtype);
    }
  }

  absl::Status Step(int64_t step, double lr,
                    llvm::ArrayRef<at::Tensor> gradients) override {
    decay2_ = 1 - std::pow(static_cast<double>(step), options_.decay_rate);
    TP_RETURN_IF_ERROR(UpdateMeans(gradients));
    TP_RETURN_IF_ERROR(MeansOfRows(gradients));
    TP_RETURN_IF_ERROR(SquareSums(gradients));
    for (int i = 0; i < store_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const double rms = std::sqrt(slots_[i].sum.item<double>() / Elements(i));
      at::Tensor update = slots_[i].update.defined()
                              ? std::move(slots_[i].update)
                              : Update(i, gradients[i]);
      slots_[i].update.reset();
      update.mul_(lr / std::max(1.0, rms / options_.clip_threshold));
      at::Tensor value = store_.Load(i);
      if (decay_[i] != 0) value.mul_(1 - decay_[i] * lr);
      store_.Store(i, value.sub_(update), step);
    }
    return absl::OkStatus();
  }

  std::vector<OptimizerState> State() const override {
    std::vector<OptimizerState> states;
    for (int i = 0; i < store_.size(); ++i) {
      const Slot& slot = slots_[i];
      if (slot.square.defined()) {
        states.push_back(store_.StateOf(i, "square", slot.square));
        continue;
      }
      states.push_back(MeanState(i, "row", slot.row));
      states.push_back(MeanState(i, "col", slot.col));
    }
    store_.AddMasters(states);
    return states;
  }

 private:
  struct Slot {
    at::Tensor row;     // means over the last dim
    at::Tensor col;     // means over the last dim but one
    at::Tensor square;  // of parameters with fewer than 2 dims
    // Of the current step.
    at::Tensor row_now, col_now;
    at::Tensor mean_of_rows;
    at::Tensor update;  // undefined: to be computed again
    at::Tensor sum;     // of squares of the update
  };

  bool Factored(int i) const { return slots_[i].row.defined(); }
  // Whether sums over that dim (counted from the end) need the other ranks of
  // the axis.
  bool IsSplit(size_t i, size_t axis, int64_t dim_from_end) const {
    const Placement& placement = store_.spec(static_cast<int>(i))[axis];
    return placement.is_shard() && placement.dim() == DimOf(i, dim_from_end);
  }
  int64_t DimOf(size_t i, int64_t dim_from_end) const {
    return store_.parameter(static_cast<int>(i)).value.dim() - dim_from_end;
  }
  // Adds up over ranks what is to be of the whole tensor; `sums` is by
  // parameter.
  absl::Status AddUp(llvm::ArrayRef<at::Tensor*> sums,
                     llvm::function_ref<bool(size_t i, size_t axis)> is_split,
                     const char* what) {
    if (options_.per_shard) return absl::OkStatus();
    return SumOverAxes(sums, axes_, is_split, what);
  }
  double SizeOf(int i, int64_t dim_from_end) const {
    const at::Tensor& value = store_.parameter(i).value;
    const int64_t dim = value.dim() - dim_from_end;
    const int64_t size =
        options_.per_shard ? value.size(dim) : store_.whole_sizes(i)[dim];
    return static_cast<double>(std::max<int64_t>(size, 1));
  }
  double Elements(int i) const {
    const int64_t elements = options_.per_shard
                                 ? store_.parameter(i).value.numel()
                                 : store_.whole_numel(i);
    return static_cast<double>(std::max<int64_t>(elements, 1));
  }

  absl::Status UpdateMeans(llvm::ArrayRef<at::Tensor> gradients) {
    std::vector<at::Tensor*> means;  // two of each parameter
    for (int i = 0; i < store_.size(); ++i) {
      Slot& slot = slots_[i];
      means.insert(means.end(), {&slot.row_now, &slot.col_now});
      if (!gradients[i].defined()) continue;
      const at::Tensor gradient = store_.Gradient(i, gradients[i]);
      at::Tensor square = gradient.square().add_(options_.eps1);
      if (!Factored(i)) {
        slot.square.mul_(decay2_).add_(square, 1 - decay2_);
        continue;
      }
      slot.row_now = square.sum({-1}).div_(SizeOf(i, 1));
      slot.col_now = square.sum({-2}).div_(SizeOf(i, 2));
    }
    TP_RETURN_IF_ERROR(AddUp(
        means,
        [&](size_t mean, size_t axis) {
          return IsSplit(mean / 2, axis, mean % 2 == 0 ? 1 : 2);
        },
        "adafactor.means"));
    for (int i = 0; i < store_.size(); ++i) {
      if (!gradients[i].defined() || !Factored(i)) continue;
      Slot& slot = slots_[i];
      slot.row.mul_(decay2_).add_(slot.row_now, 1 - decay2_);
      slot.col.mul_(decay2_).add_(slot.col_now, 1 - decay2_);
      slot.row_now.reset();
      slot.col_now.reset();
    }
    return absl::OkStatus();
  }

  absl::Status MeansOfRows(llvm::ArrayRef<at::Tensor> gradients) {
    std::vector<at::Tensor*> means;
    for (int i = 0; i < store_.size(); ++i) {
      Slot& slot = slots_[i];
      slot.mean_of_rows.reset();
      means.push_back(&slot.mean_of_rows);
      if (!gradients[i].defined() || !Factored(i)) continue;
      slot.mean_of_rows =
          slot.row.sum({-1}, /*keepdim=*/true).div_(SizeOf(i, 2));
    }
    return AddUp(
        means, [&](size_t i, size_t axis) { return IsSplit(i, axis, 2); },
        "adafactor.mean_of_rows");
  }

  // The step before it is scaled; in the place of a gradient that has the
  // dtype of the math.
  at::Tensor Update(int i, const at::Tensor& gradient) const {
    const Slot& slot = slots_[i];
    const at::Tensor own = store_.Gradient(i, gradient);
    if (!Factored(i)) return own.mul_(slot.square.rsqrt());
    const at::Tensor rows =
        slot.row.div(slot.mean_of_rows).rsqrt_().unsqueeze(-1);
    const at::Tensor cols = slot.col.rsqrt().unsqueeze(-2);
    return own.mul_(rows).mul_(cols);
  }

  absl::Status SquareSums(llvm::ArrayRef<at::Tensor> gradients) {
    std::vector<at::Tensor*> sums;
    for (int i = 0; i < store_.size(); ++i) {
      Slot& slot = slots_[i];
      slot.sum.reset();
      sums.push_back(&slot.sum);
      if (!gradients[i].defined()) continue;
      const at::Tensor update = Update(i, gradients[i]);
      slot.sum = at::scalar_tensor(SquareSum(update), at::kDouble);
      // Of 16-bit gradients, the update is computed twice: f32 copies of all
      // of them at once would be the largest thing in memory.
      if (update.is_same(gradients[i])) slot.update = update;
    }
    return AddUp(
        sums,
        [&](size_t i, size_t axis) {
          return store_.spec(static_cast<int>(i))[axis].is_shard();
        },
        "adafactor.rms");
  }

  // The state lies as the parameter does in the dims it keeps.
  OptimizerState MeanState(int i, const char* name, at::Tensor value) const {
    OptimizerState state = store_.StateOf(i, name, std::move(value));
    const auto ndim = static_cast<int>(state.sizes.size());
    const bool row = name[0] == 'r';
    const int dropped = row ? ndim - 1 : ndim - 2;
    state.sizes.erase(state.sizes.begin() + dropped);
    bool own = false;  // each rank has its own values
    for (Placement& placement : state.spec) {
      if (!placement.is_shard()) continue;
      const int dim = placement.dim();
      if (dim == dropped) {
        own = options_.per_shard;
        placement = Placement::Replicate();
      } else if (dim > dropped) {
        placement = Placement::Shard(dim - 1, placement.factor());
      }
    }
    for (Placement& placement : state.spec) {
      if (own && placement.is_replicate()) placement = Placement::Partial();
    }
    return state;
  }

  const OptimizerOptions options_;
  ParameterStore store_;
  const std::vector<double> decay_;
  const std::vector<Communicator*> axes_;
  std::vector<Slot> slots_;
  double decay2_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdafactor(const OptimizerOptions& options,
                                         ParameterStore store,
                                         std::vector<double> decay,
                                         std::vector<Communicator*> axes) {
  return std::make_unique<Adafactor>(options, std::move(store),
                                     std::move(decay), std::move(axes));
}

}  // namespace tp
