#include "config/suggest_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <string_view>

#include "config/run_config.h"
#include "core/suggest.h"

namespace lamina::config {
namespace {

// Names that other programs have for keys, or that are often guessed. A name has its section if
// it means another key in other sections.
struct OtherName {
  std::string_view typed, key;
};
constexpr OtherName kOtherNames[] = {
    {"n_layers", "model.num_hidden_layers"},
    {"n_layer", "model.num_hidden_layers"},
    {"num_layers", "model.num_hidden_layers"},
    {"d_model", "model.hidden_size"},
    {"n_embd", "model.hidden_size"},
    {"dim", "model.hidden_size"},
    {"n_heads", "model.num_attention_heads"},
    {"n_head", "model.num_attention_heads"},
    {"num_heads", "model.num_attention_heads"},
    {"n_kv_heads", "model.num_key_value_heads"},
    {"num_kv_heads", "model.num_key_value_heads"},
    {"d_ff", "model.intermediate_size"},
    {"ffn_dim", "model.intermediate_size"},
    {"ffn_size", "model.intermediate_size"},
    {"mlp_dim", "model.intermediate_size"},
    {"vocabulary_size", "model.vocab_size"},
    {"rope_base", "model.rope_theta"},
    {"model.context_length", "model.max_position_embeddings"},
    {"model.max_seq_len", "model.max_position_embeddings"},
    {"model.seq_len", "model.max_position_embeddings"},
    {"model.block_size", "model.max_position_embeddings"},
    {"seq_len", "data.sequence_length"},
    {"max_seq_len", "data.sequence_length"},
    {"max_length", "data.sequence_length"},
    {"context_length", "data.sequence_length"},
    {"block_size", "data.sequence_length"},
    {"data.path", "data.train"},
    {"data.files", "data.train"},
    {"val", "data.validation"},
    {"valid", "data.validation"},
    {"epochs", "train.steps"},
    {"num_train_epochs", "train.steps"},
    {"max_steps", "train.steps"},
    {"per_device_train_batch_size", "train.microbatch_size"},
    {"gradient_accumulation_steps", "train.microbatch_size"},
    {"gradient_checkpointing", "train.remat"},
    {"bf16", "train.dtype"},
    {"logging_steps", "train.log_every_steps"},
    {"clip", "train.clip_norm"},
    {"grad_clip", "train.clip_norm"},
    {"max_grad_norm", "train.clip_norm"},
    {"eval_interval", "train.eval_every_steps"},
    {"eval_steps", "train.eval_every_steps"},
    {"save_every", "checkpoint.every_steps"},
    {"save_steps", "checkpoint.every_steps"},
    {"save_interval", "checkpoint.every_steps"},
    {"save_total_limit", "checkpoint.keep"},
    {"learning_rate", "optimizer.lr"},
    {"wd", "optimizer.weight_decay"},
    {"adam_beta1", "optimizer.beta1"},
    {"adam_beta2", "optimizer.beta2"},
    {"adam_epsilon", "optimizer.eps"},
    {"lr_scheduler_type", "schedule.kind"},
    {"min_lr", "schedule.final_fraction"},
    {"warmup", "schedule.warmup_steps"},
    {"warmup_ratio", "schedule.warmup_steps"},
    {"lora.r", "lora.rank"},
    {"lora_r", "lora.rank"},
    {"lora_rank", "lora.rank"},
    {"lora_alpha", "lora.alpha"},
    {"lora_dropout", "lora.dropout"},
    {"output_dir", "run.out"},
};

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  for (const auto word : std::views::split(name, '_'))
    words.emplace_back(std::string_view(word.begin(), word.end()));
  return words;
}

// Returns whether `name` consists of these words and others between or around them.
bool has_words(std::string_view name, const std::vector<std::string>& words) {
  std::size_t found = 0;
  for (const std::string& word : words_of(name))
    if (found < words.size() && word == words[found]) ++found;
  return found == words.size();
}

std::vector<std::string> did_you_mean(const std::vector<std::string>& names) {
  return {fmt::format("did you mean '{}'?", fmt::join(names, "' or '"))};
}

// The section that a key was typed in: the one with the longest name. Null: it does not exist.
const Section* section_of(const Schema& schema, std::string_view typed) {
  const Section* best = nullptr;
  for (const Section& each : schema.sections)
    if (!each.name.empty() && typed.starts_with(each.name + ".") &&
        (!best || each.name.size() > best->name.size()))
      best = &each;
  return best;
}

// Returns the keys whose names have the words of the typed one ("sample_every"); none if they are
// many.
std::vector<std::string> with_words(const Section& section, std::string_view bare) {
  constexpr std::size_t kMost = 2;
  const std::vector<std::string> words = words_of(bare);
  std::vector<std::string> found;
  for (const Key& key : section.keys)
    if (!key.any_name && has_words(key.name, words)) found.push_back(dotted_name(section, key));
  return found.size() > kMost ? std::vector<std::string>() : found;
}

std::string nearest_in(const Section& section, std::string_view bare) {
  std::vector<std::string> names;
  for (const Key& key : section.keys)
    if (!key.any_name) names.push_back(key.name);
  const std::string nearest = nearest_name(bare, names);
  return nearest.empty() ? "" : fmt::format("{}.{}", section.name, nearest);
}

// Returns whether the schema leaves keys of [model] to the family.
bool has_open_model(const Schema& schema) {
  return std::ranges::any_of(schema.sections,
                             [](const Section& each) { return each.open && each.name == "model"; });
}

std::string by_other_name(const Schema& schema, std::string_view typed, std::string_view bare) {
  constexpr std::string_view kModelPrefix = "model.";
  for (const std::string_view name : {typed, bare})
    for (const OtherName& each : kOtherNames)
      if (each.typed == name && schema.find(each.key)) return std::string(each.key);
  // A family's key without its section, under its own or another name.
  if (!has_open_model(schema) || typed.find('.') != typed.npos) return "";
  for (const OtherName& each : kOtherNames)
    if (each.key.starts_with(kModelPrefix) &&
        (each.typed == typed || each.key.substr(kModelPrefix.size()) == typed))
      return std::string(each.key);
  return "";
}

// Names the keys of a section, if it exists and they are not too many for a note.
std::vector<std::string> all_keys(const Schema& schema, const std::string& section) {
  constexpr std::size_t kMost = 12;
  for (const Section& each : schema.sections) {
    if (section.empty() || each.name != section) continue;
    if (each.keys.size() > kMost) {
      if (each.name == "model") return {};  // most keys are the family's
      return {fmt::format("`lamina config explain {}` lists the keys", section)};
    }
    std::vector<std::string> names;
    for (const Key& key : each.keys) names.push_back(key.name);
    return {fmt::format("the keys of [{}] are {}", section, fmt::join(names, ", "))};
  }
  return {};
}

}  // namespace

std::vector<std::string> suggest_keys(const Schema& schema, const std::string& typed) {
  const Section* const section = section_of(schema, typed);
  const std::size_t begin = section ? section->name.size() + 1 : typed.rfind('.') + 1;
  const std::string bare = typed.substr(begin);
  const std::string own_section = section ? section->name : typed.substr(0, begin ? begin - 1 : 0);
  if (begin > 0 && !schema.find(typed) && run_schema().find(typed))
    return {"a key of run files; without one, only keys of the model can be set: model.KEY"};
  if (const std::string key = by_other_name(schema, typed, bare); !key.empty())
    return did_you_mean({key});
  if (section)
    if (const std::vector<std::string> found = with_words(*section, bare); !found.empty())
      return did_you_mean(found);
  if (const std::string nearest =
          section ? nearest_in(*section, bare) : nearest_name(typed, schema.key_names());
      !nearest.empty())
    return did_you_mean({nearest});
  std::string words = bare;
  std::ranges::replace(words, '_', ' ');
  std::vector<std::string> found;
  for (const Section& each : schema.sections)
    for (const Key& key : each.keys) {
      const bool is_namesake = (section || begin == 0) && key.name == bare;
      const bool is_described = each.name == own_section && words.find(' ') != words.npos &&
                                key.doc.find(words) != key.doc.npos;
      if (is_namesake || is_described) found.push_back(dotted_name(each, key));
    }
  constexpr std::size_t kMost = 3;
  if (found.empty() || found.size() > kMost) return all_keys(schema, own_section);
  return did_you_mean(found);
}

}  // namespace lamina::config
