// The soft cap of attention scores as a key of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

constexpr const char* kCap = "attn_logits_soft_cap = 0.5\n";

// The key applies to every family with attention. That decoding equals training is tested with the
// small models that have the key (deepseek_with_dropout, deepseek4_with_cap).
TEST(AttentionCap, WorksInEveryFamilyWithAttention) {
  for (const TestModel& model : one_model_of_each_family()) {
    SCOPED_TRACE(model.name);
    const decoder::Model plain = open_model(model.path);
    try {
      const decoder::Model capped = open_changed(model, kCap);
      EXPECT_FALSE(same_graph(capped.forward_graph({.tokens = 8}).graph,
                              plain.forward_graph({.tokens = 8}).graph));
    } catch (const UserError& refused) {
      EXPECT_THAT(refused.what(),
                  ::testing::AnyOf(::testing::HasSubstr("no layer of this model has attention"),
                                   ::testing::HasSubstr("already has a soft cap")));
    }
  }
}

// Gemma 2 has its own key for the cap, which the goldens of Transformers test.
TEST(AttentionCap, EqualsTheCapOfGemma2) {
  const TestModel& model = test_model("gemma2_predicts");
  const decoder::Model own = open_changed(model, "attn_logit_softcapping = 0.5\n"),
                       ours = open_changed(model,
                                           std::string("attn_logit_softcapping = 0.0\n") + kCap);
  const weights::Weights weights = load_weights(model, own);
  const Rows rows = random_rows(own, 2, test_tokens(own));
  EXPECT_EQ(forward(ours, weights.pointers(), rows), forward(own, weights.pointers(), rows));
  EXPECT_ERROR_SAYS(open_changed(model, kCap), ExitCode::usage,
                    "model.attn_logits_soft_cap: the attention of this model already has a soft "
                    "cap\n  remove it");
}

}  // namespace
}  // namespace lamina::testing
