#include "cli/chat_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <functional>

#include "core/error.h"
#include "core/suggest.h"
#include "decoder/call_limits.h"

namespace lamina::cli {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view expected) {
  user_error(ExitCode::usage, "/set", "'{}' is not what {} can be; expected {}", value, name,
             expected);
}

double number(std::string_view name, std::string_view text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most))
    refuse(name, text,
           std::isinf(most) ? fmt::format("a number from {}", least)
                            : fmt::format("a number from {} to {}", least, most));
  return value;
}

std::int64_t integer(std::string_view name, std::string_view text, std::int64_t least,
                     std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    refuse(name, text, fmt::format("an integer from {} to {}", least, most));
  return value;
}

bool on_off(std::string_view name, std::string_view text) {
  if (text != "on" && text != "off") refuse(name, text, "on or off");
  return text == "on";
}

struct Setting {
  std::string_view name;
  std::function<void(ChatSettings&, std::string_view)> set;
  std::function<std::string(const ChatSettings&)> get;
};

const std::vector<Setting>& settings_table() {
  static const std::vector<Setting> table = {
      {"temp",
       [](ChatSettings& s, std::string_view v) {
         s.generate.sampler.temperature = number("temp", v, 0, INFINITY);
       },
       [](const ChatSettings& s) { return fmt::format("{}", s.generate.sampler.temperature); }},
      {"top-k",
       [](ChatSettings& s, std::string_view v) {
         s.generate.sampler.top_k = integer("top-k", v, 0, INT32_MAX);
       },
       [](const ChatSettings& s) { return fmt::format("{}", s.generate.sampler.top_k); }},
      {"top-p",
       [](ChatSettings& s, std::string_view v) {
         s.generate.sampler.top_p = number("top-p", v, 0, 1);
       },
       [](const ChatSettings& s) { return fmt::format("{}", s.generate.sampler.top_p); }},
      {"min-p",
       [](ChatSettings& s, std::string_view v) {
         s.generate.sampler.min_p = number("min-p", v, 0, 1);
       },
       [](const ChatSettings& s) { return fmt::format("{}", s.generate.sampler.min_p); }},
      {"seed",
       [](ChatSettings& s, std::string_view v) {
         s.generate.sampler.seed = static_cast<std::uint64_t>(integer("seed", v, 0, INT64_MAX));
       },
       [](const ChatSettings& s) { return fmt::format("{}", s.generate.sampler.seed); }},
      {"max-new-tokens",
       [](ChatSettings& s, std::string_view v) {
         s.generate.max_new_tokens = integer("max-new-tokens", v, 1, decoder::kMaxTokens);
       },
       [](const ChatSettings& s) { return fmt::format("{}", s.generate.max_new_tokens); }},
      {"thinking",
       [](ChatSettings& s, std::string_view v) { s.form.thinking = on_off("thinking", v); },
       [](const ChatSettings& s) -> std::string {
         if (!s.form.thinking) return "as the template has it";
         return *s.form.thinking ? "on" : "off";
       }},
      {"stats", [](ChatSettings& s, std::string_view v) { s.stats = on_off("stats", v); },
       [](const ChatSettings& s) { return std::string(s.stats ? "on" : "off"); }},
  };
  return table;
}

}  // namespace

void change_setting(ChatSettings& settings, std::string_view text) {
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string_view name = text.substr(0, space);
  std::string_view value = text.substr(space);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  std::vector<std::string> names;
  for (const Setting& setting : settings_table()) {
    if (setting.name == name) return setting.set(settings, value);
    names.emplace_back(setting.name);
  }
  const std::string nearest = nearest_name(name, names);
  user_error(ExitCode::usage, "/set", "there is no setting '{}'; {}", name,
             nearest.empty() ? "/set lists them" : fmt::format("did you mean '{}'?", nearest));
}

std::string list_settings(const ChatSettings& settings) {
  std::string out;
  for (const Setting& setting : settings_table())
    out += fmt::format("  {:<16}{}\n", setting.name, setting.get(settings));
  return out;
}

}  // namespace lamina::cli
