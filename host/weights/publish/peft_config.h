// adapter_config.json: PEFT's description of an adapter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::weights {

inline constexpr std::string_view kAllLinear = "all-linear";

struct PeftConfig {
  std::int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;
  bool rslora = false;
  bool dora = false;
  std::vector<std::string> target_modules;  // names, or only kAllLinear
  // A regular expression that PEFT matches with the whole path of a module. If not empty, it
  // replaces target_modules.
  std::string target_pattern = {};
  std::vector<std::string> exclude_modules = {};
  std::string exclude_pattern = {};
  std::string base = {};  // base_model_name_or_path

  double scale() const;
  friend bool operator==(const PeftConfig&, const PeftConfig&) = default;
};

// Errors (class checkpoint): a damaged file, another kind of adapter, or a key whose value lamina
// does not support. A key without effect is ignored; an unknown key must be null, false or empty.
PeftConfig read_peft_config(const std::string& directory);
std::string peft_config_text(const PeftConfig& config);

// The set of modules that a configuration selects, by the rules of PEFT.
class TargetModules {
 public:
  // `where` names the configuration in errors (class checkpoint): an invalid pattern.
  TargetModules(const PeftConfig& config, const std::string& where);
  ~TargetModules();
  TargetModules(TargetModules&&) noexcept;

  // `module` is a whole path: "model.layers.0.self_attn.q_proj".
  bool contains(const std::string& module) const;

 private:
  struct Names;  // a list, or a pattern
  std::vector<Names> targets_, excluded_;
};

// Returns whether `target`, a name of a list, is the path of the module or the end of it.
bool is_called(std::string_view module, std::string_view target);

}  // namespace lamina::weights
