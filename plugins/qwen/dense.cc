// Qwen 2, 2.5 and 3, dense: a decoder-only transformer with RMSNorm before each sub-layer,
// grouped-query attention, rotary positions and a SwiGLU feed-forward. Qwen 2 has biases on
// queries, keys and values; Qwen 3 has none and norms queries and keys per head. Qwen Team 2024,
// "Qwen2 Technical Report", 2.2; Yang et al. 2025, "Qwen3 Technical Report", 2. Qwen3-VL's text
// decoder is Qwen 3 with positions in three rows: Bai et al. 2025.
//
// Shapes: B batch, T tokens, D model width.

#include "families.h"

namespace qwen {
namespace {

using namespace lamina::sdk;

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step,
             const SelfAttentionOptions& attention) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + self_attention(s / "attention", h_BTD, step, attention);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
}

Tensor qwen2_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions attention = c.attention_options();
  attention.attend.window = c.sliding_window;
  attention.out_bias = false;
  return block(s, c, x_BTD, step, attention);
}

Tensor qwen3_block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions attention = c.attention_options();
  attention.attend.window = c.sliding_window;
  attention.qk_norm = QkNorm::per_head;
  return block(s, c, x_BTD, step, attention);
}

}  // namespace

std::vector<Block<Config>> qwen2_blocks() { return {{kBlock, "qwen2", qwen2_block}}; }
std::vector<Block<Config>> qwen3_blocks() { return {{kBlock, "qwen3", qwen3_block}}; }

Plan dense_plan(const Config& c) {
  return layers_of(types_of(c), [&](std::string_view type) {
    return unit(kBlock, 1, {{"sliding_window", type == kSlidingAttention ? c.sliding_window : 0}});
  });
}

}  // namespace qwen
