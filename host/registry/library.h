// Loading plugins: the one place where their code enters the process. Loaded once, on the first
// use of one of its families, and never unloaded.
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

// What init() of a plugin is given. Lives as long as the process.
const lamina_host& plugin_host();

// Calls init(), with no line in the log for the reason that it gives: "init returned 9 (internal):
// blocks are missing". Empty where it is content. [one thread at a time]
std::string start_plugin(const lamina_plugin& entry, const lamina_host& host);

// Loads the plugin (once per process) and returns its families, in the order of its manifest.
// Throws PluginError when the loader refuses it, or when it breaks the contract. The result lives
// as long as the process. [any thread]
const std::vector<Family>& load_plugin(const PluginFile& file);

// The family `name` (or alias), loading its plugin. `where` is where the name was written.
const Family& load_family(const Catalog& catalog, std::string_view name,
                          std::string_view where = "family");

// The family that a model description asks for: by its `family`, else by model_type and
// architectures of its config.json.
const Family& load_family(const Catalog& catalog, const config::ModelSource& model);

}  // namespace lamina::registry
