#include "publishers/formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace lamina::publishers {
namespace {

// Replaces a name of column `from` by the name in column `to`.
std::string renamed_module(std::string_view module, std::size_t from, std::size_t to) {
  for (const std::string_view* names : {kLanguageModelFolders, kLanguageModelHeads})
    if (module.starts_with(names[from]))
      return fmt::format("{}{}", names[to], module.substr(names[from].size()));
  return std::string(module);
}

}  // namespace

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

std::string module_in_classes(std::string_view module) { return renamed_module(module, 0, 1); }
std::string module_in_files(std::string_view module) { return renamed_module(module, 1, 0); }

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
