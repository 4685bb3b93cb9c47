// The optimizer: one update of every parameter, by programs over the tensors of several.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/sections.h"
#include "program/host_values.h"
#include "program/tensor_programs.h"
#include "train/optimizer/gradient_tensors.h"
#include "train/optimizer/rule_programs.h"
#include "train/optimizer/state_buffers.h"
#include "train/optimizer/train_state.h"
#include "train/optimizer/update_kinds.h"
#include "train/optimizer/weight_changes.h"

namespace lamina::train {

// Returns the factor that clips a gradient of this norm to `limit`; 1 if `limit` is 0.
double clip_scale(double norm, double limit);
inline constexpr double kClipMargin = 1e-6;  // added to the norm

class Optimizer {
 public:
  // Does not change parameters that do not learn. State in host memory is copied to the device for
  // each update, and back (StateBuffers).
  Optimizer(const decoder::ParameterTable& parameters, const config::OptimizerSection& config,
            const Backend& backend);

  // averages() += (1 - decay) (masters() - averages()), for each average.
  void average(const TrainState& state, double decay);

  // Returns the L2 norm of all gradients, each times its group's multiplier, summed in f64 in the
  // order of the parameters. Rows of a list count once. For gradients that share memory it uses
  // what measured() was given since the last call.
  double gradient_norm(const TrainState& state);
  // Takes the sum of squares of a gradient that the backward pass measured.
  void measured(int parameter, double sum_of_squares);

  const decoder::ParameterTable& parameters() const { return parameters_; }
  GradientTensors& gradients() { return gradients_; }
  const GradientTensors& gradients() const { return gradients_; }

  // Updates every parameter once; with optimizer.lazy_embeddings only the listed rows if the
  // gradient is a list. Learning rate `lr`; gradients are multiplied by `gradient_scale`
  // (clipping). `step` counts from 0.
  void update(const TrainState& state, double lr, double gradient_scale, std::int64_t step) {
    update(state, lr, std::vector<double>(parameters_.all().size(), gradient_scale), step);
  }
  // With a scale per parameter. Skips parameters whose gradients share memory: they were updated.
  void update(const TrainState& state, double lr, const std::vector<double>& gradient_scales,
              std::int64_t step);
  // Updates layers between the rounds of a backward pass (backward_rounds.h), each round once, with
  // the scalars f32[6] of each parameter, which are on the device. The calls of a pass are between
  // begin_rounds() and end_rounds().
  void begin_rounds(const TrainState& state);
  void update_round(const TrainState& state, std::size_t round,
                    std::span<const ConstTensorRef> scalars);
  void end_rounds();
  // Returns the factor from the gradient of a parameter to the gradient of the weight behind it.
  double multiplier(int parameter) const { return parameters_[parameter].learning.multiplier; }
  // Returns the scalars of a parameter's update. `gradient_scale` clips.
  std::array<float, kNumScalars> scalars(int parameter, double lr, double gradient_scale,
                                         std::int64_t step) const;

  // Returns the factors that clip the global norm, or with `each` the norm of every parameter, to
  // `norm`; 0 = none. Uses the gradients of the last gradient_norm().
  std::vector<double> clip_scales(double norm, bool each) const;

  // Returns the bytes that updates take beside the state: temporaries, and the largest whole
  // gradient that a rule makes from a list, and buffers for state in host memory. `lists` are the
  // state's, `compute` is the type of its copies. Compiles the programs of update().
  std::size_t scratch_bytes(const GradientLists& lists, DType compute);
  // Returns the scratch_bytes() of all updates of a step, also between rounds.
  std::size_t update_bytes(const GradientLists& lists, DType compute);

  // Appends the addresses on which the work of updates depends, beside the state's: they may change
  // if more memory is needed.
  void add_addresses(std::vector<Address>& to) const;

  // The arena of its programs, and of others that run between them.
  program::ProgramArena& arena() { return arena_; }
  // Updates add their events to the trace; null: no trace.
  void set_trace(Trace* trace) {
    arena_.set_trace(trace);
    buffers_.set_trace(trace);
  }

 private:
  // The update of an average.
  struct Average {
    std::int64_t elements;
    double decay;
    auto operator<=>(const Average&) const = default;
  };
  // The updates of a round.
  struct Round {
    std::vector<std::vector<FusedPart>> fused;
    std::vector<std::vector<UpdatePiece>> by_rule;
  };
  void find_rounds(const TrainState& state);
  // Returns the scalars of an update: the host's, or during a round the device's.
  ConstTensorRef scalars_of(int parameter) const;
  void set_scalars(int parameter, double lr, double gradient_scale, std::int64_t step);
  // Uses the fused kernels of AdamW in f32; the graphs of update_rules.h do all else.
  void update_fused(const TrainState& state, const std::vector<FusedPart>& group);
  void update_by_rule(const TrainState& state, const std::vector<UpdatePiece>& group);
  void find_updates(const TrainState& state);
  void begin_transfers(const TrainState& state);
  // Returns the gradient of a piece, also of a list of rows: the pieces of such a parameter follow
  // each other.
  TensorRef gradient_of(const TrainState& state, const UpdatePiece& piece);

  const decoder::ParameterTable& parameters_;
  config::OptimizerSection config_;
  std::int64_t max_piece_;
  program::ProgramArena arena_;
  StateBuffers buffers_;
  // Found at the first update or average.
  std::optional<std::vector<std::vector<FusedPart>>> groups_;
  std::vector<std::vector<UpdatePiece>> rule_groups_;
  StateSizes sizes_;
  std::vector<Round> rounds_;  // found at the first begin_rounds()
  StateSizes round_sizes_;
  std::map<int, ConstTensorRef> round_scalars_;  // of the round under way
  GradientTensors gradients_;
  program::TensorPrograms<std::vector<FusedAdamw>> fused_;
  RulePrograms updates_;
  program::TensorPrograms<Average> averages_;
  program::HostValues scalars_;  // one input per parameter
  std::unique_ptr<Buffer> spread_;
  std::vector<double> norms_;       // of each gradient
  std::map<int, double> measured_;  // sums of squares from measured()
  double global_norm_ = 0;
};

}  // namespace lamina::train
