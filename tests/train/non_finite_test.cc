// For a step that is not finite the error names the first op with such a value, in every layer and
// both passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "support/goldens.h"
#include "support/models.h"
#include "train/loop/train_step.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kModel = R"(family = "llama2"
[model]
vocab_size = 61
hidden_size = 16
intermediate_size = 24
num_hidden_layers = 4
num_attention_heads = 2
)";

class NonFiniteStep : public ::testing::Test {
 protected:
  NonFiniteStep() { fresh_weights(); }

  void fresh_weights() {
    for (std::size_t i = 0; i < state.masters().size(); ++i)
      weights::initialise(model.parameters().all()[i], 0, master(i));
  }
  std::span<float> master(std::size_t parameter) {
    return {floats(state.masters()[parameter]),
            static_cast<std::size_t>(model.parameters().all()[parameter].num_elements())};
  }
  std::span<float> master(const std::string& name) {
    const int parameter = model.parameters().find(name);
    EXPECT_GE(parameter, 0) << name;
    return master(static_cast<std::size_t>(parameter));
  }
  // Makes the last product of a layer's feed-forward overflow: its input is silu(s) s > 0.
  void overflow(int layer, float towards) {
    fresh_weights();
    const std::string name = fmt::format("layers.{}.feed_forward.", layer);
    std::ranges::fill(master(name + "w1.weight"), 1.0f);
    std::ranges::fill(master(name + "w3.weight"), 1.0f);
    std::ranges::fill(master(name + "w2.weight"), towards);
  }
  train::NumericalError error_of_step(const std::string& remat = "none") {
    train::TrainStepOptions options{
        .shape = {1, 8}, .features = train::all_losses(false), .microbatches = 2, .remat = remat};
    train::TrainStep step(model, state, options, {}, cpu::cpu_backend());
    const Rows a = random_rows(model, 1, 8), b = random_rows(model, 1, 8);
    const program::Microbatch batches[] = {a.microbatch(), b.microbatch()};
    try {
      step.run(batches, 1e-3, 11);
    } catch (const train::NumericalError& error) {
      return error;
    }
    ADD_FAILURE() << "it went through";
    return {ExitCode::numerical, {}};
  }

  decoder::Model model = open_description(kModel);
  train::TrainState state{model.parameters(), DType::f32, true, cpu::cpu_backend()};
};

TEST_F(NonFiniteStep, AllIsWellWithoutAnOverflow) {
  train::TrainStep step(model, state,
                        {.shape = {1, 8}, .features = train::all_losses(false), .microbatches = 2},
                        {}, cpu::cpu_backend());
  const Rows rows = random_rows(model, 1, 8);
  const program::Microbatch batches[] = {rows.microbatch(), rows.microbatch()};
  EXPECT_NO_THROW(step.run(batches, 1e-3, 0));
}

// The product of the projection overflows only in its layer.
TEST_F(NonFiniteStep, AnOverflowIsNamedWithLayerScopeAndLine) {
  for (const int layer : {0, 2, 3})
    for (const char* remat : {"none", "full"}) {
      overflow(layer, 3e38f);
      const train::NumericalError error = error_of_step(remat);
      ASSERT_TRUE(error.origin) << error.what();
      EXPECT_EQ(error.origin->layer, layer) << error.what();
      EXPECT_THAT(error.origin->scope, HasSubstr("feed_forward"));
      EXPECT_THAT(error.origin->source, HasSubstr(".cc:"));
      EXPECT_THAT(error.origin->result, HasSubstr("8, 16]"));
      EXPECT_EQ(error.microbatch, 0);
      EXPECT_THAT(error.what(), StartsWith("step 12: "));
      EXPECT_THAT(error.what(), HasSubstr(fmt::format(
                                    "the first such value comes from linear in layer {}", layer)));
    }
}

TEST_F(NonFiniteStep, OutsideOfLayersThereIsNoLayer) {
  master("norm.weight")[3] = std::nanf("");
  const train::NumericalError error = error_of_step();
  ASSERT_TRUE(error.origin) << error.what();
  EXPECT_EQ(error.origin->layer, -1);
  EXPECT_TRUE(std::isnan(error.origin->value));
  EXPECT_EQ(error.origin->element, 3);
  EXPECT_EQ(error.origin->num_bad, 8);
  EXPECT_EQ(error.weight, "'norm.weight' is nan at element 3 of [16]");
}

// A product that overflows to minus infinity is not a mask.
TEST_F(NonFiniteStep, MinusInfinityOfAProductCounts) {
  overflow(1, -3e38f);
  const train::NumericalError error = error_of_step();
  ASSERT_TRUE(error.origin) << error.what();
  EXPECT_EQ(error.origin->op, "linear") << error.what();
  EXPECT_EQ(error.origin->layer, 1) << error.what();
  EXPECT_LT(error.origin->value, 0);
  EXPECT_EQ(error.weight, "");
}

class FiniteStep : public ::testing::TestWithParam<TestModel> {};

// Masks and unread parts of results are ignored.
TEST_P(FiniteStep, NothingIsFound) {
  const decoder::Model model = open_model(GetParam().path);
  const auto state = load_state(GetParam(), model);
  const std::int64_t tokens = test_tokens(model);
  const Rows rows = random_rows(model, 2, tokens);
  const program::Microbatch batches[] = {rows.microbatch()};
  for (const char* remat : {"none", "full"}) {
    train::TrainStep step(
        model, *state, {.shape = {2, tokens}, .features = train::all_losses(false), .remat = remat},
        {}, cpu::cpu_backend());
    train::NonFiniteFinder finder(step.program(), model.parameters());
    step.gradients(batches, 0);
    EXPECT_FALSE(finder.is_found()) << finder.found()->text();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FiniteStep, ::testing::ValuesIn(one_model_of_each_family()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
