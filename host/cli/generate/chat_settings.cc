#include "cli/generate/chat_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/generate/generation_options.h"
#include "core/error.h"
#include "core/suggest.h"

namespace lamina::cli {
namespace {

constexpr const char* kSet = "/set";

using Settings = std::vector<std::pair<std::string, std::string>>;

// Name and value of each setting.
Settings all(const ChatSettings& settings) {
  Settings out = list_generation_options(settings.generate);
  const auto text = [](bool on) { return on ? "on" : "off"; };
  out.emplace_back("thinking", settings.form.thinking ? text(*settings.form.thinking)
                                                      : "the template's default");
  out.emplace_back("stats", text(settings.stats));
  return out;
}

}  // namespace

void change_setting(ChatSettings& settings, std::string_view text) {
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string_view name = text.substr(0, space);
  std::string_view value = text.substr(space);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "thinking") {
    settings.form.thinking = read_switch(name, value, kSet);
    return;
  }
  if (name == "stats") {
    settings.stats = read_switch(name, value, kSet);
    return;
  }
  if (set_generation_option(name, std::string(value), kSet, settings.vocab_size, settings.generate))
    return;
  std::vector<std::string> names;
  for (const auto& [known, now] : all(settings)) names.push_back(known);
  const std::string nearest = nearest_name(name, names);
  user_error(ExitCode::usage, kSet, "unknown setting '{}'; {}", name,
             nearest.empty() ? "/set lists them" : fmt::format("did you mean '{}'?", nearest));
}

std::string list_settings(const ChatSettings& settings) {
  std::string out;
  for (const auto& [name, value] : all(settings)) out += fmt::format("  {:<20}{}\n", name, value);
  return out;
}

}  // namespace lamina::cli
