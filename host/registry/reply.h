// Where a family's config functions put what they have to say, and how they are called. Internal
// to registry.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/abi_read.h"
#include "registry/family.h"

namespace lamina::registry {

// What one of the functions said.
struct ReplyResult {
  std::vector<Setting> settings;
  std::vector<ErrorText> problems;  // where = the key
  PlanSpec plan;
  std::optional<EmbedSpec> embed;
  std::optional<HeadSpec> head;
  std::optional<MtpSpec> mtp;
  std::string exports_as;
};

enum class ConfigFunction { derive, validate, plan, options };

// Calls the function, which `family` has. Throws UserError (exit 2) when it refuses the config,
// PluginError when it fails otherwise or breaks the contract.
ReplyResult call_config_function(const Family& family, ConfigFunction function,
                                 lamina_status_t (*pointer)(void* user, const lamina_config_t*,
                                                            lamina_reply_t*),
                                 void* user, const ModelConfig& config);

}  // namespace lamina::registry
