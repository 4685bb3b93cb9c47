// The block of MaxText's first decoder (`decoder_block: default`): attention and feed-forward in
// parallel after one norm. After Wang & Komatsuzaki 2021, "GPT-J".
//
// Shapes: B batch, T tokens, D model width, F feed-forward width.

#include "families.h"

namespace llama {
namespace {

using namespace lamina::sdk;

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.attend.window = c.sliding_window;
  return self_attention(s, x_BTD, step, options);
}

Tensor feed_forward(Scope s, const Config& c, Tensor x_BTD) {
  if (c.gated_mlp) return gated_mlp(s, x_BTD, c.mlp_options());
  Tensor h_BTF = linear(s / "wi", x_BTD, c.intermediate_size,
                        {.out = axis::mlp, .bias = c.mlp_bias, .tag = tags::mlpwi});
  return linear(s / "wo", activate(h_BTF, c.hidden_act), c.hidden_size,
                {.in = axis::mlp, .bias = c.mlp_bias, .tag = tags::mlpwo});
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  return x_BTD +
         (attention(s / "attention", c, h_BTD, step) + feed_forward(s / "feed_forward", c, h_BTD));
}

}  // namespace

std::vector<Block<Config>> parallel_blocks() { return {{kBlock, "default", block}}; }

}  // namespace llama
