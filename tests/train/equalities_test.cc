// A training step does not depend on scanned or unrolled layers, on the remat policy, on the
// division of rows into microbatches or documents, or on the number of threads. The checks come
// from the conformance kit.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "conformance/numbers/training.h"
#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

using Tensors = std::vector<std::vector<float>>;

// One document in each row.
const decoder::GraphFeatures kAlone = train::all_losses(false);

class Step : public ::testing::TestWithParam<TestModel> {};

TEST_P(Step, ScannedAndUnrolledGiveTheSameGradientsAndUpdate) {
  expect_conforms(conformance::check_scanned_step_is_unrolled, GetParam());
}
TEST_P(Step, EveryRematPolicyGivesTheSameBits) {
  expect_conforms(conformance::check_remat_policies_give_the_same_bits, GetParam());
}
TEST_P(Step, CustomTagsKeepTheirValues) {
  expect_conforms(conformance::check_own_remat_tags, GetParam());
}
TEST_P(Step, TwoMicrobatchesAreAsOneBatch) {
  expect_conforms(conformance::check_microbatches_are_one_batch, GetParam());
}
TEST_P(Step, PackedDocumentsHaveTheGradientsOfSeparateRows) {
  expect_conforms(conformance::check_packed_documents_have_the_gradients_of_each, GetParam());
}
TEST_P(Step, OneThreadAndTwoGiveTheSameBits) {
  expect_conforms(conformance::check_threads_give_the_same_step, GetParam());
}
TEST_P(Step, WithoutALabelNothingIsLearntAndNothingIsNaN) {
  expect_conforms(conformance::check_nothing_is_learnt_without_labels, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Step, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

TEST(RematTags, CostTheMemoryOfTheirValues) {
  const TestModel& from = test_model("llama2_deep");
  decoder::Model model = open_model(from.path);
  auto state = load_state(from, model);
  auto arena_bytes = [&](const char* policy, const train::RematTags& tags) {
    return train::TrainStep(
               model, *state,
               {.shape = {2, 16}, .features = kAlone, .remat = policy, .remat_tags = tags}, {},
               cpu::cpu_backend())
        .arena_bytes();
  };
  std::size_t full = arena_bytes("full", {}), none = arena_bytes("none", {}),
              one = arena_bytes("custom", {{"mlpwi_0", "device"}}),
              two = arena_bytes("custom", {{"mlpwi_0", "device"}, {"query_proj", "device"}});
  EXPECT_LT(full, one);
  EXPECT_LT(one, two);
  EXPECT_LT(two, none);
}

TEST(TrainStep, ANaNStopsBeforeAnyChange) {
  const TestModel& from = test_models().front();
  decoder::Model model = open_model(from.path);
  auto state = load_state(from, model);
  int poisoned = model.parameters().find("norm.weight");
  ASSERT_GE(poisoned, 0);
  floats(state->masters()[static_cast<std::size_t>(poisoned)])[0] = std::nanf("");
  Tensors before = copy_of(model, state->masters());
  Rows rows = random_rows(model, 1, 8);
  train::TrainStep step(model, *state, {.shape = {1, 8}, .features = kAlone}, {},
                        cpu::cpu_backend());
  program::Microbatch batch = rows.microbatch();
  try {
    step.run({&batch, 1}, 1e-3, 41);
    ADD_FAILURE() << "a NaN went through";
  } catch (const train::NumericalError& e) {
    EXPECT_EQ(e.code(), ExitCode::numerical);
    EXPECT_TRUE(std::string(e.what()).starts_with("step 42: the gradient of 'embed.weight' is "))
        << e.what();
  }
  Tensors after = copy_of(model, state->masters());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(same_bits(after[i], before[i]));
  Tensors moments = copy_of(model, state->first_moments());
  for (float m : moments[0]) EXPECT_EQ(m, 0);
}

}  // namespace
}  // namespace lamina::testing
