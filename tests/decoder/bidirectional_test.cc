// Models whose tokens attend to later ones can be trained and evaluated, but not decoded.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "decode/session.h"
#include "decoder/one_block_family.h"
#include "inspect/plan/model_plan.h"
#include "support/expect_error.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

TEST(Bidirectional, TheFirstTokenSeesTheLast) {
  const TestModel& from = test_model("features_bidirectional");
  const decoder::Model model = open_model(from.path);
  const weights::Weights weights = load_weights(from, model);
  Rows rows = random_rows(model, 1, 6);
  const std::vector<float> before = forward(model, weights.pointers(), rows);
  rows.ids.back() = (rows.ids.back() + 1) % 47;
  const std::vector<float> after = forward(model, weights.pointers(), rows);
  const std::size_t vocab = 47;
  EXPECT_GT(relative_difference({after.data(), vocab}, {before.data(), vocab}), 1e-4);
}

TEST(Bidirectional, IsNotDecoded) {
  const TestModel& from = test_model("features_bidirectional");
  const decoder::Model model = open_model(from.path);
  const weights::Weights weights = load_weights(from, model);
  EXPECT_USER_ERROR(decode::Session(model, weights.pointers(), {.capacity = 8}, cpu::cpu_backend()),
                    ExitCode::usage,
                    "decode: family 'features' is not autoregressive: its tokens see later ones, "
                    "so there is no next token to decode\n"
                    "  it can be trained, verified and evaluated");
}

TEST(Bidirectional, IsPlannedWithoutDecodeState) {
  const decoder::Model model = open_model(test_model("features_bidirectional").path);
  const inspect::ModelPlan plan = inspect::plan_model(model, {}, cpu::cpu_backend());
  EXPECT_TRUE(plan.states.empty());
  EXPECT_EQ(plan.state_bytes, 0);
  EXPECT_GT(plan.work.train_flops, 0);
}

TEST(Bidirectional, RefusesNonCausalAttentionWithoutTheFlag) {
  EXPECT_ERROR_SAYS(
      decoder::open_family_with(LAMINA_BLOCK({
        return x + sdk::merge_heads(step.attend(sdk::split_heads(x, 2), sdk::split_heads(x, 2),
                                                sdk::split_heads(x, 2), {.causal = false}));
      })),
      ExitCode::plugin,
      "has causal 0, so tokens see later ones, and could not be decoded; a model that "
      "is not meant to be says so in its head (LAMINA_HEAD_BIDIRECTIONAL)");
}

// A window ends with the query's own token.
TEST(Bidirectional, AcceptsAWindowWithoutTheFlag) {
  EXPECT_NO_THROW(decoder::open_family_with(LAMINA_BLOCK({
    return x +
           sdk::merge_heads(step.attend(sdk::split_heads(x, 2), sdk::split_heads(x, 2),
                                        sdk::split_heads(x, 2), {.causal = false, .window = 3}));
  })));
}

}  // namespace
}  // namespace lamina::testing
