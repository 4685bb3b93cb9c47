// Every block's gradient, in f64: along a direction in each tensor, what the backward graph gives
// is the slope that finite differences of the loss give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backends/cpu/backend.h"
#include "program/bound_program.h"
#include "support/goldens.h"
#include "support/models.h"
#include "train/gradients.h"

namespace lamina::testing {
namespace {

using decoder::Input;
using decoder::Output;

constexpr double kZLossScale = 1e-2;

class Gradient : public ::testing::TestWithParam<TestModel> {
 protected:
  Gradient() : model(open_model(GetParam().path)), rows(packed_rows(model)) {
    weights::Weights weights = load_weights(GetParam(), model, DType::f64);
    const auto& all = model.parameters().all();
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t bytes = static_cast<std::size_t>(all[i].num_elements()) *
                          static_cast<std::size_t>(size_bytes(all[i].used_dtype(DType::f64)));
      parameters.emplace_back(bytes);
      std::memcpy(parameters[i].data(), weights.pointers()[i], bytes);
    }
  }

  // Two documents in a row: blocks must stop at the border between them in backward as well.
  static Rows packed_rows(const decoder::Model& of) {
    std::int64_t tokens = test_tokens(of);
    if (of.length_dependent_from()) return random_rows(of, 1, tokens, 5);
    return pack({random_rows(of, 1, tokens * 3 / 5, 5), random_rows(of, 1, tokens / 3, 6)}, tokens);
  }

  decoder::ModelGraph loss_graph() const {
    return model.loss_graph({.tokens = rows.tokens, .dtype = DType::f64}, {.segments = true});
  }

  // The program with everything but its results bound.
  void prepare(program::BoundProgram& program) {
    auto writable = [](const std::vector<std::int32_t>& v) {
      return const_cast<std::int32_t*>(v.data());
    };
    std::vector<void*> pointers;
    for (auto& p : parameters) pointers.push_back(p.data());
    program.bind_parameters(pointers);
    program.bind(Input::tokens, writable(rows.ids));
    program.bind(Input::labels, writable(rows.labels));
    program.bind(Input::positions, writable(rows.positions));
    program.bind(Input::segments, writable(rows.segments));
  }

  double* elements(std::size_t parameter) {
    return reinterpret_cast<double*>(parameters[parameter].data());
  }

  decoder::Model model;
  Rows rows;
  std::vector<std::vector<std::byte>> parameters;
};

TEST_P(Gradient, IsTheSlopeOfFiniteDifferencesAlongADirectionInEveryTensor) {
  const Backend& backend = cpu::cpu_backend();
  double loss = 0, z_loss = 0, one = 1, z_scale = kZLossScale;
  program::BoundProgram forward(loss_graph(), backend);
  prepare(forward);
  forward.bind(Output::loss, &loss);
  forward.bind(Output::z_loss, &z_loss);
  auto arena = backend.allocate(forward.arena_bytes());
  auto objective = [&] {
    forward.run(arena->data());
    return loss + kZLossScale * z_loss;
  };

  program::BoundProgram backward(
      train::add_gradients(loss_graph(), model.parameters(), autodiff::save_everything()), backend);
  prepare(backward);
  std::vector<std::vector<double>> gradients;
  std::vector<void*> pointers;
  for (const decoder::Parameter& p : model.parameters().all()) {
    gradients.emplace_back(static_cast<std::size_t>(p.num_elements()));
    pointers.push_back(gradients.back().data());
  }
  backward.bind_gradients(pointers);
  backward.bind(Input::loss_scale, &one);
  backward.bind(Input::z_loss_scale, &z_scale);
  backward.bind(Output::loss, &loss);
  backward.bind(Output::z_loss, &z_loss);
  auto backward_arena = backend.allocate(backward.arena_bytes());
  backward.run(backward_arena->data());

  std::mt19937 random(31);
  std::normal_distribution<double> normal;
  double largest = 0;
  for (const auto& g : gradients)
    for (double x : g) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    if (!p.desc.trained || p.used_dtype(DType::f64) != DType::f64) continue;
    const std::vector<double>& gradient = gradients[i];
    std::vector<double> kept(elements(i), elements(i) + gradient.size());
    std::vector<double> direction;
    double slope = 0, length = 0, steepest = 0;
    for (double g : gradient) {
      direction.push_back(normal(random));
      slope += g * direction.back();
      length += direction.back() * direction.back();
      steepest += g * g;
    }
    length = std::sqrt(length);
    // Small beside what rounding to f32 moves: a choice of experts must not flip.
    constexpr double kStep = 1e-6;
    auto objective_at = [&](double shift) {
      for (std::size_t e = 0; e < kept.size(); ++e)
        elements(i)[e] = kept[e] + shift * direction[e] / length;
      return objective();
    };
    const double measured = (objective_at(kStep) - objective_at(-kStep)) / (2 * kStep);
    std::copy(kept.begin(), kept.end(), elements(i));
    EXPECT_NEAR(slope / length, measured,
                1e-4 * std::sqrt(steepest / static_cast<double>(kept.size())) + 1e-6 * largest)
        << p.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Gradient, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
