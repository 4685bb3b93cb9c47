#include "support/maxtext_names.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace lamina::testing {
namespace {

// The conversion of their parameter, without its layer axes, to ours.
enum class Layout {
  same,    // row-major, unchanged
  in_out,  // [in..., out...] to [out, in], per expert if there are several
  query,   // in_out, optionally with 1 / sqrt(head width): we multiply scores by it
  norm,    // unchanged, optionally with an offset
  table,   // unchanged, optionally with a factor
  // One of several parameters in one kernel [in, .. out ..] or bias, side by side: the first
  // (optionally with 1 / sqrt(head width)), the one before the last, the last.
  first,
  before_last,
  last,
};
bool is_part(Layout layout) { return layout >= Layout::first; }

struct Row {
  std::string_view ours;  // inside the block, or outside the layers
  // Inside the layer, or in the tree; after '^' beside it. Several names are separated by blanks,
  // and ours is their concatenation.
  std::string_view theirs;
  Layout layout;
};

// Several rows of one name are alternatives.
constexpr Row kRows[] = {
    {"embed.weight", "token_embedder/embedding", Layout::table},
    {"positions.weight", "decoder/position_embedder/embedding", Layout::same},
    {"norm.weight", "decoder/decoder_norm/scale", Layout::norm},
    {"norm.bias", "decoder/decoder_norm/bias", Layout::same},
    {"head.weight", "decoder/logits_dense/kernel", Layout::in_out},
    // simple, simple_mlp
    {"weights.weight", "weights", Layout::in_out},
    {"ff_1.weight", "ff_1", Layout::in_out},
    {"ff_2.weight", "ff_2", Layout::in_out},
    // llama2, gemma
    {"attention_norm.weight", "pre_self_attention_layer_norm/scale", Layout::norm},
    {"attention_norm.weight", "pre_self_attention_norm/scale", Layout::norm},
    {"attention.wq.weight", "self_attention/query/kernel", Layout::query},
    {"attention.wk.weight", "self_attention/key/kernel", Layout::in_out},
    {"attention.wv.weight", "self_attention/value/kernel", Layout::in_out},
    {"attention.wo.weight", "self_attention/out/kernel", Layout::in_out},
    {"attention.q_norm.weight", "self_attention/query_norm/scale", Layout::norm},
    {"attention.k_norm.weight", "self_attention/key_norm/scale", Layout::norm},
    {"attention.v_norm.weight", "self_attention/value_norm/scale", Layout::norm},
    {"post_attention_norm.weight", "post_self_attention_norm/scale", Layout::norm},
    {"attention_norm.weight", "post_self_attention_layer_norm/scale", Layout::norm},  // olmo3
    {"ffn_norm.weight", "post_mlp_layer_norm/scale", Layout::norm},                   // olmo3
    {"ffn_norm.weight", "post_self_attention_layer_norm/scale", Layout::norm},
    {"ffn_norm.weight", "pre_ffw_norm/scale", Layout::norm},
    {"feed_forward.w1.weight", "mlp/wi_0/kernel", Layout::in_out},
    {"feed_forward.w3.weight", "mlp/wi_1/kernel", Layout::in_out},
    {"feed_forward.w2.weight", "mlp/wo/kernel", Layout::in_out},
    {"feed_forward.w1.weight", "mlp/wi/kernel", Layout::in_out},
    {"feed_forward.w3_1.weight", "mlp/wi_2/kernel", Layout::in_out},
    // fused
    {"attention.wq.weight", "self_attention/qkv_proj/kernel", Layout::first},
    {"attention.wk.weight", "self_attention/qkv_proj/kernel", Layout::before_last},
    {"attention.wv.weight", "self_attention/qkv_proj/kernel", Layout::last},
    {"attention.wq.bias", "self_attention/qkv_proj/bias", Layout::first},
    {"attention.wk.bias", "self_attention/qkv_proj/bias", Layout::before_last},
    {"attention.wv.bias", "self_attention/qkv_proj/bias", Layout::last},
    {"attention.wq.weight", "attention/qkv_proj/kernel", Layout::first},
    {"attention.wk.weight", "attention/qkv_proj/kernel", Layout::before_last},
    {"attention.wv.weight", "attention/qkv_proj/kernel", Layout::last},
    {"feed_forward.w1.weight", "mlp/wi/kernel", Layout::first},
    {"feed_forward.w3.weight", "mlp/wi/kernel", Layout::last},
    {"post_ffn_norm.weight", "post_ffw_norm/scale", Layout::norm},
    // default, without a gate
    {"feed_forward.wi.weight", "mlp/wi/kernel", Layout::in_out},
    {"feed_forward.wo.weight", "mlp/wo/kernel", Layout::in_out},
    // qwen2
    {"attention.wq.bias", "self_attention/query/bias", Layout::same},
    {"attention.wk.bias", "self_attention/key/bias", Layout::same},
    {"attention.wv.bias", "self_attention/value/bias", Layout::same},
    // olmo3
    {"attention.wq.weight", "attention/query/kernel", Layout::in_out},
    {"attention.wk.weight", "attention/key/kernel", Layout::in_out},
    {"attention.wv.weight", "attention/value/kernel", Layout::in_out},
    {"attention.wo.weight", "attention/out/kernel", Layout::in_out},
    {"attention.q_norm.weight", "attention/query_norm/scale", Layout::same},
    {"attention.k_norm.weight", "attention/key_norm/scale", Layout::same},
    // llama2lti
    {"attention.wq.teacher.weight", "self_attention/query/C", Layout::in_out},
    {"attention.wq.channels.weight", "self_attention/query/B", Layout::query},
    {"attention.wq.heads.weight", "self_attention/query/A", Layout::in_out},
    {"attention.wq.map.weight", "self_attention/query/W", Layout::query},
    {"attention.wk.teacher.weight", "self_attention/key/C", Layout::in_out},
    {"attention.wk.channels.weight", "self_attention/key/B", Layout::in_out},
    {"attention.wk.heads.weight", "self_attention/key/A", Layout::in_out},
    {"attention.wk.map.weight", "self_attention/key/W", Layout::in_out},
    {"attention.wv.teacher.weight", "self_attention/value/C", Layout::in_out},
    {"attention.wv.channels.weight", "self_attention/value/B", Layout::in_out},
    {"attention.wv.heads.weight", "self_attention/value/A", Layout::in_out},
    {"attention.wv.map.weight", "self_attention/value/W", Layout::in_out},
    {"attention.wo.teacher.weight", "self_attention/out/C", Layout::in_out},
    {"attention.wo.channels.weight", "self_attention/out/B", Layout::in_out},
    {"attention.wo.heads.weight", "self_attention/out/A", Layout::same},
    {"attention.wo.map.weight", "self_attention/out/W", Layout::same},
    {"scale", "layer_scalar", Layout::same},
    // gpt3
    {"ln_1.weight", "pre_self_attention_norm/scale", Layout::same},
    {"ln_1.bias", "pre_self_attention_norm/bias", Layout::same},
    {"attn.c_attn.weight", "self_attention/qkv_proj/kernel", Layout::in_out},
    {"attn.c_attn.bias", "self_attention/qkv_proj/bias", Layout::same},
    {"attn.c_attn.weight",
     "self_attention/query/kernel self_attention/key/kernel self_attention/value/kernel",
     Layout::in_out},
    {"attn.c_attn.bias",
     "self_attention/query/bias self_attention/key/bias self_attention/value/bias", Layout::same},
    {"attn.c_proj.weight", "self_attention/out/kernel", Layout::in_out},
    {"attn.c_proj.bias", "self_attention/out/bias", Layout::same},
    {"ln_2.weight", "mlp/mlp_layer_norm/scale", Layout::same},
    {"ln_2.bias", "mlp/mlp_layer_norm/bias", Layout::same},
    {"mlp.c_fc.weight", "mlp/wi/kernel", Layout::in_out},
    {"mlp.c_fc.bias", "mlp/wi/bias", Layout::same},
    {"mlp.c_fc.weight", "mlp/wi_0/kernel", Layout::in_out},
    {"mlp.c_fc.bias", "mlp/wi_0/bias", Layout::same},
    {"mlp.c_fc_1.weight", "mlp/wi_1/kernel", Layout::in_out},
    {"mlp.c_fc_1.bias", "mlp/wi_1/bias", Layout::same},
    {"mlp.c_proj.weight", "mlp/wo/kernel", Layout::in_out},
    {"mlp.c_proj.bias", "mlp/wo/bias", Layout::same},
    // mixtral, envy
    {"moe.router.weight", "MoeBlock_0/gate/kernel", Layout::in_out},
    {"moe.experts.w1.weight", "MoeBlock_0/wi_0", Layout::in_out},
    {"moe.experts.w3.weight", "MoeBlock_0/wi_1", Layout::in_out},
    {"moe.experts.w2.weight", "MoeBlock_0/wo", Layout::in_out},
    // llama4
    {"moe.router.weight", "Llama4MoEBlock_0/MoeBlock_0/gate/kernel", Layout::in_out},
    {"moe.experts.w1.weight", "Llama4MoEBlock_0/MoeBlock_0/wi_0", Layout::in_out},
    {"moe.experts.w3.weight", "Llama4MoEBlock_0/MoeBlock_0/wi_1", Layout::in_out},
    {"moe.experts.w2.weight", "Llama4MoEBlock_0/MoeBlock_0/wo", Layout::in_out},
    {"moe.shared.w1.weight", "Llama4MoEBlock_0/shared_experts/wi_0/kernel", Layout::in_out},
    {"moe.shared.w3.weight", "Llama4MoEBlock_0/shared_experts/wi_1/kernel", Layout::in_out},
    {"moe.shared.w2.weight", "Llama4MoEBlock_0/shared_experts/wo/kernel", Layout::in_out},
    // qwen3_moe, qwen3_custom_moe
    {"moe.router.weight", "moe_block/gate/kernel", Layout::in_out},
    {"moe.experts.w1.weight", "moe_block/wi_0", Layout::in_out},
    {"moe.experts.w3.weight", "moe_block/wi_1", Layout::in_out},
    {"moe.experts.w2.weight", "moe_block/wo", Layout::in_out},
    {"latent_norm.weight", "latent_norm/scale", Layout::norm},
    {"up_projection.weight", "layer_up_projection/kernel", Layout::in_out},
    // qwen3_next
    {"attention_norm.weight", "input_layernorm/scale", Layout::norm},
    {"ffn_norm.weight", "post_attention_layernorm/scale", Layout::norm},
    {"attention.wq.weight", "attention/attention/query/kernel", Layout::in_out},
    {"attention.wk.weight", "attention/attention/key/kernel", Layout::in_out},
    {"attention.wv.weight", "attention/attention/value/kernel", Layout::in_out},
    {"attention.wo.weight", "attention/attention/out/kernel", Layout::in_out},
    {"attention.q_norm.weight", "attention/attention/query_norm/scale", Layout::norm},
    {"attention.k_norm.weight", "attention/attention/key_norm/scale", Layout::norm},
    {"linear_attention.in_proj_qkvz.weight", "attention/in_proj_qkvz/kernel", Layout::in_out},
    {"linear_attention.in_proj_ba.weight", "attention/in_proj_ba/kernel", Layout::in_out},
    {"linear_attention.conv.weight", "attention/conv1d/kernel", Layout::in_out},
    {"linear_attention.a_log", "attention/A_log", Layout::same},
    {"linear_attention.dt_bias", "attention/dt_bias", Layout::same},
    {"linear_attention.norm.weight", "attention/norm/rms_norm/scale", Layout::same},
    {"linear_attention.out_proj.weight", "attention/out_proj/kernel", Layout::in_out},
    {"moe.router.weight", "mlp/routed_experts/gate/kernel", Layout::in_out},
    {"moe.experts.w1.weight", "mlp/routed_experts/wi_0", Layout::in_out},
    {"moe.experts.w3.weight", "mlp/routed_experts/wi_1", Layout::in_out},
    {"moe.experts.w2.weight", "mlp/routed_experts/wo", Layout::in_out},
    {"moe.shared_expert.w1.weight", "mlp/shared_expert/wi_0/kernel", Layout::in_out},
    {"moe.shared_expert.w3.weight", "mlp/shared_expert/wi_1/kernel", Layout::in_out},
    {"moe.shared_expert.w2.weight", "mlp/shared_expert/wo/kernel", Layout::in_out},
    {"moe.shared_expert_gate.weight", "mlp/shared_expert_gate/kernel", Layout::in_out},
    // gpt_oss
    {"attention.wq.weight", "GptOssAttention/query/kernel", Layout::in_out},
    {"attention.wq.bias", "GptOssAttention/query/bias", Layout::same},
    {"attention.wk.weight", "GptOssAttention/key/kernel", Layout::in_out},
    {"attention.wk.bias", "GptOssAttention/key/bias", Layout::same},
    {"attention.wv.weight", "GptOssAttention/value/kernel", Layout::in_out},
    {"attention.wv.bias", "GptOssAttention/value/bias", Layout::same},
    {"attention.wo.weight", "GptOssAttention/out/kernel", Layout::in_out},
    {"attention.wo.bias", "GptOssAttention/out/bias", Layout::same},
    {"attention.sinks", "GptOssAttention/sinks", Layout::same},
    {"moe.router.weight", "GptOssMlp/gate/kernel", Layout::in_out},
    {"moe.router.bias", "GptOssMlp/gate/bias", Layout::same},
    {"moe.experts.w1.weight", "GptOssMlp/wi_0", Layout::in_out},
    {"moe.experts.w3.weight", "GptOssMlp/wi_1", Layout::in_out},
    {"moe.experts.w2.weight", "GptOssMlp/wo", Layout::in_out},
    {"moe.experts.w1.bias", "GptOssMlp/wi_0_bias", Layout::same},
    {"moe.experts.w3.bias", "GptOssMlp/wi_1_bias", Layout::same},
    {"moe.experts.w2.bias", "GptOssMlp/wo_bias", Layout::same},
    // deepseek
    {"attention.wq_a.weight", "self_attention/wq_a/kernel", Layout::in_out},
    {"attention.q_norm.weight", "self_attention/q_norm/scale", Layout::same},
    {"attention.wq_b.weight", "self_attention/wq_b/kernel", Layout::in_out},
    {"attention.wkv_a.weight", "self_attention/wkv_a/kernel", Layout::in_out},
    {"attention.kv_norm.weight", "self_attention/kv_norm/scale", Layout::same},
    {"attention.wkv_b.weight", "self_attention/wkv_b/kernel", Layout::in_out},
    {"attention.indexer.wq_b.weight", "self_attention/indexer/wq_b/kernel", Layout::in_out},
    {"attention.indexer.wk.weight", "self_attention/indexer/wk/kernel", Layout::in_out},
    {"attention.indexer.k_norm.weight", "self_attention/indexer/k_norm/scale", Layout::same},
    {"attention.indexer.k_norm.bias", "self_attention/indexer/k_norm/bias", Layout::same},
    {"attention.indexer.weights_proj.weight", "self_attention/indexer/weights_proj/kernel",
     Layout::in_out},
    {"moe.router.weight", "DeepSeekMoeBlock_0/MoeBlock_0/gate/kernel", Layout::in_out},
    {"moe.router.correction_bias", "DeepSeekMoeBlock_0/MoeBlock_0/gate/bias", Layout::same},
    {"moe.experts.w1.weight", "DeepSeekMoeBlock_0/MoeBlock_0/wi_0", Layout::in_out},
    {"moe.experts.w3.weight", "DeepSeekMoeBlock_0/MoeBlock_0/wi_1", Layout::in_out},
    {"moe.experts.w2.weight", "DeepSeekMoeBlock_0/MoeBlock_0/wo", Layout::in_out},
    {"moe.shared.w1.weight", "DeepSeekMoeBlock_0/shared_experts/wi_0/kernel", Layout::in_out},
    {"moe.shared.w3.weight", "DeepSeekMoeBlock_0/shared_experts/wi_1/kernel", Layout::in_out},
    {"moe.shared.w2.weight", "DeepSeekMoeBlock_0/shared_experts/wo/kernel", Layout::in_out},
    // residual streams
    {"mhc_attention.norm.weight", "mhc_attention/mhc_norm/scale", Layout::same},
    {"mhc_attention.fn.weight",
     "mhc_attention/pre_alpha mhc_attention/post_alpha mhc_attention/res_alpha", Layout::in_out},
    {"mhc_attention.base", "mhc_attention/pre_beta mhc_attention/post_beta mhc_attention/res_beta",
     Layout::same},
    {"mhc_attention.scale",
     "mhc_attention/pre_alpha_scale mhc_attention/post_alpha_scale mhc_attention/res_alpha_scale",
     Layout::same},
    {"mhc_ffn.norm.weight", "mhc_mlp/mhc_norm/scale", Layout::same},
    {"mhc_ffn.fn.weight", "mhc_mlp/pre_alpha mhc_mlp/post_alpha mhc_mlp/res_alpha", Layout::in_out},
    {"mhc_ffn.base", "mhc_mlp/pre_beta mhc_mlp/post_beta mhc_mlp/res_beta", Layout::same},
    {"mhc_ffn.scale", "mhc_mlp/pre_alpha_scale mhc_mlp/post_alpha_scale mhc_mlp/res_alpha_scale",
     Layout::same},
    // Engram
    {"engram.norm.weight", "engram_layer_norm/scale", Layout::same},
    {"engram.table.weight", "engram/multi_head_embedding/embedding/embedding", Layout::same},
    {"engram.key.weight", "engram/key_proj/kernel", Layout::in_out},
    {"engram.key.bias", "engram/key_proj/bias", Layout::same},
    {"engram.key_norm.weight", "engram/k_norm/scale", Layout::same},
    {"engram.query_norm.weight", "engram/q_norm/scale", Layout::same},
    {"engram.value.weight", "engram/value_proj/kernel", Layout::in_out},
    {"engram.value.bias", "engram/value_proj/bias", Layout::same},
    {"engram.conv_norm.weight", "engram/short_conv/norm/scale", Layout::same},
    {"engram.conv.weight", "engram/short_conv/conv/kernel", Layout::in_out},
    // multi-token prediction
    {"enorm.weight", "^embedding_norm/scale", Layout::same},
    {"hnorm.weight", "^hidden_state_norm/scale", Layout::same},
    {"eh_proj.weight", "^projection/kernel", Layout::in_out},
};

using Place = MaxTextPlace;

std::string full_name(std::string_view theirs, const Place& place) {
  if (theirs.starts_with('^')) return place.beside + std::string(theirs.substr(1));
  const std::size_t end = std::min(theirs.find('/'), theirs.size());
  return fmt::format("{}{}{}{}", place.folder, theirs.substr(0, end), place.suffix,
                     theirs.substr(end));
}

// Dense layers, then layers with experts, each stack cut before a layer with Engram.
Place place_in_parts(std::int64_t layer, std::int64_t num_layers, const MaxTextConfig& config) {
  const bool dense = layer < config.dense_layers;
  const char* part = dense ? "dense_layers" : "moe_layers";
  std::int64_t begin = dense ? 0 : config.dense_layers;
  std::int64_t end = dense ? config.dense_layers : num_layers;
  if (config.engram_layers.empty())
    return {fmt::format("decoder/{}/", part), "", {layer - begin}, ""};
  for (std::int64_t cut : config.engram_layers) {
    if (cut == layer) return {fmt::format("decoder/{}_engram_{}/", part, layer), "", {}, ""};
    if (cut < layer) begin = std::max(begin, cut + 1);
    if (cut > layer) end = std::min(end, cut);
  }
  return {fmt::format("decoder/{}_{}_{}/", part, begin, end - 1), "", {layer - begin}, ""};
}

}  // namespace

MaxTextPlace maxtext_place(std::int64_t layer, std::int64_t num_layers,
                           const MaxTextConfig& config) {
  if (layer < 0) return {};
  if (layer >= num_layers) {
    const std::int64_t j = layer - num_layers + 1;
    const std::string beside = fmt::format("mtp_block/mtp_layer_{}/mtp_{}_", j, j);
    return {.folder = beside + "transformer_layer/", .at = {}, .beside = beside};
  }
  const std::int64_t cycle = config.cycle, slot = layer % cycle, block = layer / cycle;
  const bool left_over = layer >= num_layers / cycle * cycle;
  switch (config.stacking) {
    case Stacking::plain:
      return {"decoder/layers/", "", {layer}};
    case Stacking::unrolled:
      return {fmt::format("decoder/layers_{}/", layer), "", {}};
    case Stacking::pairs:
      return {"decoder/layers/", layer % 2 == 0 ? "_local" : "_global", {layer / 2}};
    case Stacking::cycles:
      if (left_over) return {fmt::format("decoder/layers_remainder/layers_{}/", slot), "", {}};
      return {fmt::format("decoder/layers/{}_{}/", config.cycle_folder, slot), "", {block}};
    case Stacking::two_level:
      if (left_over) return {"decoder/layers_remainder/local_layers/", "", {slot}};
      if (slot == cycle - 1) return {"decoder/scanned_blocks/global_layer/", "", {block}};
      return {"decoder/scanned_blocks/local_layers/", "", {block, slot}};
    case Stacking::dense_then_moe:
      return place_in_parts(layer, num_layers, config);
    case Stacking::dense_then_moe_unrolled:
      if (layer < config.dense_layers) return {fmt::format("decoder/dense_layers_{}/", layer)};
      return {fmt::format("decoder/moe_layers_{}/", layer - config.dense_layers)};
  }
  return {};
}

std::vector<MaxTextTensor> maxtext_tensors(const decoder::Parameter& p, std::int64_t num_layers,
                                           const MaxTextConfig& config,
                                           const io::WeightFiles& files) {
  const Place place = maxtext_place(p.layer, num_layers, config);
  for (const Row& row : kRows) {
    if (row.ours != p.desc.name) continue;
    std::vector<MaxTextTensor> out;
    std::int64_t first = 0;
    for (std::string_view left = row.theirs; !left.empty();) {
      const std::size_t end = std::min(left.find(' '), left.size());
      MaxTextTensor& t = out.emplace_back();
      t.name_ = full_name(left.substr(0, end), place);
      left.remove_prefix(std::min(end + 1, left.size()));
      if (!files.contains(t.name_)) break;
      t.ours_ = p.desc.shape;
      t.shape_ = files.tensor(t.name_).shape;
      t.place_ = place.at;
      const bool kernel_part = is_part(row.layout) && p.desc.shape.ndim() == 2;
      t.transposed_ = row.layout == Layout::in_out || row.layout == Layout::query || kernel_part;
      const bool query =
          row.layout == Layout::query ||
          (kernel_part && row.layout == Layout::first && row.ours.ends_with("wq.weight"));
      if (query && config.query_scaled)
        t.factor_ = std::sqrt(static_cast<double>(t.shape_[t.shape_.ndim() - 1]));
      if (row.layout == Layout::table) t.factor_ = 1 / config.table_scale;
      if (row.layout == Layout::norm) t.offset_ = config.norm_offset;
      t.first_ = first;
      t.num_elements_ = t.shape_.num_elements();
      for (std::size_t d = 0; d < place.at.size(); ++d)
        t.num_elements_ /= t.shape_[static_cast<int>(d) + 1];
      if (is_part(row.layout)) {
        const std::int64_t own = p.desc.shape[0], in = kernel_part ? p.desc.shape[1] : 1;
        const std::int64_t all = t.num_elements_ / in;
        if (all <= own) break;
        t.outputs_ = all;
        t.first_output_ = row.layout == Layout::first         ? 0
                          : row.layout == Layout::before_last ? all - 2 * own
                                                              : all - own;
        t.num_elements_ = p.num_elements();
      }
      first += t.num_elements_;
    }
    if (first == p.num_elements()) return out;
  }
  throw std::runtime_error(fmt::format("no MaxText name for parameter '{}'", p.name));
}

std::size_t MaxTextTensor::index(std::int64_t i) const {
  std::int64_t layers = 1, layer = 0;
  for (std::size_t d = 0; d < place_.size(); ++d) {
    const std::int64_t size = shape_[static_cast<int>(d) + 1];
    layers *= size;
    layer = layer * size + place_[d];
  }
  const std::int64_t elements = shape_.num_elements() / layers;
  std::int64_t at = first_output_ + i;  // in the tensor of one layer
  if (transposed_ && outputs_ > 0) {
    const std::int64_t in = ours_[1];
    at = i % in * outputs_ + first_output_ + i / in;
  } else if (transposed_) {
    const std::int64_t matrices = ours_.ndim() == 3 ? ours_[0] : 1;
    const std::int64_t in = ours_[ours_.ndim() - 1], matrix = elements / matrices;
    const std::int64_t in_matrix = i % matrix;
    at = i - in_matrix + in_matrix % in * (matrix / in) + in_matrix / in;
  }
  if (place_.empty()) return static_cast<std::size_t>(at);
  const std::int64_t rest = elements / shape_[0];
  return static_cast<std::size_t>((at / rest * layers + layer) * rest + at % rest);
}

float MaxTextTensor::ours(float theirs) const {
  return static_cast<float>(static_cast<double>(theirs) * factor_ - offset_);
}

float MaxTextTensor::gradient(float of_ours) const {
  return static_cast<float>(static_cast<double>(of_ours) * factor_);
}

}  // namespace lamina::testing
