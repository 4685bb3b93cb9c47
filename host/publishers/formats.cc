#include "publishers/formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace lamina::publishers {

bool is_text_config(std::string_view key) {
  return key == "text_config" ||
         std::ranges::find(kTextConfigHolders, key) != std::end(kTextConfigHolders);
}

bool is_compression_key(std::string_view key) {
  return std::ranges::find(kCompressionKeys, key) != std::end(kCompressionKeys);
}

bool is_activation_scale(std::string_view name) {
  return std::ranges::any_of(kActivationSuffixes,
                             [&](std::string_view suffix) { return name.ends_with(suffix); });
}

std::string without_wrappers(std::string_view name) {
  std::string out(name);
  for (std::string_view wrapper : kWrapperNames)
    for (std::size_t at = out.find(wrapper); at != out.npos; at = out.find(wrapper, at)) {
      if (at == 0 || out[at - 1] == '.')
        out.erase(at, wrapper.size());
      else
        at += wrapper.size();
    }
  while (out.starts_with(kOuterWrapperName)) out.erase(0, kOuterWrapperName.size());
  return out;
}

std::string scales_name(std::string_view weight, const ScalesName& row) {
  LAMINA_ASSERT(weight.ends_with(row.weight));
  weight.remove_suffix(row.weight.size());
  return fmt::format("{}{}", weight, row.scales);
}

std::vector<std::string> scales_names(std::string_view weight) {
  std::vector<std::string> out;
  for (const ScalesName& row : kScalesNames)
    if (weight.ends_with(row.weight)) out.push_back(scales_name(weight, row));
  return out;
}

}  // namespace lamina::publishers
