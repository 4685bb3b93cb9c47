#include "decoder/graph/stack_keys.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/model_keys.h"
#include "core/error.h"

namespace lamina::decoder {

const config::Entry* given_key(const ModelParts& parts, std::string_view key) {
  return parts.config.is_host_key(key) ? parts.config.values().find(key) : nullptr;
}

void refuse_key(const config::Entry& entry, std::string_view why, std::vector<std::string> notes) {
  throw UserError(ExitCode::usage, {entry.origin.text,
                                    fmt::format("'model.{}' is {}, but {}", entry.key,
                                                config::to_toml(entry.value), why),
                                    std::move(notes)});
}

namespace {

// Returns the entry of a host's key whose value has an effect, else null.
const config::Entry* wanted(const ModelParts& parts, std::string_view key) {
  const config::Entry* entry = given_key(parts, key);
  if (entry == nullptr) return nullptr;
  const config::Value& value = entry->value;
  const bool off =
      value == config::Value(false) || value == config::Value(0) || value == config::Value(0.0);
  return off ? nullptr : entry;
}

constexpr std::string_view kPartKeys[] = {
    config::kUseQkNorm,  config::kQkNormWithScale, config::kUseVNorm, config::kVNormWithScale,
    config::kQkvNormEps, config::kShareKv,         config::kSinks,    config::kMlpActivations};

double number_of(const ModelParts& parts, std::string_view key, double absent = 0) {
  const config::Entry* entry = wanted(parts, key);
  return entry == nullptr ? absent : std::get<double>(entry->value.data);
}

template <typename T>
std::optional<T> given(const ModelParts& parts, std::string_view key) {
  const config::Entry* entry = given_key(parts, key);
  return entry == nullptr ? std::nullopt : std::optional(std::get<T>(entry->value.data));
}

// Reads the keys that change queries, keys, values and feed-forwards.
void read_parts(const ModelParts& parts, BlockOptions& out) {
  out.qk_norm = given<bool>(parts, config::kUseQkNorm);
  out.qk_norm_weight = given<bool>(parts, config::kQkNormWithScale);
  out.v_norm = given<bool>(parts, config::kUseVNorm);
  out.v_norm_weight = given<bool>(parts, config::kVNormWithScale);
  out.qkv_norm_eps = given<double>(parts, config::kQkvNormEps);
  out.sinks = wanted(parts, config::kSinks) != nullptr;
  out.share_kv = wanted(parts, config::kShareKv) != nullptr;
  if (const config::Entry* eps = parts.config.values().find(config::kNormEps))
    if (const double* number = eps->value.get_if<double>()) out.norm_eps = *number;
  if (const config::Entry* list = given_key(parts, config::kMlpActivations)) {
    for (const config::Value& name : std::get<config::List>(list->value.data))
      out.mlp_activations.push_back(std::get<std::string>(name.data));
    if (out.mlp_activations.empty())
      refuse_key(*list, "a feed-forward has at least one activation");
  }
  if (parts.options.exports_as.empty()) return;
  for (const std::string_view key : kPartKeys)
    if (const config::Entry* entry = given_key(parts, key))
      refuse_key(*entry, fmt::format("this model is exported as '{}', with the parameters that its "
                                     "family says",
                                     parts.options.exports_as));
}

// Reads the size for a kind of attention; refuses a size without its kind.
void read_span(const ModelParts& parts, std::string_view key, bool wants, std::string_view type,
               BlockOptions& out) {
  const config::Entry* span = wanted(parts, key);
  if (span == nullptr && wants)
    refuse_key(*given_key(parts, config::kAttentionType), fmt::format("'{}' is not given", key));
  if (span == nullptr) return;
  if (!wants) refuse_key(*span, fmt::format("'{}' is not \"{}\"", config::kAttentionType, type));
  out.attention_span = std::get<std::int64_t>(span->value.data);
}

void read_attention(ModelParts& parts, BlockOptions& out) {
  const std::optional<std::string> type = given<std::string>(parts, config::kAttentionType);
  out.attention_kind = !type                       ? AttentionKind::declared
                       : type == "local_sliding"   ? AttentionKind::sliding
                       : type == "chunk"           ? AttentionKind::chunk
                       : type == "full"            ? AttentionKind::full
                       : type == "block_diffusion" ? AttentionKind::blocks
                                                   : AttentionKind::global;
  if (parts.config.is_host_key(config::kSlidingSpan))
    read_span(parts, config::kSlidingSpan, out.attention_kind == AttentionKind::sliding,
              "local_sliding", out);
  if (parts.config.is_host_key(config::kChunkSpan))
    read_span(parts, config::kChunkSpan, out.attention_kind == AttentionKind::chunk, "chunk", out);
  if (parts.config.is_host_key(config::kBlockSpan))
    read_span(parts, config::kBlockSpan, out.attention_kind == AttentionKind::blocks,
              "block_diffusion", out);
  const bool sees_later_tokens =
      out.attention_kind == AttentionKind::full || out.attention_kind == AttentionKind::blocks;
  if (sees_later_tokens) parts.options.head.bidirectional = true;
  if (const auto numbers = given<std::string>(parts, config::kKvDtype))
    out.kv_numbers = formats::parse_row_numbers(*numbers);
  if (const config::Entry* chunk = wanted(parts, config::kMobaChunk)) {
    if (sees_later_tokens) refuse_key(*chunk, "attention that sees later tokens chooses no chunks");
    out.moba_chunk = std::get<std::int64_t>(chunk->value.data);
    out.moba_top_k =
        given<std::int64_t>(parts, config::kMobaTopK).value_or(config::kMobaTopKPreset);
  } else if (const config::Entry* best = given_key(parts, config::kMobaTopK);
             best != nullptr && best->value != config::Value(config::kMobaTopKPreset)) {
    // A checkpoint may contain a value without effect.
    refuse_key(*best, fmt::format("'{}' is 0", config::kMobaChunk));
  }
}

BlockOptions block_options(ModelParts& parts) {
  BlockOptions out;
  read_parts(parts, out);
  read_attention(parts, out);
  out.random_routing = wanted(parts, config::kRandomRouting) != nullptr;
  out.dropout = number_of(parts, config::kDropout);
  out.attention_dropout = number_of(parts, config::kAttentionDropout);
  out.attention_cap = number_of(parts, config::kAttentionCap);
  out.min_timescale = number_of(parts, config::kMinTimescale, 1);
  out.rotary_share = number_of(parts, config::kRotaryShare, 1);
  out.linear_scaling = number_of(parts, config::kLinearScaling, 1);
  if (const config::Entry* what = given_key(parts, config::kLayerDropout)) {
    if (!parts.config.is_host_key(config::kDropout))
      refuse_key(*what, fmt::format("the '{}' of this model is its family's own, which says where",
                                    config::kDropout));
    if (out.dropout == 0) refuse_key(*what, fmt::format("'{}' is 0", config::kDropout));
    const std::string& text = std::get<std::string>(what->value.data);
    out.layer_dropout = text == "update" ? LayerDropout::update
                        : text == "none" ? LayerDropout::none
                                         : LayerDropout::output;
  }
  const registry::MtpSpec& mtp = parts.options.mtp;
  if (out.dropout > 0 && out.layer_dropout != LayerDropout::none && mtp.depth > 0) {
    const std::string advice = fmt::format("set '{}' to \"none\", or '{}' to 0.0",
                                           config::kLayerDropout, config::kDropout);
    if (out.layer_dropout == LayerDropout::update)
      refuse_key(*given_key(parts, config::kLayerDropout),
                 "layers of multi-token prediction have no input that it could add to", {advice});
    if (!mtp.final_norm)
      refuse_key(*given_key(parts, config::kDropout),
                 "layers of multi-token prediction end with a norm, which comes after the dropout",
                 {advice});
    if (mtp.carries)
      refuse_key(*given_key(parts, config::kDropout),
                 "layers of multi-token prediction end by merging the residual "
                 "streams, which comes after the dropout",
                 {advice});
  }
  return out;
}

}  // namespace

void apply_stack_keys(ModelParts& parts) {
  registry::EmbedSpec& embed = parts.options.embed;
  registry::HeadSpec& head = parts.options.head;
  if (const config::Entry* rows = wanted(parts, config::kPositionRows)) {
    if (embed.positions == registry::Positions::learned)
      refuse_key(*rows, "this model already has learned positions");
    parts.sinusoids = embed.positions == registry::Positions::sinusoidal;
    embed.positions = registry::Positions::learned;
    embed.max_positions = std::get<std::int64_t>(rows->value.data);
  }
  if (const config::Entry* sinusoids = wanted(parts, config::kSinusoids)) {
    if (embed.positions == registry::Positions::sinusoidal || parts.sinusoids)
      refuse_key(*sinusoids, "this model already has sinusoidal positions");
    parts.sinusoids = true;
  }
  if (const config::Entry* normalize = wanted(parts, config::kNormalizeLogits)) {
    if (!head.tied)
      refuse_key(*normalize, "the head is a separate matrix: 'tie_word_embeddings' is false");
    head.logit_scale /= std::sqrt(static_cast<double>(parts.config.hidden_size()));
  }
  head.logit_scale *= number_of(parts, config::kLogitScale, 1);
  if (const config::Entry* cap = wanted(parts, config::kLogitCap)) {
    if (head.soft_cap != 0) refuse_key(*cap, "the logits of this model already have a soft cap");
    head.soft_cap = std::get<double>(cap->value.data);
  }
  if (const config::Entry* eps = given_key(parts, config::kFinalNormEps)) {
    if (!head.norm.op || head.norm.op->attr_index("eps") < 0)
      refuse_key(*eps, "this model has no norm before its head that has one");
    const double value = std::get<double>(eps->value.data);
    const auto known =
        std::ranges::find(head.norm.attrs, "eps", [](const auto& attr) { return attr.first; });
    if (known == head.norm.attrs.end())
      head.norm.attrs.emplace_back("eps", value);
    else
      known->second = value;
  }
  parts.block_options = block_options(parts);
}

namespace {

// Returns notes for a key of norms in a model without them, with the keys that turn them off.
std::vector<std::string> norms_off(const ModelParts& parts) {
  std::vector<std::string> out{"remove it"};
  for (const std::string_view key : {config::kUseQkNorm, config::kUseVNorm})
    if (const config::Entry* off = given_key(parts, key); off && !wanted(parts, key))
      out.push_back(fmt::format("model.{} is false at {}", key, off->origin.text));
  return out;
}

}  // namespace

void refuse_idle_keys(const ModelParts& parts, const BlockParts& has) {
  const auto refuse = [&](std::string_view key, std::string_view what,
                          const std::vector<std::string>& notes = {"remove it"}) {
    if (const config::Entry* entry = wanted(parts, key))
      refuse_key(*entry, fmt::format("no layer of this model has {}", what), notes);
  };
  for (const std::string_view key :
       {config::kAttentionDropout, config::kAttentionCap, config::kUseQkNorm,
        config::kQkNormWithScale, config::kUseVNorm, config::kVNormWithScale, config::kQkvNormEps,
        config::kShareKv, config::kSinks, config::kAttentionType, config::kMobaChunk})
    if (!has.attention) refuse(key, "attention");
  if (!has.qkv_norms)
    refuse(config::kQkvNormEps, "norms of queries, keys or values", norms_off(parts));
  if (!has.feed_forward) refuse(config::kMlpActivations, "a dense feed-forward");
  if (!has.router) refuse(config::kRandomRouting, "a router that chooses by computed scores");
  for (const std::string_view key :
       {config::kMinTimescale, config::kLinearScaling, config::kRotaryShare})
    if (!has.rotations) refuse(key, "rotary positions");
}

}  // namespace lamina::decoder
