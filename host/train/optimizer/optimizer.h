// The optimizer: one update of every parameter, each by small programs over one tensor.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "config/sections.h"
#include "program/host_values.h"
#include "program/tensor_programs.h"
#include "train/optimizer/fused_adamw.h"
#include "train/optimizer/gradient_tensors.h"
#include "train/optimizer/train_state.h"
#include "train/optimizer/update_rules.h"
#include "train/optimizer/weight_changes.h"

namespace lamina::train {

// What clips a gradient of this norm to `limit`; 0 = none.
double clip_scale(double norm, double limit);

class Optimizer {
 public:
  // Parameters that do not learn are left alone.
  Optimizer(const decoder::ParameterTable& parameters, const config::OptimizerSection& config,
            const Backend& backend);

  // averages() += (1 - decay) (masters() - averages()), where there are averages.
  void average(const TrainState& state, double decay);

  // The L2 norm of all gradients, each times its group's multiplier, summed in f64 in the order of
  // the parameters. Rows of a list are there once each. Of gradients that share memory as measure()
  // found it since the last call.
  double gradient_norm(const TrainState& state);
  // The norm of one parameter's gradient.
  double measure(const TrainState& state, int parameter);

  GradientTensors& gradients() { return gradients_; }
  const GradientTensors& gradients() const { return gradients_; }

  // One update of every parameter, and with optimizer.lazy_embeddings of the listed rows alone
  // where the gradient is a list. Learning rate `lr`; gradients are multiplied by `gradient_scale`
  // (clipping). `step` counts from 0.
  void update(const TrainState& state, double lr, double gradient_scale, std::int64_t step) {
    update(state, lr, std::vector<double>(parameters_.all().size(), gradient_scale), step);
  }
  // With a scale for each parameter. Those whose gradients share memory have been updated.
  void update(const TrainState& state, double lr, const std::vector<double>& gradient_scales,
              std::int64_t step);
  // Of one parameter.
  void update(const TrainState& state, int parameter, double lr, double gradient_scale,
              std::int64_t step);

  // What clips to `norm` the global norm, or with `each` that of every parameter; 0 = none. Of the
  // gradients that gradient_norm() saw last.
  std::vector<double> clip_scales(double norm, bool each) const;

  // Memory that updates take beside the state: temporaries, and the whole gradient of the largest
  // table of which a rule spreads the list. `lists` are the state's, `compute` is the type of its
  // copies. Compiles what update() runs.
  std::size_t scratch_bytes(const GradientLists& lists, DType compute);

  // Where its programs run, and others that run between them.
  program::ProgramArena& arena() { return arena_; }

 private:
  // What averages() of so many elements become.
  struct Average {
    std::int64_t elements;
    double decay;
    auto operator<=>(const Average&) const = default;
  };
  // What one run of an update's program changes: so many elements from `first` on.
  struct Piece {
    UpdateKind kind;
    std::int64_t first = 0;
  };
  std::vector<Piece> pieces_of(int parameter, UpdateRule rule, bool copy) const;
  FusedAdamw fused_of(int parameter, std::int64_t slots, bool copy) const;
  bool is_fused(UpdateRule rule) const;
  // The scalars of an update, which the program reads after the next scalars_.send().
  void set_scalars(int parameter, double lr, double gradient_scale, std::int64_t step);
  void run_update(const TrainState& state, int parameter);
  // The fused kernel of AdamW in f32, and the graphs of update_rules.h for all else.
  void update_adamw(const TrainState& state, int parameter);
  void update_by_rule(const TrainState& state, int parameter, UpdateRule rule);
  void update_piece(const TrainState& state, int parameter, const Piece& piece,
                    const TensorRef& gradient);
  // The whole gradient, also of a list of rows.
  TensorRef whole_gradient(const TrainState& state, int parameter);

  const decoder::ParameterTable& parameters_;
  config::OptimizerSection config_;
  program::ProgramArena arena_;
  GradientTensors gradients_;
  program::TensorPrograms<FusedAdamw> fused_;
  program::TensorPrograms<UpdateKind> updates_;
  program::TensorPrograms<Average> averages_;
  program::HostValues scalars_;  // one input per parameter
  std::unique_ptr<Buffer> spread_;
  std::vector<double> norms_;       // of each gradient
  std::map<int, double> measured_;  // sums of squares that measure() found
  double global_norm_ = 0;
};

}  // namespace lamina::train
