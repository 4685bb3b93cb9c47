// The plugins that a command line can use.
#pragma once

#include "cli/command.h"
#include "registry/discovery.h"

namespace lamina::cli {

// Reads the search path of this process, --plugin and --plugin-path included; runs no code of any
// plugin. Warns of elements that were left out. PluginError where a file of --plugin is unusable.
registry::Catalog find_plugins(const Globals& globals);

// Those, looked for once.
const registry::Catalog& plugin_catalog(const Globals& globals);

// For commands that take a run file or a model: UserError (exit 2) where there is nothing at
// `path`.
void require_description(const std::string& path);

}  // namespace lamina::cli
