// Mamba-2: layers of one state space each; its matrices depend on the token and decay by one number
// per head. Dao & Gu 2024, "Transformers are SSMs", section 7 (the SSD layer).
//
// Shapes: B batch, T tokens, D model width, I inner width, N heads, P head width, G groups of
// heads,
//         S state width, C channels of the convolution = I + 2 G S, K taps.

#include "lamina/sdk.h"

namespace mamba2 {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
  std::int64_t state_size, expand, num_heads, head_dim, n_groups, conv_kernel;
  double layer_norm_epsilon, initializer_range;
  bool use_bias, use_conv_bias, tie_word_embeddings;

  std::int64_t inner() const { return expand * hidden_size; }
  RmsNormOptions norm() const { return {.eps = layer_norm_epsilon}; }
};

void keys(Schema<Config>& key) {
  key("vocab_size", &Config::vocab_size, {.required = true, .min = 1, .doc = "rows of the table"});
  key("hidden_size", &Config::hidden_size, {.required = true, .min = 1, .doc = "model width D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true, .min = 1, .doc = "layers"});
  key("state_size", &Config::state_size, {.fallback = 128, .min = 1, .doc = "state width S"});
  key("expand", &Config::expand, {.fallback = 2, .min = 1, .doc = "inner width I / D"});
  key("head_dim", &Config::head_dim, {.fallback = 64, .min = 1, .doc = "head width P"});
  key("num_heads", &Config::num_heads, {.min = 1, .doc = "heads N; default I / head_dim"});
  key("n_groups", &Config::n_groups,
      {.fallback = 1, .min = 1, .doc = "groups G that share B and C"});
  key("conv_kernel", &Config::conv_kernel, {.fallback = 4, .min = 1, .doc = "taps K"});
  key("layer_norm_epsilon", &Config::layer_norm_epsilon,
      {.fallback = 1e-5, .above = 0, .doc = "added to the mean square in norms"});
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.1, .above = 0, .doc = "standard deviation of fresh weights"});
  key("use_bias", &Config::use_bias, {.fallback = false, .doc = "biases of the projections"});
  key("use_conv_bias", &Config::use_conv_bias, {.fallback = true, .doc = "of the convolution"});
  key("tie_word_embeddings", &Config::tie_word_embeddings,
      {.fallback = false, .doc = "the head is the token table"});
  // Settings of other implementations, their initialisers, and limits that exclude nothing.
  key.ignore({"chunk_size", "rms_norm", "residual_in_fp32", "rescale_prenorm_residual",
              "time_step_floor", "time_step_limit", "time_step_max", "time_step_min",
              "time_step_rank", "hidden_act"});
}

void derive(const Config& c, const Derived& derived) {
  derived.set("num_heads", c.inner() / c.head_dim);
}

void validate(const Config& c, const Problems& problem) {
  if (c.num_heads * c.head_dim != c.inner())
    problem("num_heads", "got ", c.num_heads, " heads of width ", c.head_dim,
            "; together they are ", "expand * hidden_size = ", c.inner());
  if (c.num_heads % c.n_groups != 0)
    problem("n_groups", "got ", c.n_groups, "; it must divide num_heads = ", c.num_heads);
}

Tensor convolve(Scope s, const Config& c, Tensor x_BTC, const Step& step) {
  const std::int64_t channels = x_BTC.dim(-1);
  Tensor w_CK = s.param(
      "weight", {channels, c.conv_kernel},
      {.axes = {axis::conv, axis::none}, .role = Role::conv, .init = init::uniform(-0.5, 0.5)});
  Tensor bias_C;
  if (c.use_conv_bias)
    bias_C = s.param("bias", {channels}, {.axes = {axis::conv}, .role = Role::bias});
  return step.causal_conv1d(x_BTC, w_CK, bias_C, {.activation = "silu"});
}

// S = exp(dt A) S + B outer (dt x), y = S^T C + D x: a matrix scan with one decay per head.
Tensor mixer(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  const std::int64_t b = x_BTD.dim(0), t = x_BTD.dim(1), i = c.inner(), n = c.num_heads;
  const std::int64_t bc = c.n_groups * c.state_size;
  auto number = [&](const char* name, Init start) {  // one per head
    return widen(s.param(name, {n}, {.axes = {axis::heads}, .role = Role::scalar, .init = start}));
  };
  Tensor in =
      linear(s / "in_proj", x_BTD, 2 * i + 2 * bc + n, {.out = axis::mlp, .bias = c.use_bias});
  auto part = [](Tensor from, std::int64_t start, std::int64_t size) {
    return slice(from, {.dim = 2, .start = start, .size = size});
  };
  Tensor gate_BTI = part(in, 0, i);
  Tensor xbc_BTC = convolve(s / "conv1d", c, part(in, i, i + 2 * bc), step);
  Tensor dt_BTN =
      softplus(widen(part(in, 2 * i + 2 * bc, n)) + number("dt_bias", init::uniform(-6.9, -2.2)));
  Tensor x_BTNP = reshape(part(xbc_BTC, 0, i), {b, t, n, c.head_dim});
  Tensor b_BTGS = reshape(part(xbc_BTC, i, bc), {b, t, c.n_groups, c.state_size});
  Tensor c_BTGS = reshape(part(xbc_BTC, i + bc, bc), {b, t, c.n_groups, c.state_size});

  Tensor dt_BTN1 = reshape(dt_BTN, {b, t, n, 1});
  Tensor v_BTNP = cast_like(widen(x_BTNP) * dt_BTN1, x_BTNP);
  Tensor g_BTN = -(dt_BTN * exp(number("A_log", init::uniform(0, 2.7))));
  Tensor y_BTNP = widen(step.matrix_scan(c_BTGS, b_BTGS, v_BTNP, g_BTN));
  y_BTNP += widen(x_BTNP) * reshape(number("D", init::ones), {n, 1});
  Tensor y_BTI = reshape(y_BTNP, {b, t, i}) * silu(widen(gate_BTI));
  y_BTI = rms_norm(s / "norm", cast_like(y_BTI, x_BTD), c.norm());
  return linear(s / "out_proj", y_BTI, c.hidden_size, {.in = axis::heads, .bias = c.use_bias});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  return x_BTD + mixer(s / "mixer", c, rms_norm(s / "norm", x_BTD, c.norm()), step);
}

constexpr std::uint32_t kBlock = 1;

std::vector<Weight> weights() {
  return {
      {0, LAMINA_NAME_EMBED, "backbone.embeddings.weight"},
      {0, LAMINA_NAME_EMBED, "backbone.embedding.weight"},  // as state-spaces published it
      {0, LAMINA_NAME_NORM, "backbone.norm_f.weight"},
      {0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED},
      {kBlock, "norm.weight", "backbone.layers.{L}.norm.weight"},
      {kBlock, "mixer.in_proj.weight", "backbone.layers.{L}.mixer.in_proj.weight"},
      {kBlock, "mixer.in_proj.bias", "backbone.layers.{L}.mixer.in_proj.bias"},
      {kBlock, "mixer.conv1d.weight", "backbone.layers.{L}.mixer.conv1d.weight", {squeezed(1)}},
      {kBlock, "mixer.conv1d.bias", "backbone.layers.{L}.mixer.conv1d.bias"},
      {kBlock, "mixer.dt_bias", "backbone.layers.{L}.mixer.dt_bias"},
      {kBlock, "mixer.A_log", "backbone.layers.{L}.mixer.A_log"},
      {kBlock, "mixer.D", "backbone.layers.{L}.mixer.D"},
      {kBlock, "mixer.norm.weight", "backbone.layers.{L}.mixer.norm.weight"},
      {kBlock, "mixer.out_proj.weight", "backbone.layers.{L}.mixer.out_proj.weight"},
      {kBlock, "mixer.out_proj.bias", "backbone.layers.{L}.mixer.out_proj.bias"},
  };
}

constexpr Model<Config> kModel = {
    .family = {.name = "mamba2",
               .hf_model_types = {"mamba2"},
               .hf_architectures = {"Mamba2ForCausalLM"},
               .doc = "Mamba-2: state spaces with one decay per head (SSD)"},
    .keys = keys,
    .derive = derive,
    .validate = validate,
    .blocks =
        [] {
          return std::vector<Block<Config>>{{kBlock, "block", block}};
        },
    .head = [](const Config& c) { return Head{.norm = c.norm(), .tied = c.tie_word_embeddings}; },
    .mtp_inputs = MtpInputs::none,
    .weights = weights,
};

}  // namespace
}  // namespace mamba2

LAMINA_PLUGIN("org.lamina.examples.mamba2", "0.1.0", mamba2::kModel)
