// The plugins that a command line can use.
#pragma once

#include "cli/shell/command.h"
#include "registry/discovery.h"

namespace lamina::cli {

// Reads the search path of this process, --plugin and --plugin-path included; runs no code of any
// plugin. Warns of elements that were left out. PluginError where a file of --plugin is unusable.
registry::Catalog find_plugins(const Globals& globals);

// Those, looked for once.
const registry::Catalog& plugin_catalog(const Globals& globals);

// Whether `what` is the path of a plugin, and not the name of a family, a plugin or a file.
bool is_plugin_path(const std::string& what);
// The plugin behind a path, the name of a family, a plugin's id, or the name of a file without its
// suffix. PluginError where there is none.
registry::PluginFile choose_plugin(const std::string& what, const Globals& globals);

// For commands that take a run file or a model: UserError (exit 2) where there is nothing at
// `path`.
void require_description(const std::string& path);

}  // namespace lamina::cli
