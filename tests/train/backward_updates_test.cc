// Updates in the backward pass equal updates after it, with less memory.
#include "train/optimizer/backward_updates.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "support/models.h"
#include "train/family_cases.h"
#include "train/loop/train_step.h"
#include "train/optimizer/layer_gradients.h"

namespace lamina::testing {
namespace {

using Tensors = std::vector<std::vector<float>>;

// A training state and its steps.
struct Steps {
  Steps(const TestModel& from, const decoder::Model& of, train::TrainStepOptions step_options,
        config::OptimizerSection optimizer)
      : model(of), options(step_options) {
    options.in_backward = optimizer.in_backward;
    decoder::ModelGraph graph = train::step_graph(model, options);
    state = std::make_unique<train::TrainState>(
        model.parameters(), options.shape.dtype, false, cpu::cpu_backend(),
        train::step_lists(graph, model, options), optimizer);
    const auto weights = load_state(from, model, options.shape.dtype);
    for (std::size_t i = 0; i < state->masters().size(); ++i)
      std::copy_n(floats(weights->masters()[i]), model.parameters().all()[i].num_elements(),
                  floats(state->masters()[i]));
    state->refresh_copies();
    step = std::make_unique<train::TrainStep>(model, std::move(graph), *state, options, optimizer,
                                              cpu::cpu_backend());
  }

  // The norm of the gradient.
  double run(int number) {
    const Rows rows = random_rows(model, 1, options.shape.tokens, static_cast<unsigned>(number));
    const program::Microbatch batch = rows.microbatch();
    return step->run({&batch, 1}, 1e-2, number).gradient_norm;
  }

  const decoder::Model& model;
  train::TrainStepOptions options;
  std::unique_ptr<train::TrainState> state;
  std::unique_ptr<train::TrainStep> step;
};

// Steps with updates in the backward pass equal steps with updates after it.
void expect_the_same(const TestModel& from, const decoder::Model& model, DType dtype,
                     double clip_norm, config::OptimizerSection optimizer) {
  const train::TrainStepOptions options{.shape = {1, test_tokens(model), dtype},
                                        .features = train::all_losses(false),
                                        .remat = "full",
                                        .clip_norm = clip_norm,
                                        .clip_each = true,
                                        .seed = 5};
  Steps after(from, model, options, optimizer);
  optimizer.in_backward = true;
  Steps within(from, model, options, optimizer);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(within.run(i), after.run(i));
  const Tensors masters = copy_of(model, after.state->masters()),
                masters_within = copy_of(model, within.state->masters()),
                moments = copy_of(model, after.state->first_moments()),
                moments_within = copy_of(model, within.state->first_moments());
  for (std::size_t i = 0; i < masters.size(); ++i) {
    EXPECT_TRUE(same_bits(masters_within[i], masters[i])) << model.parameters().all()[i].name;
    EXPECT_TRUE(same_bits(moments_within[i], moments[i])) << model.parameters().all()[i].name;
  }
  EXPECT_LE(within.state->bytes(), after.state->bytes());
  // The layers of ALBERT share all parameters, so they are updated after the pass.
  if (from.name != "albert") {
    EXPECT_GT(within.state->lists().num_shared(), 0u);
  }
}

class BackwardUpdates : public ::testing::TestWithParam<FamilyCase> {
 protected:
  BackwardUpdates() : model(open_model(GetParam().model.path, GetParam().scan)) {}

  decoder::Model model;
};

TEST_P(BackwardUpdates, GiveTheBitsOfUpdatesAfterIt) {
  expect_the_same(GetParam().model, model, DType::f32, 0, {});
  expect_the_same(GetParam().model, model, DType::bf16, 0.05, {.name = "muon"});
}

TEST(RulesInTheBackwardPass, GiveTheBitsOfUpdatesAfterIt) {
  for (const config::OptimizerSection& optimizer :
       {config::OptimizerSection{.moments = "8bit"},
        config::OptimizerSection{.moments = "bfloat16"},
        config::OptimizerSection{.name = "sgd", .momentum = 0.9},
        config::OptimizerSection{.name = "lion"}, config::OptimizerSection{.name = "adafactor"}}) {
    SCOPED_TRACE(optimizer.name + " " + optimizer.moments);
    const decoder::Model model = open_model(test_model("llama2_deep").path);
    expect_the_same(test_model("llama2_deep"), model, DType::f32, 0.05, optimizer);
    expect_the_same(test_model("llama2_deep"), model, DType::bf16, 0, optimizer);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BackwardUpdates, ::testing::ValuesIn(family_cases()),
                         family_case_name);

std::size_t gradient_bytes(const decoder::Model& model, bool in_backward) {
  const train::TrainStepOptions options{.shape = {1, 8}, .in_backward = in_backward};
  const decoder::ModelGraph graph = train::step_graph(model, options);
  return train::train_bytes(model.parameters(), DType::f32, false,
                            train::step_lists(graph, model, options))
      .gradients;
}

TEST(GradientsOfLayers, TakeTheMemoryOfOneLayer) {
  const std::string keys =
      "family = \"llama2\"\n[model]\nvocab_size = 61\nhidden_size = 64\nintermediate_size = 128\n"
      "num_attention_heads = 2\nnum_hidden_layers = ";
  constexpr std::size_t kLayer = (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) * sizeof(float);
  for (const bool scan : {true, false}) {
    const decoder::Model four = open_description(keys + "4\n", scan),
                         nine = open_description(keys + "9\n", scan);
    EXPECT_EQ(gradient_bytes(nine, false) - gradient_bytes(four, false), 5 * kLayer);
    EXPECT_EQ(gradient_bytes(nine, true), gradient_bytes(four, true));
    EXPECT_EQ(gradient_bytes(four, false) - gradient_bytes(four, true), 3 * kLayer);
  }
}

// A layer's gradient is checked before it changes the layer.
TEST(GradientsOfLayers, ThatAreNotFiniteEndTheUpdates) {
  const TestModel& from = test_model("llama2_deep");
  const decoder::Model model = open_model(from.path);
  Steps steps(from, model, {.shape = {1, 8}, .features = train::all_losses(false)},
              {.in_backward = true});
  const int poisoned = model.parameters().find("layers.1.attention_norm.weight");
  ASSERT_GE(poisoned, 0);
  floats(steps.state->masters()[static_cast<std::size_t>(poisoned)])[0] = std::nanf("");
  const Tensors before = copy_of(model, steps.state->masters());
  try {
    steps.run(3);
    ADD_FAILURE() << "a NaN went through";
  } catch (const train::NumericalError& e) {
    EXPECT_THAT(e.what(), ::testing::StartsWith("step 4: the gradient of 'layers."));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("nothing was updated"));
  }
  const Tensors after = copy_of(model, steps.state->masters());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(after[i], before[i])) << model.parameters().all()[i].name;
}

}  // namespace
}  // namespace lamina::testing
