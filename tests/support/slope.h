// The slope of a sum of losses along a direction, in f64: by the backward graph, and by finite
// differences.
#pragma once

#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "autodiff/vjp.h"
#include "backends/cpu/backend.h"
#include "program/bound_program.h"
#include "support/models.h"
#include "train/optimizer/gradients.h"

namespace lamina::testing {

class Slope {
 public:
  // The slope of the sum of weight * loss over the named terms of `graph`, in f64. `bind`
  // binds whatever else it reads.
  Slope(const decoder::Model& model, const TestModel& from, decoder::ModelGraph graph,
        program::LossScales scales, std::function<void(program::BoundProgram&)> bind)
      : model_(model),
        graph_(std::move(graph)),
        weights_(std::move(scales)),
        bind_(std::move(bind)) {
    const weights::Weights weights = load_weights(from, model, DType::f64);
    for (const auto& p : model.parameters().all()) {
      const auto values = host_view<double>(weights.pointers()[values_.size()]);
      values_.emplace_back(values.begin(), values.begin() + p.num_elements());
    }
  }

  struct Slopes {
    double of_backward = 0, measured = 0;
  };

  // Returns both slopes along a random direction.
  Slopes along(unsigned seed) const {
    constexpr double kStep = 1e-6;
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    auto above = values_, below = values_;
    const auto gradients = backward();
    Slopes out;
    for (std::size_t i = 0; i < values_.size(); ++i)
      for (std::size_t k = 0; k < values_[i].size(); ++k) {
        const double direction = normal(random) / 30;
        out.of_backward += gradients[i][k] * direction;
        above[i][k] += kStep * direction;
        below[i][k] -= kStep * direction;
      }
    out.measured = (loss_at(above) - loss_at(below)) / (2 * kStep);
    return out;
  }

  double loss() const { return loss_at(values_); }
  // One per parameter.
  std::vector<std::vector<double>> backward() const {
    program::BoundProgram program(
        train::add_gradients(graph_, model_.parameters(), autodiff::save_everything()),
        cpu::cpu_backend());
    std::vector<std::vector<double>> out;
    for (const auto& v : values_) out.emplace_back(v.size());
    program.bind_gradients(tensors_of(out));
    program.set_loss_scales(weights_);
    run(program, values_);
    return out;
  }

 private:
  double run(program::BoundProgram& program, const std::vector<std::vector<double>>& values) const {
    program.bind_parameters(parameters_of(values));
    bind_(program);
    const auto arena = cpu::cpu_backend().allocate(program.arena_bytes());
    program.run(*arena);
    double out = 0;
    for (const auto& [name, weight] : weights_) out += weight * program.loss(name);
    return out;
  }
  double loss_at(const std::vector<std::vector<double>>& values) const {
    program::BoundProgram program(graph_, cpu::cpu_backend());
    return run(program, values);
  }

  const decoder::Model& model_;
  decoder::ModelGraph graph_;
  program::LossScales weights_;
  std::function<void(program::BoundProgram&)> bind_;
  std::vector<std::vector<double>> values_;
};

}  // namespace lamina::testing
