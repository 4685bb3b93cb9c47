// The example plugin reads a small Mamba-2 checkpoint under its published names: logits equal plain
// loops over the paper's equations. Dao & Gu 2024, "Transformers are SSMs", section 7.
#include <gtest/gtest.h>

#include "examples/reference.h"
#include "support/expect_error.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kVocab = 31, kWidth = 12, kLayers = 2, kTaps = 4;
constexpr std::int64_t kInner = 24, kHead = 6, kHeads = kInner / kHead, kGroups = 2, kState = 5;
constexpr std::int64_t kChannels = kInner + 2 * kGroups * kState;
constexpr double kEps = 1e-5;

const std::string kConfig = R"({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"],
  "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2, "state_size": 5, "expand": 2,
  "head_dim": 6, "num_heads": 4, "n_groups": 2, "conv_kernel": 4, "layer_norm_epsilon": 1e-5,
  "use_bias": false, "use_conv_bias": true, "chunk_size": 256, "tie_word_embeddings": false)";
const std::string kUnlimited = kConfig + R"(, "time_step_limit": [0.0, Infinity]})";
const std::string kLimited = kConfig + R"(, "time_step_limit": [0.2, {"__float__": "Infinity"}]})";
constexpr double kLeastStep = 0.2;  // above many steps of the random model

struct Mamba : Checkpoint {
  Mamba() {
    add("backbone.embeddings.weight", {kVocab, kWidth}, -1, 1);
    add("backbone.norm_f.weight", {kWidth}, 0.5, 1.5);
    add("lm_head.weight", {kVocab, kWidth}, -0.5, 0.5);
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "backbone.layers." + std::to_string(i), mixer = layer + ".mixer";
      add(layer + ".norm.weight", {kWidth}, 0.5, 1.5);
      add(mixer + ".in_proj.weight", {kInner + kChannels + kHeads, kWidth}, -0.5, 0.5);
      add(mixer + ".conv1d.weight", {kChannels, 1, kTaps}, -0.5, 0.5);
      add(mixer + ".conv1d.bias", {kChannels}, -0.2, 0.2);
      add(mixer + ".dt_bias", {kHeads}, -2, 0);
      add(mixer + ".A_log", {kHeads}, 0, 1.5);
      add(mixer + ".D", {kHeads}, 0.5, 1.5);
      add(mixer + ".norm.weight", {kInner}, 0.5, 1.5);
      add(mixer + ".out_proj.weight", {kWidth, kInner}, -0.5, 0.5);
    }
  }
};

void mix(const Checkpoint& c, const std::string& layer, double least_step, std::vector<Vector>& x) {
  const std::string mixer = layer + ".mixer";
  const Vector taps = c.get(mixer + ".conv1d.weight"), dt_bias = c.get(mixer + ".dt_bias");
  const Vector a_log = c.get(mixer + ".A_log"), skip = c.get(mixer + ".D");
  std::vector<Vector> before;             // inputs of the convolution
  Vector state(kHeads * kState * kHead);  // [head, state, value]
  for (Vector& token : x) {
    const Vector in =
        c.product(mixer + ".in_proj", rms_norm(token, c.get(layer + ".norm.weight"), kEps));
    const Vector gate = part(in, 0, kInner), dt_in = part(in, kInner + kChannels, kHeads);
    before.push_back(part(in, kInner, kChannels));
    Vector channels = c.get(mixer + ".conv1d.bias");
    for (std::size_t i = 0; i < kChannels; ++i)
      for (std::size_t j = 0; j < kTaps && j < before.size(); ++j)
        channels[i] += taps[i * kTaps + kTaps - 1 - j] * before[before.size() - 1 - j][i];
    channels = map(channels, [](double v, std::size_t) { return silu(v); });
    Vector y(kInner);
    for (std::size_t n = 0; n < kHeads; ++n) {
      const double dt = std::max(softplus(dt_in[n] + dt_bias[n]), least_step);
      const double decay = std::exp(-std::exp(a_log[n]) * dt);
      const std::size_t group = n / (kHeads / kGroups) * kState;
      for (std::size_t p = 0; p < kHead; ++p) {
        const std::size_t at = n * kHead + p;
        for (std::size_t i = 0; i < kState; ++i) {
          double& s = state[(n * kState + i) * kHead + p];
          s = decay * s + dt * channels[kInner + group + i] * channels[at];
          y[at] += s * channels[kInner + kGroups * kState + group + i];
        }
        y[at] += skip[n] * channels[at];
      }
    }
    y = map(y, [&](double v, std::size_t i) { return v * silu(gate[i]); });
    Vector normed;
    for (std::size_t group = 0; group < kGroups; ++group) {
      constexpr std::size_t size = kInner / kGroups;
      const Vector weight = c.row(mixer + ".norm.weight", group, size);
      for (double v : rms_norm(part(y, group * size, size), weight, kEps)) normed.push_back(v);
    }
    const Vector out = c.product(mixer + ".out_proj", normed);
    token = map(token, [&](double v, std::size_t i) { return v + out[i]; });
  }
}

double error_with(const std::string& config, double least_step) {
  const Mamba c;
  return error_of(c, config, [&](std::span<const std::int32_t> ids) {
    std::vector<Vector> x;
    for (std::int32_t id : ids) x.push_back(c.row("backbone.embeddings.weight", id, kWidth));
    for (std::int64_t i = 0; i < kLayers; ++i)
      mix(c, "backbone.layers." + std::to_string(i), least_step, x);
    Vector out;
    for (const Vector& token : x)
      for (double v : c.product("lm_head", rms_norm(token, c.get("backbone.norm_f.weight"), kEps)))
        out.push_back(v);
    return out;
  });
}

TEST(Mamba2Example, LogitsEqualThePapersEquations) { EXPECT_LE(error_with(kUnlimited, 0), 2e-5); }

TEST(Mamba2Example, OtherActivationsAreRefused) {
  const TempDir folder;
  Mamba().write(folder.path(), kConfig + R"(, "hidden_act": "gelu"})");
  EXPECT_ERROR_SAYS(
      open_model(folder.path()), ExitCode::checkpoint,
      "'hidden_act': got \"gelu\"; it must be \"silu\": the convolution has no other");
}

TEST(Mamba2Example, TimeStepsAreLimited) {
  EXPECT_LE(error_with(kLimited, kLeastStep), 2e-5);
  EXPECT_GE(error_with(kUnlimited, kLeastStep), 1e-3);
}

}  // namespace
}  // namespace lamina::testing
