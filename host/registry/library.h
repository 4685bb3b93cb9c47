// Loads plugins: the only place where their code enters the process. Each is loaded once, when one
// of its families is first used, and never unloaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"
#include "registry/discovery.h"
#include "registry/family.h"

struct lamina_host;
struct lamina_plugin;

namespace lamina::registry {

// The host struct that init() of a plugin receives. Lives as long as the process.
const lamina_host& plugin_host();

// Calls init() without logging the reason that it gives. Returns "init returned 9 (internal):
// blocks are missing", or "" on success. [one thread at a time]
std::string start_plugin(const lamina_plugin& entry, const lamina_host& host);

// Loads the plugin (once per process) and returns its families, in the order of its manifest.
// Throws PluginError if the loader rejects it, or if it breaks the contract. The result lives as
// long as the process. [any thread]
const std::vector<Family>& load_plugin(const PluginFile& file);

// Returns the family `name` (or alias), loading its plugin. `where` is where the name was written.
const Family& load_family(const Catalog& catalog, std::string_view name,
                          std::string_view where = "family");

// Returns the family of a model description: by its `family`, else by model_type and architectures
// of its config.json.
const Family& load_family(const Catalog& catalog, const config::ModelSource& model);

}  // namespace lamina::registry
