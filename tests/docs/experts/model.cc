// The example of docs/debugging_a_model.md: the block of Qwen 3 with a mixture of experts. The page
// quotes this file; a test builds it unchanged and with the mistakes of the page.
//
// Shapes: B batch, T tokens, D model width.

#include <cmath>

#include "lamina/sdk.h"

namespace experts {
namespace {

using namespace lamina::sdk;

struct Config : StandardConfig, MoeConfig {
  std::int64_t moe_intermediate_size;
};

void keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 32768, .head_dim = 128});
  moe_keys(key, {.experts = 128, .per_token = 8});
  key("moe_intermediate_size", &Config::moe_intermediate_size,
      {.required = true, .min = 1, .doc = "width F of an expert"});
  key.ignore({"decoder_sparse_step", "max_window_layers", "mlp_only_layers", "norm_topk_prob",
              "sliding_window", "use_sliding_window"});
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.qk_norm = QkNorm::per_head;
  options.attend.scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  return self_attention(s, x_BTD, step, options);
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  MixtureOptions options = c.mixture_options(c.moe_intermediate_size, c.hidden_act);
  options.router.scores = RouterScores::softmax;
  options.router.weights = RouterWeights::normalized;
  return mixture(s, x_BTD, step, options);
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + feed_forward(s / "moe", c, h_BTD, step);
}

constexpr std::uint32_t kBlock = 1;

std::vector<Block<Config>> blocks() { return {{kBlock, "block", block}}; }

std::vector<Weight> weights() {
  return outer_weights() + norm_weights(kBlock) + attention_weights(kBlock) +
         mixture_weights(kBlock);
}

void validate(const Config& c, const Problems& problem) { check_moe(c, problem); }

constexpr Model<Config> kModel = {
    .family = {.name = "experts",
               .hf_model_types = {"experts"},
               .hf_architectures = {"ExpertsForCausalLM"},
               .doc = "Qwen 3 with experts, written out for the documentation"},
    .keys = keys,
    .validate = validate,
    .blocks = blocks,
    .weights = weights,
};

}  // namespace
}  // namespace experts

LAMINA_PLUGIN("org.lamina.docs.experts", "0.1.0", experts::kModel)
