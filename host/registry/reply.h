// Receives the results of a family's config functions, and calls the functions. Internal to
// registry.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/abi_read.h"
#include "registry/family.h"

namespace lamina::registry {

// The results of one function.
struct ReplyResult {
  std::vector<Setting> settings;
  std::vector<ErrorText> problems;  // `where` is the key
  PlanSpec plan;
  std::optional<EmbedSpec> embed;
  std::optional<HeadSpec> head;
  std::optional<MtpSpec> mtp;
  std::string exports_as;
};

enum class ConfigFunction { derive, validate, plan, options };

// Calls the function of `family`. Throws UserError (exit 2) if it refuses the config, PluginError
// if it fails otherwise or breaks the contract.
ReplyResult call_config_function(const Family& family, ConfigFunction function,
                                 lamina_status_t (*pointer)(void* user, const lamina_config_t*,
                                                            lamina_reply_t*),
                                 void* user, const ModelConfig& config);

}  // namespace lamina::registry
