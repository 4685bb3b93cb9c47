// Overrides of keys in environment variables, and detection of misspelled ones.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

#include "config/raw.h"
#include "config/run_config.h"
#include "core/log.h"
#include "core/lower_case.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "core/utf8.h"

namespace lamina::config {
namespace {

constexpr std::string_view kPrefix = "LAMINA_", kSeparator = "__";

// Variables with another meaning, for lamina or its tests: docs/environment.md.
struct Variable {
  std::string_view name;
  std::vector<std::string_view> values = {};  // of a switch, whose reader ignores others; {}: any
};
const std::vector<Variable>& others() {
  static const std::vector<Variable> out = {{"LAMINA_CHECK", {"max"}},
                                            {"LAMINA_CPU_ISA"},
                                            {"LAMINA_CPU_TILES"},
                                            {"LAMINA_GOLDENS"},
                                            {"LAMINA_GPU_CAPABILITY"},
                                            {"LAMINA_GPU_COUNT"},
                                            {"LAMINA_GPU_CUDNN", {"0", "all"}},
                                            {"LAMINA_GPU_FP8", {"0", "1"}},
                                            {"LAMINA_GPU_GRAPHS", {"0", "1"}},
                                            {"LAMINA_GPU_MEMORY"},
                                            {"LAMINA_GPU_OVERLAP", {"0", "1"}},
                                            {"LAMINA_GPU_RACES"},
                                            {"LAMINA_GPU_SEED"},
                                            {"LAMINA_GPU_TF32", {"0", "1"}},
                                            {"LAMINA_GPU_TIMEOUT"},
                                            {"LAMINA_PIN"},
                                            {"LAMINA_PLUGIN_KERNELS", {"0", "1"}},
                                            {"LAMINA_PLUGIN_PATH"},
                                            {"LAMINA_TEST_GPU"},
                                            {"LAMINA_TRUST_PLUGINS", {"0", "1"}}};
  return out;
}

// Returns LAMINA_TRAIN__STEPS for "train.steps".
std::string variable_of(std::string_view key) {
  std::string out(kPrefix);
  for (char c : key)
    out += c == '.'
               ? std::string(kSeparator)
               : std::string(1, static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return out;
}

[[noreturn]] void refuse(std::string_view name, const std::string& what,
                         std::vector<std::string> notes) {
  throw UserError(ExitCode::usage,
                  {"", fmt::format("{} {}", printable(name), what), std::move(notes)});
}

// Warns of a variable without an effect; several readers of the environment check the same name.
void warn_once(std::string_view name, const std::string& expected) {
  static std::set<std::string, std::less<>> warned;
  if (warned.emplace(name).second) log::warning("{} has no effect; {}", printable(name), expected);
}

// Returns what sets the value that the name seems to mean: the variables of all keys with this name
// in their sections, or an option; "" if it means none.
std::string meant_setting(std::string_view typed) {
  constexpr std::string_view kOptions[] = {"color", "device", "quiet", "verbose"};
  const std::string bare = lower_case(typed);
  if (std::ranges::find(kOptions, bare) != std::end(kOptions))
    return fmt::format("use the option --{}", bare);
  std::vector<std::string> variables;
  for (const Section& section : run_schema().sections)
    for (const Key& key : section.keys)
      if (!section.name.empty() && !key.any_name && key.name == bare)
        variables.push_back(variable_of(dotted_name(section, key)));
  return variables.empty() ? "" : fmt::format("expected {}", fmt::join(variables, " or "));
}

// Checks a name without a double underscore that is not one of our variables: an error if it is
// close to one, a warning if it is a key without its section or begins like a key.
void check_unknown(std::string_view name) {
  constexpr std::pair<const char*, const char*> kTops[] = {
      {"family", "give it in a run file, or to train with --set family=..., or unset the variable"},
      {"model",
       "give a model with -m and its keys with --set model.KEY=..., or unset the variable"}};
  for (const auto& [top, advice] : kTops)
    if (name == variable_of(top))
      refuse(name, "sets no key: variables set keys of sections", {advice});
  // All names share the prefix, which would make them all similar.
  const std::string typed(name.substr(kPrefix.size()));
  if (const std::string meant = meant_setting(typed); !meant.empty()) return warn_once(name, meant);
  constexpr std::size_t kShortest = 5;  // LAMINA_DIR of another program is not a typo of LAMINA_PIN
  if (typed.size() < kShortest) return;
  std::vector<std::string> known;
  for (const std::string& key : run_schema().key_names())
    if (key.find('.') != key.npos) known.push_back(variable_of(key).substr(kPrefix.size()));
  for (const Variable& other : others()) known.emplace_back(other.name.substr(kPrefix.size()));
  if (const std::string nearest = nearest_name(typed, known); !nearest.empty())
    refuse(name, "is not a lamina variable",
           {fmt::format("did you mean {}{}?", kPrefix, nearest), "otherwise unset the variable"});
  for (const Section& section : run_schema().sections) {
    const std::string begin = variable_of(section.name);
    if (section.name.empty() || !name.starts_with(begin + "_")) continue;
    return warn_once(name, fmt::format("expected two underscores between section and key: {}_{}",
                                       begin, printable(name.substr(begin.size()))));
  }
}

// Throws for a value of a switch that has no meaning.
void check_value(const Variable& variable, std::string_view value) {
  if (variable.values.empty() || value.empty()) return;
  if (std::ranges::find(variable.values, value) == variable.values.end())
    refuse(variable.name, fmt::format("is '{}'", printable(value)),
           {fmt::format("use {}, or unset it", fmt::join(variable.values, " or "))});
}

}  // namespace

Raw parse_environment(const std::vector<std::string>& environment) {
  Raw out;
  for (std::string_view variable : environment) {
    const auto equals = variable.find('=');
    if (!variable.starts_with(kPrefix) || equals == variable.npos) continue;
    const std::string name(variable.substr(0, equals));
    const std::string value(variable.substr(equals + 1));
    if (name.find(kSeparator, kPrefix.size() - 1) == name.npos) {
      const auto other = std::ranges::find(others(), name, &Variable::name);
      if (other == others().end())
        check_unknown(name);
      else
        check_value(*other, value);
      continue;
    }
    std::string key = lower_case(name.substr(kPrefix.size()));
    for (auto at = key.find(kSeparator); at != key.npos; at = key.find(kSeparator, at))
      key.replace(at, kSeparator.size(), 1, '.');
    if (key.starts_with('_') || !is_dotted_key(key))
      refuse(name, "is not LAMINA_SECTION__KEY", {"eg: LAMINA_TRAIN__STEPS=100"});
    if (find_invalid_utf8(value) != value.npos)
      refuse(name, fmt::format("is '{}', which is not UTF-8", printable(value)), {});
    out.append(parse_assignment(key, value, {Origin::Kind::environment, name}));
  }
  return out;
}

std::vector<std::string> process_environment() {
  std::vector<std::string> out;
  for (char** variable = environ; variable && *variable; ++variable) out.emplace_back(*variable);
  return out;
}

}  // namespace lamina::config
