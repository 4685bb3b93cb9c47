// The optimizer: small programs over one tensor each, run for every parameter.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/sections.h"
#include "runtime/program.h"
#include "train/loop/non_finite.h"
#include "train/optimizer/train_state.h"
#include "train/optimizer/update_rules.h"

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
  // That of one parameter's.
  double measure(const TrainState& state, int parameter);

  // The first parameter whose gradient holds a NaN or infinity, with the index of the element.
  struct BadGradient {
    int parameter;
    BadElement at;
  };
  std::optional<BadGradient> first_non_finite(const TrainState& state) const;
  // In that of one parameter.
  std::optional<BadGradient> first_non_finite(const TrainState& state, int parameter) const;

  // Gradients become zero, but for lists of rows.
  void clear_sums(const TrainState& state);

  // Adds the lists of rows of a later microbatch to those of the step.
  void join_lists(const TrainState& state);

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

  // Its programs add their events to the trace; null: to none.
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  // What a program depends on. A whole tensor is `rows` of width 1, and has no slots.
  struct Kind {
    enum class Work { norm, clear, join, update, spread, average } work;
    std::int64_t rows, width = 1;
    std::int64_t slots = 0, more_slots = 0;  // of lists of rows
    double decay = 0;                        // of weights, or of their average
    bool copy = false;
    auto operator<=>(const Kind&) const = default;
  };
  Graph graph_of(const Kind& kind) const;
  void run(const Kind& kind, std::span<const ConstTensorRef> inputs,
           std::span<const TensorRef> outputs);
  // Compiles what `graph` gives, unless it is known.
  template <typename Make>
  void run(std::unique_ptr<Program>& program, Make graph, std::span<const ConstTensorRef> inputs,
           std::span<const TensorRef> outputs);
  // What one run of an update's program changes: so many elements from `first` on.
  struct Piece {
    UpdateKind kind;
    std::int64_t first = 0;
  };
  std::vector<Piece> pieces_of(int parameter, UpdateRule rule, bool copy) const;
  Kind adamw_kind(int parameter, std::int64_t slots, bool copy) const;
  Kind spread_kind(int parameter, std::int64_t slots) const;
  bool is_fused(UpdateRule rule) const;
  // The fused kernel of AdamW in f32, and the graphs of update_rules.h for all else.
  void update_adamw(const TrainState& state, int parameter, std::span<const float> scalars);
  void update_by_rule(const TrainState& state, int parameter, UpdateRule rule,
                      std::span<const float> scalars);
  void update_piece(const TrainState& state, int parameter, const Piece& piece,
                    const TensorRef& gradient, std::span<const float> scalars);
  // The whole gradient of a list of rows.
  TensorRef spread(const TrainState& state, int parameter);

  const decoder::ParameterTable& parameters_;
  config::OptimizerSection config_;
  const Backend& backend_;
  std::map<Kind, std::unique_ptr<Program>> programs_;
  std::map<UpdateKind, std::unique_ptr<Program>> updates_;
  std::unique_ptr<Buffer> arena_, spread_;
  std::vector<double> norms_;       // of each gradient
  std::map<int, double> measured_;  // sums of squares that measure() found
  double global_norm_ = 0;
  Trace* trace_ = nullptr;
};

}  // namespace lamina::train
