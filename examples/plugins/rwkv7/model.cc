// RWKV-7 "Goose": layers of a recurrence whose state decays by channel and replaces the value at
// one key. Peng et al. 2025, "RWKV-7 Goose with Expressive Dynamic State Evolution", section 4;
// names as in the checkpoints of fla-hub.
//
// Shapes: B batch, T tokens, D model width, N heads, H head width, R ranks of the small matrices.

#include <cmath>
#include <functional>

#include "lamina/sdk.h"

namespace rwkv7 {
namespace {

using namespace lamina::sdk;

struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers, intermediate_size, head_dim;
  std::int64_t decay_low_rank_dim, gate_low_rank_dim, a_low_rank_dim, v_low_rank_dim;
  double norm_eps, initializer_range;
  bool tie_word_embeddings;

  LayerNormOptions norm() const { return {.eps = norm_eps}; }
};

void keys(Schema<Config>& key) {
  key.size("vocab_size", &Config::vocab_size, "rows of the table");
  key.size("hidden_size", &Config::hidden_size, "model width D");
  key.size("num_hidden_layers", &Config::num_hidden_layers, "layers");
  key.size("head_dim", &Config::head_dim, 64, "head width H");
  key.size("decay_low_rank_dim", &Config::decay_low_rank_dim, 64, "rank R of decays");
  key.size("gate_low_rank_dim", &Config::gate_low_rank_dim, 128, "rank R of gates");
  key.size("a_low_rank_dim", &Config::a_low_rank_dim, 64, "rank R of learning rates");
  key.size("v_low_rank_dim", &Config::v_low_rank_dim, 16, "rank R of mixed values");
  key("intermediate_size", &Config::intermediate_size, {.min = 1, .doc = "default 4 hidden_size"});
  key.factor("norm_eps", &Config::norm_eps, 1e-5, "added to variances");
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.02, .min = 0, .doc = "deviation of fresh weights"});
  key.flag("tie_word_embeddings", &Config::tie_word_embeddings, false,
           "the head is the token table");
  key.only("hidden_act", std::string_view("sqrelu"), "feed-forwards have no other");
  key.ignore({"attn_mode", "fuse_norm", "fuse_cross_entropy", "fuse_linear_cross_entropy",
              "hidden_ratio", "norm_bias", "norm_first", "use_l2warp", "num_heads",
              "max_position_embeddings", "value_dim", "attn"});
}

void derive(const Config& c, const Derived& d) { d.set("intermediate_size", 4 * c.hidden_size); }

void validate(const Config& c, const Problems& problem) {
  if (c.hidden_size % c.head_dim != 0)
    problem("head_dim", "got ", c.head_dim, "; it must divide hidden_size = ", c.hidden_size);
}

Tensor vector(Scope s, std::string_view name, Tensor like, Init start,
              std::string_view along = axis::heads) {
  return s.param(name, {like.dim(-1)}, {.axes = {along}, .role = Role::scalar, .init = start});
}
// Interpolates x towards the token before, by channel.
Tensor shifted(Scope s, std::string_view name, Tensor x_BTD, Tensor to_previous_BTD) {
  return x_BTD + to_previous_BTD *
                     cast_like(vector(s, name, x_BTD, init::uniform(0, 1), axis::embed), x_BTD);
}

// f(x A^T) B^T (+ bias) of rank R, in f32.
template <class F>
Tensor low_rank(Scope s, Tensor x_BTD, std::int64_t rank, F f, bool bias = true) {
  Tensor h_BTR = f(linear(s / "lora" / "0", x_BTD, rank, {.out = axis::none}));
  return widen(linear(s / "lora" / "2", h_BTR, x_BTD.dim(-1),
                      {.out = axis::heads, .in = axis::none, .bias = bias}));
}

// S = diag(w) S - (a k^) outer (S^T k^) + k outer v, y = S^T r, with k^ of length 1; equations 3 to
// 9 and 16 to 24. `first_v`: the values of the first layer; empty in that layer.
Tensor time_mix(Scope s, const Config& c, Tensor x_BTD, const Step& step, Tensor& first_v_BTD) {
  const std::int64_t d = c.hidden_size, n = d / c.head_dim;
  Tensor delta_BTD = step.in(s).previous(x_BTD) - x_BTD;
  auto mix = [&](const char* name) { return shifted(s, name, x_BTD, delta_BTD); };
  auto heads = [&](Tensor x) { return split_heads(x, n); };
  auto weight = [&](const char* name, double start) {
    return widen(vector(s, name, x_BTD, init::constant(start)));
  };
  Tensor r_BTD = widen(linear(s / "r_proj", mix("x_r"), d, {.out = axis::heads}));
  Tensor g_BTD = sigmoid(low_rank(s / "w_lora", mix("x_w"), c.decay_low_rank_dim,
                                  [](Tensor x) { return tanh(x); })) *
                 -0.6065306597126334;  // exp(-1/2): no channel decays below exp(-0.607)
  Tensor k_BTD = widen(linear(s / "k_proj", mix("x_k"), d, {.out = axis::heads}));
  Tensor v_BTD = widen(linear(s / "v_proj", mix("x_v"), d, {.out = axis::heads}));
  if (first_v_BTD)
    v_BTD += (widen(first_v_BTD) - v_BTD) *
             sigmoid(low_rank(s / "v_lora", mix("x_v"), c.v_low_rank_dim, std::identity{}));
  else
    first_v_BTD = cast_like(v_BTD, x_BTD);
  Tensor a_BTD = sigmoid(low_rank(s / "a_lora", mix("x_a"), c.a_low_rank_dim, std::identity{}));
  Tensor gate_BTD = low_rank(
      s / "g_lora", mix("x_g"), c.gate_low_rank_dim, [](Tensor x) { return sigmoid(x); }, false);

  Tensor unit_BTNH = rms_norm(heads(k_BTD * weight("k_k", 0.71)), Tensor{}, {.eps = 1e-24}) /
                     std::sqrt(static_cast<double>(c.head_dim));
  k_BTD *= 1 + (a_BTD - 1) * weight("k_a", 1.02);
  Tensor y_BTNH = step.in(s).matrix_scan(
      heads(r_BTD), heads(k_BTD), heads(v_BTD), heads(g_BTD),
      {.a = unit_BTNH * heads(a_BTD), .b = -unit_BTNH, .decay_first = false});
  y_BTNH = layer_norm(y_BTNH, {}, {}, {.eps = c.norm_eps * static_cast<double>(c.head_dim)});
  Tensor y_BTD = merge_heads(y_BTNH) * widen(vector(s / "g_norm", "weight", x_BTD, init::ones)) +
                 widen(vector(s / "g_norm", "bias", x_BTD, init::zeros));
  Tensor r_k = widen(s.param(
      "r_k", {n, c.head_dim},
      {.axes = {axis::heads, axis::none}, .role = Role::scalar, .init = init::constant(-0.04)}));
  Tensor bonus_BTN1 = reduce_sum(heads(r_BTD * k_BTD) * r_k, {.dims = {3}, .keep = true});
  y_BTD += merge_heads(bonus_BTN1 * heads(v_BTD));
  return linear(s / "o_proj", cast_like(y_BTD * gate_BTD, x_BTD), d,
                {.in = axis::heads, .tag = tags::out_proj});
}

Tensor channel_mix(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor mixed_BTD = shifted(s, "x_k", x_BTD, step.in(s).previous(x_BTD) - x_BTD);
  Tensor h_BTF = linear(s / "key", mixed_BTD, c.intermediate_size, {.out = axis::mlp});
  return linear(s / "value", activate(h_BTF, "relu2"), c.hidden_size,
                {.in = axis::mlp, .tag = tags::mlpwo});
}

// Carries: x, and the first layer's values, which later layers mix with their own.
template <bool first>
Tensors block(Scope s, const Config& c, const Tensors& carries, const Step& step) {
  Tensor x_BTD = carries[0], v_BTD = first ? Tensor{} : carries[1];
  x_BTD += time_mix(s / "attn", c, layer_norm(s / "attn_norm", x_BTD, c.norm()), step, v_BTD);
  x_BTD += channel_mix(s / "ffn", c, layer_norm(s / "ffn_norm", x_BTD, c.norm()), step);
  return {x_BTD, v_BTD};
}

Tensors entry(Scope s, const Config& c, const Tensors& carries, const Step&) {
  Tensor x_BTD = layer_norm(s / "pre_norm", carries[0], c.norm());
  return {x_BTD, x_BTD * 0.0};  // the first layer has no values before it
}

enum BlockId : std::uint32_t { kFirst = 1, kLater, kEntry };

std::vector<Block<Config>> blocks() {
  return {{kFirst, "first", nullptr, block<true>},
          {kLater, "later", nullptr, block<false>},
          {kEntry, "entry", nullptr, entry}};
}
Plan plan(const Config& c) {
  return prefix("first", unit(kFirst), 1) + prefix("later", unit(kLater), c.num_hidden_layers - 1);
}

std::vector<Weight> layer_weights(std::uint32_t block) {
  const std::string_view layer = "model.layers.{L}.";
  return same_names(block, layer, "attn.x_r attn.x_w attn.x_k attn.x_v attn.x_a attn.x_g",
                    {squeezed(0), squeezed(0)}) +  // published [1, 1, D]
         same_names(block, layer,
                    "attn_norm.weight attn_norm.bias ffn_norm.weight ffn_norm.bias attn.k_k "
                    "attn.k_a attn.r_k attn.r_proj.weight attn.k_proj.weight attn.v_proj.weight "
                    "attn.o_proj.weight attn.w_lora.lora.0.weight attn.w_lora.lora.2.weight "
                    "attn.w_lora.lora.2.bias attn.v_lora.lora.0.weight attn.v_lora.lora.2.weight "
                    "attn.v_lora.lora.2.bias attn.a_lora.lora.0.weight attn.a_lora.lora.2.weight "
                    "attn.a_lora.lora.2.bias attn.g_lora.lora.0.weight attn.g_lora.lora.2.weight "
                    "attn.g_norm.weight attn.g_norm.bias ffn.x_k ffn.key.weight ffn.value.weight");
}

std::vector<Weight> weights() {
  return weight_rows({{0, LAMINA_NAME_EMBED, "model.embeddings.weight"},
                      {0, LAMINA_NAME_NORM, "model.norm.weight"},
                      {0, LAMINA_NAME_NORM_BIAS, "model.norm.bias"},
                      {0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED},
                      same_names(kEntry, "model.layers.0.", "pre_norm.weight pre_norm.bias"),
                      layer_weights(kFirst),
                      layer_weights(kLater)});
}

constexpr Model<Config> kModel = {
    .family = {.name = "rwkv7",
               .hf_model_types = {"rwkv7"},
               .hf_architectures = {"RWKV7ForCausalLM"},
               .doc = "RWKV-7 Goose: a recurrence with a decay per channel and a delta term"},
    .keys = keys,
    .derive = derive,
    .validate = validate,
    .blocks = blocks,
    .plan = plan,
    .embed = [](const Config&) { return Embed{.entry = kEntry, .carries = 2}; },
    .head = [](const Config& c) { return Head{.norm = c.norm(), .tied = c.tie_word_embeddings}; },
    .mtp_inputs = MtpInputs::none,
    .weights = weights,
};

}  // namespace
}  // namespace rwkv7

LAMINA_PLUGIN("org.lamina.examples.rwkv7", "0.1.0", rwkv7::kModel)
