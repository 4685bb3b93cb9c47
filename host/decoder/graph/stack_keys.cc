#include "decoder/graph/stack_keys.h"

#include <cmath>

#include "config/model_keys.h"
#include "core/error.h"

namespace lamina::decoder {

const config::Entry* given_key(const ModelParts& parts, std::string_view key) {
  return parts.config.is_host_key(key) ? parts.config.values().find(key) : nullptr;
}

void refuse_key(const config::Entry& entry, std::string_view why) {
  throw UserError(ExitCode::usage, {entry.origin.text,
                                    fmt::format("'model.{}' is {}, but {}", entry.key,
                                                config::to_toml(entry.value), why),
                                    {"leave it out"}});
}

namespace {

// The entry of a host's key with a value that does something, else null.
const config::Entry* wanted(const ModelParts& parts, std::string_view key) {
  const config::Entry* entry = given_key(parts, key);
  if (entry == nullptr) return nullptr;
  const config::Value& value = entry->value;
  const bool off =
      value == config::Value(false) || value == config::Value(0) || value == config::Value(0.0);
  return off ? nullptr : entry;
}

}  // namespace

void apply_stack_keys(ModelParts& parts) {
  registry::EmbedSpec& embed = parts.options.embed;
  registry::HeadSpec& head = parts.options.head;
  if (const config::Entry* rows = wanted(parts, config::kPositionRows)) {
    if (embed.positions == registry::Positions::learned)
      refuse_key(*rows, "this model has learned positions of its own");
    parts.sinusoids = embed.positions == registry::Positions::sinusoidal;
    embed.positions = registry::Positions::learned;
    embed.max_positions = std::get<std::int64_t>(rows->value.data);
  }
  if (const config::Entry* sinusoids = wanted(parts, config::kSinusoids)) {
    if (embed.positions == registry::Positions::sinusoidal || parts.sinusoids)
      refuse_key(*sinusoids, "this model has sinusoidal positions of its own");
    parts.sinusoids = true;
  }
  if (const config::Entry* normalize = wanted(parts, config::kNormalizeLogits)) {
    if (!head.tied)
      refuse_key(*normalize, "the head is a matrix of its own: 'tie_word_embeddings' is false");
    head.logit_scale /= std::sqrt(static_cast<double>(parts.config.hidden_size()));
  }
  if (const config::Entry* cap = wanted(parts, config::kLogitCap)) {
    if (head.soft_cap != 0)
      refuse_key(*cap, "the logits of this model have a soft cap of their own");
    head.soft_cap = std::get<double>(cap->value.data);
  }
}

}  // namespace lamina::decoder
