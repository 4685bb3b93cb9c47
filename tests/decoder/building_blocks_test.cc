// Building blocks of the SDK compute the same as the ops that they replace.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "backends/cpu/backend.h"
#include "conformance/subjects/rows.h"
#include "decoder/one_block_family.h"
#include "inspect/verify/forward.h"
#include "support/expect_error.h"
#include "weights/weights.h"

namespace lamina::decoder {
namespace {

using sdk::Tensor;

// Logits with fresh weights, which depend on the names and shapes of parameters only.
std::vector<float> logits_of(Build block) {
  const Model model = open_family_with(block);
  const weights::Weights weights =
      weights::Weights::initialise(model, 1, DType::f32, cpu::cpu_backend());
  return inspect::forward(model, weights.pointers(), conformance::random_rows(model, 2, 7), {},
                          cpu::cpu_backend())
      .logits;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
}

TEST(BuildingBlocks, NumbersAreOperandsOfTheTensorsType) {
  EXPECT_EQ(logits_of(LAMINA_BLOCK({
              Tensor low = sdk::cast_like(sdk::constant(s, {.value = -0.01}), x);
              Tensor kept = sdk::select(sdk::less(low, x), x, low);
              return x + sdk::minimum(sdk::maximum(kept, low), x - x);
            })),
            logits_of(LAMINA_BLOCK({
              Tensor kept = sdk::select(sdk::less(-0.01, x), x, -0.01);
              return x + sdk::minimum(sdk::maximum(kept, -0.01), 0.0);
            })));
}

TEST(BuildingBlocks, NumbersBesideIntegersAreExact) {
  EXPECT_EQ(logits_of(LAMINA_BLOCK({
              Tensor prime = sdk::constant(s, {.dtype = "i32", .value = 100000008});
              Tensor even = sdk::constant(s, {.dtype = "i32", .value = 16777216});
              Tensor one = sdk::cast_like(sdk::remainder(prime, 100000007.0), x);
              return sdk::select(sdk::equal(even, 16777217.0), x - x, x + one);
            })),
            logits_of(LAMINA_BLOCK({ return x + 1.0; })));
  EXPECT_ERROR_SAYS(logits_of(LAMINA_BLOCK({
                      Tensor hash_BT = sdk::mul(step.positions_BT, 2654435761.0);
                      return x + sdk::cast_like(sdk::unsqueeze(hash_BT), x);
                    })),
                    ExitCode::plugin, "the value 2654435761, which does not fit into i32");
}

TEST(BuildingBlocks, ANegativeZeroKeepsItsSign) {
  EXPECT_EQ(logits_of(LAMINA_BLOCK({
              Tensor zero = sdk::cast_like(sdk::constant(s, {.value = -0.0}), x);
              return sdk::select(sdk::less(sdk::div(1.0, zero), 0.0), x + 1.0, x);
            })),
            logits_of(LAMINA_BLOCK({ return x + 1.0; })));
}

TEST(BuildingBlocks, ColumnsAreSlicesOfTheLastDim) {
  EXPECT_EQ(
      logits_of(LAMINA_BLOCK({
        Tensor a = sdk::slice(x, {.dim = 2, .start = 0, .size = 1});
        Tensor b = sdk::slice(x, {.dim = 2, .start = 1, .size = 3});
        return x + sdk::concat({b, a}, 2);
      })),
      logits_of(LAMINA_BLOCK({
        const auto [a, b] = sdk::split_columns(x, {1, 3});
        return x + sdk::concat({sdk::columns(x, 1, 3), a}, 2) + sdk::concat({b - b, a - a}, 2);
      })));
}

TEST(BuildingBlocks, SplitsThatDoNotFillTheLastDimAreRefused) {
  EXPECT_ERROR_SAYS(logits_of(LAMINA_BLOCK({
                      return x + sdk::split_columns(x, {1, 2})[0];
                    })),
                    ExitCode::plugin,
                    "split_columns: the sizes have the sum 3; expected the last dim, 4");
}

TEST(BuildingBlocks, GroupsOfANormHaveTheirOwnMeanSquare) {
  expect_near(
      logits_of(LAMINA_BLOCK(
          { return x + sdk::grouped_rms_norm(s / "norm", x * x, {.eps = 1e-3, .groups = 2}); })),
      logits_of(LAMINA_BLOCK({
        Tensor w =
            (s / "norm").param("weight", {4}, {.axes = {sdk::axis::norm}, .init = sdk::init::ones});
        const auto [a, b] = sdk::split_columns(x * x, {2, 2});
        return x + sdk::concat({sdk::rms_norm(a, Tensor{}, {.eps = 1e-3}),
                                sdk::rms_norm(b, Tensor{}, {.eps = 1e-3})},
                               2) *
                       w;
      })));
}

TEST(BuildingBlocks, AGatedNormIsAppliedAfterOrBeforeTheGate) {
  expect_near(logits_of(LAMINA_BLOCK(
                  { return x + sdk::gated_rms_norm(s / "norm", x + 1, x, {.eps = 1e-3}); })),
              logits_of(LAMINA_BLOCK(
                  { return x + sdk::rms_norm(s / "norm", (x + 1) * sdk::silu(x), 1e-3); })));
  expect_near(
      logits_of(LAMINA_BLOCK({
        return x + sdk::gated_rms_norm(s / "norm", x + 1, x,
                                       {.eps = 1e-3, .norm_first = true, .activation = "sigmoid"});
      })),
      logits_of(
          LAMINA_BLOCK({ return x + sdk::rms_norm(s / "norm", x + 1, 1e-3) * sdk::sigmoid(x); })));
}

TEST(BuildingBlocks, AShortConvolutionOwnsTapsBiasAndState) {
  EXPECT_EQ(
      logits_of(LAMINA_BLOCK({
        return x + sdk::short_conv(s / "conv", x, step,
                                   {.taps = 3, .bias = true, .activation = "silu"});
      })),
      logits_of(LAMINA_BLOCK({
        const double bound = 1 / std::sqrt(3.0);
        Tensor w = (s / "conv")
                       .param("weight", {4, 3},
                              {.axes = {sdk::axis::conv, sdk::axis::none},
                               .role = sdk::Role::conv,
                               .init = sdk::init::uniform(-bound, bound)});
        Tensor b =
            (s / "conv").param("bias", {4}, {.axes = {sdk::axis::conv}, .role = sdk::Role::bias});
        return x + step.causal_conv1d(x, w, b, {.activation = "silu"});
      })));
}

// Returns true if the taps of the model's only convolution have weight decay.
bool taps_decay(Build block) {
  const Model model = open_family_with(block);
  for (const Parameter& p : model.parameters().all())
    if (p.desc.role == registry::Role::conv) return p.decays();
  throw std::logic_error("the model has no convolution");
}

TEST(BuildingBlocks, TapsDecayAsMatricesUnlessTheOptionSaysMore) {
  EXPECT_TRUE(taps_decay(LAMINA_BLOCK({ return x + sdk::short_conv(s / "conv", x, step); })));
  EXPECT_TRUE(taps_decay(
      LAMINA_BLOCK({ return x + sdk::short_conv(s / "conv", x, step, {.decay = true}); })));
  EXPECT_FALSE(taps_decay(
      LAMINA_BLOCK({ return x + sdk::short_conv(s / "conv", x, step, {.decay = false}); })));
}

constexpr sdk::RouterOptions kOneExpert{.experts = 1, .per_token = 1};

TEST(BuildingBlocks, AnExpertWithoutAGateIsTwoMatrices) {
  expect_near(
      logits_of(LAMINA_BLOCK({
        const sdk::Routed routed = sdk::route(s / "router", x, kOneExpert);
        return x + sdk::experts(s / "experts", x, routed,
                                {.width = 6, .glu = {.activation = "relu2"}, .gated = false});
      })),
      logits_of(LAMINA_BLOCK({
        const auto matrix = [&](const char* name, std::int64_t out, std::int64_t in) {
          Tensor w = (s / "experts" / name)
                         .param("weight", {1, out, in},
                                {.axes = {sdk::axis::experts, sdk::axis::none, sdk::axis::none},
                                 .init = sdk::init::normal(s.init_std())});
          return sdk::reshape(w, {out, in});
        };
        Tensor h = sdk::relu(sdk::linear(x, matrix("w1", 6, 4)));
        return x + sdk::linear(h * h, matrix("w2", 4, 6));
      })));
}

TEST(BuildingBlocks, LimitsNeedExpertsWithAGate) {
  EXPECT_ERROR_SAYS(logits_of(LAMINA_BLOCK({
                      const sdk::Routed routed = sdk::route(s / "router", x, kOneExpert);
                      return x + sdk::experts(s / "experts", x, routed,
                                              {.width = 6, .glu = {.limit = 7}, .gated = false});
                    })),
                    ExitCode::plugin,
                    "experts: glu.limit and glu.alpha are for experts with a gate; set gated");
}

}  // namespace
}  // namespace lamina::decoder
