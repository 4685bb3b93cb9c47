// Hidden states as a separate result, and logits computed from them later.
#include "model/hidden_states.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backends/cpu/backend.h"
#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

class HiddenStates : public ::testing::TestWithParam<TestModel> {};

TEST_P(HiddenStates, GiveTheLogitsAndLayersOfAForwardPass) {
  const decoder::Model model = open_model(GetParam().path);
  const Backend& backend = cpu::cpu_backend();
  const weights::Weights weights = load_weights(GetParam(), model);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(
      std::min<std::int64_t>(11, model.config().max_positions().value_or(11))));
  std::iota(ids.begin(), ids.end(), 1);
  for (std::int32_t& id : ids) id %= static_cast<std::int32_t>(model.vocab_size());

  const model::HiddenStates states =
      model::hidden_states(model, weights.pointers(), ids, {.layers = true}, backend);
  const std::vector<float> later =
      model::logits_of(model, weights.pointers(), states.normed, DType::f32, backend);
  const inspect::ForwardResult whole =
      forward_with_hidden(model, weights.pointers(),
                          program::rows_of(ids, ids, 1, static_cast<std::int64_t>(ids.size())));
  EXPECT_LE(relative_difference(later, whole.logits), 1e-6);
  ASSERT_EQ(states.layers.size(), whole.hidden.size());
  for (std::size_t i = 0; i < whole.hidden.size(); ++i)
    EXPECT_LE(relative_difference(states.layers[i], whole.hidden[i]), 1e-6) << i;
}

TEST_P(HiddenStates, AreTheSameWithoutStatesOfLayers) {
  const decoder::Model model = open_model(GetParam().path);
  const weights::Weights weights = load_weights(GetParam(), model);
  const std::vector<std::int32_t> ids = {1, 0, 1};
  auto normed = [&](bool layers) {
    return model::hidden_states(model, weights.pointers(), ids, {.layers = layers},
                                cpu::cpu_backend())
        .normed;
  };
  EXPECT_LE(relative_difference(normed(false), normed(true)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Models, HiddenStates, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
