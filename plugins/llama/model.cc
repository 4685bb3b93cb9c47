// Llama 2 and 3: a decoder-only transformer with RMSNorm before each sub-layer, grouped-query
// attention, rotary positions and a gated feed-forward.
// Touvron et al. 2023, "Llama 2"; Grattafiori et al. 2024, "The Llama 3 Herd of Models", 3.2.
//
// Shapes: B batch, T tokens, D model width, N query heads, K key/value heads,
//         H head width, F feed-forward width.

#include <cmath>

#include "envy.h"
#include "families.h"
#include "llama4.h"

namespace llama {
namespace {

using namespace lamina::sdk;

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  return self_attention(s, x_BTD, step,
                        {.heads = c.num_attention_heads,
                         .kv_heads = c.num_key_value_heads,
                         .head_dim = c.head_dim,
                         .qkv_bias = c.attention_bias,
                         .out_bias = c.attention_bias,
                         .rope = c.rope_options(),
                         .attend = {.window = c.sliding_window,
                                    .moba_chunk = c.moba_chunk_size,
                                    .moba_top_k = c.moba_chunk_size > 0 ? c.moba_topk : 0}});
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  return gated_mlp(s, x_BTD,
                   {.width = c.intermediate_size, .activation = c.hidden_act, .bias = c.mlp_bias});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + feed_forward(s / "feed_forward", c, h_BTD);
}

std::vector<Block<Config>> blocks() {
  return {{.id = kBlock, .name = "llama2", .build = block},
          {.id = kMtp, .name = "prediction", .build_all = predict_next<Config, block>}};
}

Plan plan(const Config& c) { return repeat(unit(kBlock)).over(c.num_hidden_layers); }

// Nobody publishes Llama with it; after MaxText, where any family may have it.
Mtp mtp(const Config& c) { return mtp_of(c, kMtp); }

}  // namespace

Embed embed(const Config& c) {
  return {.positions = c.trainable_position_size > 0 ? LAMINA_POSITIONS_LEARNED
                       : c.use_sinusoidal_positions  ? LAMINA_POSITIONS_SINUSOIDAL
                                                     : LAMINA_POSITIONS_NONE,
          .max_positions = c.trainable_position_size};
}

Head head(const Config& c) {
  const bool normalized = c.tie_word_embeddings && c.normalize_embedding_logits;
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps},
          .tied = c.tie_word_embeddings,
          .logit_scale = normalized ? 1 / std::sqrt(static_cast<double>(c.hidden_size)) : 1,
          .soft_cap = c.final_logit_softcapping};
}

double init_std(const Config& c) { return standard_init_std(c); }

namespace {

constexpr Model<Config> kLlama2 = {
    .family = {.name = "llama2",
               .aliases = {"llama", "llama3", "llama3.1"},
               .hf_model_types = {"llama"},
               .hf_architectures = {"LlamaForCausalLM"},
               .hf_prefixes = {"model.", "language_model."},
               .doc = "Llama 2, 3, 3.1, 3.2 and 3.3"},
    .keys = llama_keys,
    .derive = derive,
    .validate = validate,
    .init_std = init_std,
    .blocks = blocks,
    .plan = plan,
    .embed = embed,
    .head = head,
    .mtp = mtp,
    .weights = llama_weights,
};

}  // namespace
}  // namespace llama

LAMINA_PLUGIN("org.lamina.llama", "0.1.0", llama::kLlama2, llama::kDefault, llama::kLlama2Lti,
              llama::kLlama4, llama::kEnvy)
