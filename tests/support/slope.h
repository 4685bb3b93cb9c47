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

// A loss of the graph, the input for its cotangent, and the cotangent.
struct WeightedLoss {
  decoder::Output loss;
  decoder::Input scale;
  double weight = 1;
};

class Slope {
 public:
  // `graph` computes in f64. `bind` binds all other inputs.
  Slope(const decoder::Model& model, const TestModel& from, decoder::ModelGraph graph,
        std::vector<WeightedLoss> losses, std::function<void(program::BoundProgram&)> bind)
      : model_(model),
        graph_(std::move(graph)),
        losses_(std::move(losses)),
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
    std::vector<double> weights;
    for (const WeightedLoss& of : losses_) weights.push_back(of.weight);
    for (std::size_t i = 0; i < losses_.size(); ++i) program.bind(losses_[i].scale, &weights[i]);
    run(program, values_);
    return out;
  }

 private:
  double run(program::BoundProgram& program, const std::vector<std::vector<double>>& values) const {
    program.bind_parameters(parameters_of(values));
    bind_(program);
    std::vector<double> sums(losses_.size());
    for (std::size_t i = 0; i < losses_.size(); ++i) program.bind(losses_[i].loss, &sums[i]);
    std::vector<double> named(program.named_outputs().size());
    std::size_t next = 0;
    for (const auto& output : program.named_outputs())
      program.bind_output(output.index, &named[next++]);
    const auto arena = cpu::cpu_backend().allocate(program.arena_bytes());
    program.run(*arena);
    double out = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) out += losses_[i].weight * sums[i];
    return out;
  }
  double loss_at(const std::vector<std::vector<double>>& values) const {
    program::BoundProgram program(graph_, cpu::cpu_backend());
    return run(program, values);
  }

  const decoder::Model& model_;
  decoder::ModelGraph graph_;
  std::vector<WeightedLoss> losses_;
  std::function<void(program::BoundProgram&)> bind_;
  std::vector<std::vector<double>> values_;
};

}  // namespace lamina::testing
