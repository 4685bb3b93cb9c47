// Mamba-2: layers of one state space each; its matrices depend on the token and decay by one number
// per head. Dao & Gu 2024, "Transformers are SSMs", section 7 (the SSD layer).
//
// Shapes: B batch, T tokens, D model width, I inner width, N heads, P head width, G groups of
// heads, S state width, K taps.

#include <limits>

#include "lamina/sdk.h"

namespace mamba2 {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
  std::int64_t state_size, expand, num_heads, head_dim, n_groups, conv_kernel;
  double layer_norm_epsilon, initializer_range;
  std::vector<double> time_step_limit;
  bool use_bias, use_conv_bias, tie_word_embeddings;

  std::int64_t inner() const { return expand * hidden_size; }
  RmsNormOptions norm() const { return {.eps = layer_norm_epsilon}; }
};

void keys(Schema<Config>& key) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  key.size("vocab_size", &Config::vocab_size, "rows of the table");
  key.size("hidden_size", &Config::hidden_size, "model width D");
  key.size("num_hidden_layers", &Config::num_hidden_layers, "layers");
  key.size("state_size", &Config::state_size, 128, "state width S");
  key.size("expand", &Config::expand, 2, "inner width I / D");
  key.size("head_dim", &Config::head_dim, 64, "head width P");
  key("num_heads", &Config::num_heads, {.min = 1, .doc = "heads N; default I / head_dim"});
  key.size("n_groups", &Config::n_groups, 1, "groups G that share B and C");
  key.size("conv_kernel", &Config::conv_kernel, 4, "taps K");
  key("time_step_limit", &Config::time_step_limit,
      {.fallback = {0, kUnlimited},
       .min = 0,
       .max = kUnlimited,
       .doc = "least and most size of a time step"});
  key.factor("layer_norm_epsilon", &Config::layer_norm_epsilon, 1e-5,
             "added to the mean square in norms");
  key.factor("initializer_range", &Config::initializer_range, 0.1,
             "standard deviation of fresh weights");
  key.flag("use_bias", &Config::use_bias, false, "biases of the projections");
  key.flag("use_conv_bias", &Config::use_conv_bias, true, "bias of the convolution");
  key.flag("tie_word_embeddings", &Config::tie_word_embeddings, false,
           "the head is the token table");
  key.only("hidden_act", std::string_view("silu"), "the convolution has no other");
  // Settings of other implementations and of their initialisers.
  key.ignore({"chunk_size", "rms_norm", "residual_in_fp32", "rescale_prenorm_residual",
              "time_step_floor", "time_step_max", "time_step_min", "time_step_rank"});
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
  if (c.time_step_limit.size() != 2 || c.time_step_limit[0] > c.time_step_limit[1])
    problem("time_step_limit", "got ", c.time_step_limit.size(),
            " numbers; it must be two, the least and then the most");
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "norm", x_BTD, c.norm());
  return x_BTD + state_space_mixer(s / "mixer", h_BTD, step,
                                   {.heads = c.num_heads,
                                    .head_dim = c.head_dim,
                                    .state = c.state_size,
                                    .groups = c.n_groups,
                                    .taps = c.conv_kernel,
                                    .bias = c.use_bias,
                                    .conv_bias = c.use_conv_bias,
                                    .norm = {.eps = c.layer_norm_epsilon, .groups = c.n_groups},
                                    .least_time_step = c.time_step_limit[0],
                                    .most_time_step = c.time_step_limit[1]});
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
