// The optimizer: small programs over one tensor each, run for every parameter.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "config/run_config.h"
#include "runtime/program.h"
#include "train/train_state.h"

namespace lamina::train {

class Optimizer {
 public:
  // Parameters that are not trained are left alone.
  Optimizer(const decoder::ParameterTable& parameters, const config::OptimizerSection& config,
            const Backend& backend);

  // The L2 norm of all gradients, summed in f64 in the order of the parameters.
  double gradient_norm(const TrainState& state);

  // The first parameter whose gradient holds a NaN or infinity, with the index of the element.
  struct BadElement {
    int parameter;
    std::int64_t element;
    float value;
  };
  std::optional<BadElement> first_non_finite(const TrainState& state) const;

  // gradients() += more_gradients(), for every parameter.
  void accumulate(const TrainState& state);

  // One update with learning rate `lr`; gradients are multiplied by `gradient_scale` (clipping).
  // `step` counts from 0.
  void update(const TrainState& state, double lr, double gradient_scale, std::int64_t step);

 private:
  Program& program(const std::string& kind, const decoder::Parameter& p, bool copy);

  const decoder::ParameterTable& parameters_;
  config::OptimizerSection config_;
  const Backend& backend_;
  // By kind, number of elements, decay, copy.
  std::map<std::tuple<std::string, std::int64_t, bool, bool>, std::unique_ptr<Program>> programs_;
  std::unique_ptr<Buffer> arena_;
};

}  // namespace lamina::train
