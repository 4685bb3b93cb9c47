// train.label_smoothing: equals PyTorch's cross entropy with label_smoothing, computed from the
// numbers of a step; steps without it are unchanged.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "support/models.h"
#include "train/loop/train_step.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kRows = 2, kTokens = 12;
constexpr double kSmoothing = 0.1;

// One step's loss and gradients.
struct Smoothed {
  decoder::Model model;
  std::unique_ptr<train::TrainState> state;
  program::Rows rows;
  train::StepResult result;

  explicit Smoothed(double smoothing)
      : model(open_model(test_model("llama2_deep").path)),
        state(load_state(test_model("llama2_deep"), model)),
        rows(random_rows(model, kRows, kTokens)) {
    rows.labels[3] = -100;
    train::TrainStep step(model, *state,
                          {.shape = {kRows, kTokens},
                           .features = train::all_losses(false),
                           .label_smoothing = smoothing},
                          {}, cpu::cpu_backend());
    const program::Microbatch batch = rows.microbatch();
    result = step.gradients({&batch, 1}, 0);
  }

  std::vector<float> gradient(int parameter) const {
    const auto* g = floats(state->gradients()[static_cast<std::size_t>(parameter)]);
    return {g, g + model.parameters()[parameter].num_elements()};
  }
};

// mean over counted labels of (1 - s) (-log p[label]) + s mean over v of (-log p[v]), in f64: the
// definition of torch.nn.functional.cross_entropy(..., label_smoothing=s).
double torch_loss(const Smoothed& s, double smoothing) {
  std::vector<float> logits = forward(s.model, s.state->used(), s.rows);
  const auto vocabulary = static_cast<std::size_t>(s.model.vocab_size());
  double sum = 0, counted = 0;
  for (std::size_t row = 0; row < s.rows.labels.size(); ++row) {
    if (s.rows.labels[row] < 0) continue;
    const float* x = logits.data() + row * vocabulary;
    double total = 0, mean = 0;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      total += std::exp(static_cast<double>(x[v]));
      mean += static_cast<double>(x[v]) / static_cast<double>(vocabulary);
    }
    const double lse = std::log(total);
    sum += (1 - smoothing) * (lse - static_cast<double>(x[s.rows.labels[row]])) +
           smoothing * (lse - mean);
    ++counted;
  }
  return sum / counted;
}

TEST(LabelSmoothing, EqualsThePyTorchLoss) {
  const Smoothed with(kSmoothing);
  EXPECT_NEAR(with.result.total, torch_loss(with, kSmoothing), 1e-5 * with.result.total);
  EXPECT_NE(with.result.total, with.result.loss);
}

TEST(LabelSmoothing, ReportsTheLossOfTheLabels) {
  const Smoothed with(kSmoothing), without(0);
  EXPECT_EQ(with.result.loss, without.result.loss);
  EXPECT_EQ(without.result.total, without.result.loss);
  EXPECT_NEAR(with.result.loss, torch_loss(with, 0), 1e-5 * with.result.loss);
}

// The gradient is linear in the smoothing.
TEST(LabelSmoothing, GradientEqualsTheSumOfBothLosses) {
  const Smoothed none(0), half(0.5), quarter(0.25);
  for (int p = 0; p < static_cast<int>(none.model.parameters().all().size()); ++p) {
    const std::vector<float> a = none.gradient(p), b = half.gradient(p), c = quarter.gradient(p);
    double largest = 0, error = 0, moved = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(a[i])));
      moved = std::max(moved, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
      error = std::max(error, std::abs((static_cast<double>(a[i]) + static_cast<double>(b[i])) / 2 -
                                       static_cast<double>(c[i])));
    }
    EXPECT_LE(error, 1e-5 * largest) << none.model.parameters()[p].name;
    EXPECT_GT(moved, 0) << none.model.parameters()[p].name;
  }
}

}  // namespace
}  // namespace lamina::testing
