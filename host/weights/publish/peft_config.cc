#include "weights/publish/peft_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "core/lower_case.h"
#include "publishers/formats.h"
#include "publishers/python_json.h"
#include "text/python_pattern.h"
#include "text/regex.h"

namespace lamina::weights {
namespace {

// Keys of LoraConfig in PEFT 0.21 that read_peft_config() reads.
constexpr std::string_view kRead[] = {
    "peft_type",
    "task_type",
    "bias",
    "r",
    "lora_alpha",
    "lora_dropout",
    "use_rslora",
    "use_dora",
    "target_modules",
    "base_model_name_or_path",
    "exclude_modules",
    "init_lora_weights",
};

// Keys that do not affect the computation of a saved adapter.
constexpr std::string_view kWithoutEffect[] = {
    "auto_mapping",
    "peft_version",
    "revision",
    "inference_mode",
    "runtime_config",
    // Describes the layout of the base matrices; adapter matrices always have the same layout.
    "fan_in_fan_out",
    // PEFT reads these only with megatron_config, use_qalora or modules_to_save, or when training
    // starts.
    "megatron_core",
    "qalora_group_size",
    "ensure_weight_tying",
    "loftq_config",
    "eva_config",
    "corda_config",
    "lora_ga_config",
};

// Initialisations of an adapter that do not change the base.
constexpr std::string_view kPlainStarts[] = {"gaussian", "eva", "orthogonal", "mica"};
// Beginnings of the others: with them PEFT changes the base when it loads the adapter.
constexpr std::string_view kChangingStarts[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};

const char* const kMerge =
    "merge it into its model with PEFT, if possible, and use the merged "
    "model";

bool is_nothing(const JsonValue& value) {
  if (!value || value.is_null()) return true;
  if (value.is_bool()) return !value.as_bool();
  if (value.is_string()) return value.as_string().empty();
  return (value.is_array() || value.is_object()) && value.size() == 0;
}

bool contains(std::span<const std::string_view> list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

void check_keys(const JsonValue& all) {
  for (const auto& [key, value] : all.members())
    if (!contains(kRead, key) && !contains(kWithoutEffect, key) && !is_nothing(value))
      value.fail("is " + value.describe() + ", which lamina's adapters do not support", {kMerge});
  if (const JsonValue bias = all.find("bias");
      !is_nothing(bias) && !(bias.is_string() && bias.as_string() == "none"))
    bias.fail("is " + bias.describe() + ", but lamina's adapters have no biases", {kMerge});
  if (const JsonValue task = all.find("task_type"); !is_nothing(task) &&
                                                    task.as_string() != "CAUSAL_LM" &&
                                                    task.as_string() != "FEATURE_EXTRACTION")
    task.fail("must be \"CAUSAL_LM\", got " + task.describe(),
              {"lamina's models predict the next token"});
}

void check_start(const JsonValue& start) {
  if (is_nothing(start) || start.is_bool()) return;
  const std::string_view word = start.as_string();
  if (contains(kPlainStarts, word)) return;
  const bool is_known = std::ranges::any_of(
      kChangingStarts, [&](std::string_view known) { return word.starts_with(known); });
  start.fail("is " + start.describe() +
                 (is_known ? ": PEFT changes the base when it loads such an adapter, which lamina "
                             "does not support"
                           : ", which lamina does not know: it may change the base"),
             {"save it again with path_initial_model_for_weight_conversion of PEFT, or merge it "
              "into its model"});
}

std::vector<std::string> names_in(const JsonValue& list) {
  std::vector<std::string> out;
  for (JsonValue name : list.elements()) out.emplace_back(name.as_string());
  return out;
}

double finite(const JsonValue& number) {
  const double out = number.as_double();
  if (!std::isfinite(out)) number.fail("must be finite, got " + number.describe());
  return out;
}

void read_targets(const JsonValue& all, PeftConfig& out) {
  const JsonValue targets = all.at("target_modules");
  if (!targets.is_string())
    out.target_modules = names_in(targets);
  else if (lower_case(targets.as_string()) == kAllLinear)  // "ALL-LINEAR" is the same for PEFT
    out.target_modules = {std::string(kAllLinear)};
  else
    out.target_pattern = targets.as_string();
  if (out.target_modules.empty() && out.target_pattern.empty())
    targets.fail("must contain a module, got " + targets.describe());
  const JsonValue excluded = all.find("exclude_modules");
  if (is_nothing(excluded)) return;
  if (excluded.is_string())
    out.exclude_pattern = excluded.as_string();
  else
    out.exclude_modules = names_in(excluded);
}

}  // namespace

double PeftConfig::scale() const {
  const double r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

PeftConfig read_peft_config(const std::string& directory) {
  const JsonDocument document = JsonDocument::read(
      fmt::format("{}/{}", directory, publishers::kAdapterConfig), publishers::kPythonJson);
  const JsonValue all = document.root();
  if (all.at("peft_type").as_string() != "LORA")
    all.at("peft_type").fail("must be \"LORA\", got " + all.at("peft_type").describe());
  check_keys(all);
  check_start(all.find("init_lora_weights"));
  PeftConfig out;
  out.rank = all.at("r").as_int64();
  if (out.rank < 1) all.at("r").fail("must be at least 1, got " + all.at("r").describe());
  out.alpha = finite(all.at("lora_alpha"));
  if (const JsonValue v = all.find("lora_dropout"); !is_nothing(v)) out.dropout = finite(v);
  if (const JsonValue v = all.find("use_rslora"); !is_nothing(v)) out.rslora = v.as_bool();
  if (const JsonValue v = all.find("use_dora"); !is_nothing(v)) out.dora = v.as_bool();
  read_targets(all, out);
  if (const JsonValue v = all.find("base_model_name_or_path"); v && v.is_string())
    out.base = v.as_string();
  return out;
}

std::string peft_config_text(const PeftConfig& config) {
  JsonWriter json(2);
  json.begin_object();
  json.key("base_model_name_or_path").value(config.base).key("bias").value("none");
  json.key("fan_in_fan_out").value(false).key("inference_mode").value(true);
  json.key("init_lora_weights").value(true).key("lora_alpha").value(config.alpha);
  json.key("lora_dropout").value(config.dropout).key("modules_to_save").null();
  json.key("peft_type").value("LORA").key("r").value(config.rank);
  json.key("target_modules");
  if (!config.target_pattern.empty()) {
    json.value(config.target_pattern);
  } else {
    json.begin_array();
    for (const std::string& target : config.target_modules) json.value(target);
    json.end_array();
  }
  json.key("task_type").value("CAUSAL_LM").key("use_dora").value(config.dora);
  json.key("use_rslora").value(config.rslora);
  return json.end_object().text() + "\n";
}

bool is_called(std::string_view module, std::string_view target) {
  return module == target || (module.ends_with(target) &&
                              module.substr(0, module.size() - target.size()).ends_with('.'));
}

struct TargetModules::Names {
  std::vector<std::string> list;
  std::optional<text::Regex> pattern;

  bool contains(const std::string& module) const {
    if (pattern) {
      text::Regex::Match match{};
      return text::Regex::Searcher(*pattern).find(module, 0, match);
    }
    return std::ranges::any_of(list, [&](const std::string& target) {
      return target == kAllLinear || is_called(module, target);
    });
  }
};

TargetModules::TargetModules(const PeftConfig& config, const std::string& where) {
  const auto names = [&](std::string_view key, const std::vector<std::string>& list,
                         const std::string& in_python) {
    Names out{list, {}};
    if (in_python.empty()) return out;
    const std::string pattern = text::from_python(in_python);
    const std::string place = fmt::format("{}: '{}'", where, key);
    constexpr auto kDialect = text::Regex::Dialect::fancy_regex;
    const text::Regex by_itself(pattern, place, kDialect);  // "a)|(b" is not valid by itself
    out.pattern.emplace(fmt::format("^(?:{})$", pattern), place, kDialect);
    return out;
  };
  targets_.push_back(names("target_modules", config.target_modules, config.target_pattern));
  excluded_.push_back(names("exclude_modules", config.exclude_modules, config.exclude_pattern));
}
TargetModules::~TargetModules() = default;
TargetModules::TargetModules(TargetModules&&) noexcept = default;

bool TargetModules::contains(const std::string& module) const {
  return targets_.front().contains(module) && !excluded_.front().contains(module);
}

}  // namespace lamina::weights
