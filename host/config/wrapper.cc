#include "config/wrapper.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config/published_keys.h"
#include "publishers/formats.h"

namespace lamina::config {
namespace {

constexpr std::string_view kModelKeys = "model.", kTied = "tie_word_embeddings";

bool is_in_text_config(std::string_view key) {
  return key.starts_with(kModelKeys) && key.substr(kModelKeys.size()).starts_with(kTextConfig);
}

bool is_lifted(std::string_view key) {
  if (!is_in_text_config(key)) return false;
  const std::string_view name = key.substr(kModelKeys.size() + kTextConfig.size());
  return name != "model_type" && name != "architectures";
}

// Returns whether a key outside text_config also concerns the language model.
bool is_of_whole(std::string_view key) {
  key.remove_prefix(kModelKeys.size());
  return key == kTied || key == "model_type" || key == "architectures" ||
         key.starts_with(kOwnObject);
}

// Returns "rope_scaling" for "model.rope_scaling.factor". Members of "lamina" are apart: each
// is the whole name, so that one in text_config replaces only itself.
std::string top_name(std::string_view key, std::size_t prefix) {
  key.remove_prefix(prefix);
  if (key.starts_with(kOwnObject)) return std::string(key);
  return std::string(key.substr(0, key.find('.')));
}

}  // namespace

void lift_text_config(Raw& raw) {
  auto unwrap = [](auto& item) {
    for (std::string_view holder : publishers::kTextConfigHolders) {
      const std::string held = fmt::format("{}{}.{}", kModelKeys, holder, kTextConfig);
      if (item.key.starts_with(held)) item.key.erase(kModelKeys.size(), holder.size() + 1);
    }
  };
  auto for_each = [&raw](const auto& function) {
    std::ranges::for_each(raw.entries, function);
    for (std::vector<RawSection>* keys : {&raw.sections, &raw.nulls, &raw.mixed_lists})
      std::ranges::for_each(*keys, function);
  };
  for_each(unwrap);
  const std::string tied = fmt::format("{}{}", kModelKeys, kTied);
  if (std::ranges::find(raw.entries, tied, &RawEntry::key) != raw.entries.end())
    std::erase_if(raw.entries, [](const RawEntry& entry) {
      return entry.key == fmt::format("{}{}{}", kModelKeys, kTextConfig, kTied);
    });
  std::set<std::string> inside;
  auto note = [&](const auto& item) {
    if (is_lifted(item.key))
      inside.insert(top_name(item.key, kModelKeys.size() + kTextConfig.size()));
  };
  for_each(note);
  auto is_replaced = [&](const auto& item) {
    return item.key.starts_with(kModelKeys) && !is_in_text_config(item.key) &&
           inside.contains(top_name(item.key, kModelKeys.size()));
  };
  std::erase_if(raw.entries, is_replaced);
  for (std::vector<RawSection>* keys : {&raw.sections, &raw.nulls, &raw.mixed_lists})
    std::erase_if(*keys, is_replaced);
  if (inside.empty()) return;
  auto set_aside = [](auto& item) {
    if (item.key.starts_with(kModelKeys) && !is_in_text_config(item.key) && !is_of_whole(item.key))
      item.key.insert(kModelKeys.size(), kOutside);
  };
  for_each(set_aside);
  auto lift = [](auto& item) {
    if (is_lifted(item.key)) item.key.erase(kModelKeys.size(), kTextConfig.size());
  };
  for_each(lift);
}

}  // namespace lamina::config
