// Finds the plugins for a command line.
#pragma once

#include "cli/shell/command.h"
#include "registry/discovery.h"

namespace lamina::cli {

// Reads the search path of this process, including --plugin and --plugin-path; runs no code of any
// plugin. Warns about skipped elements. PluginError if a file of --plugin is unusable.
registry::Catalog find_plugins(const Globals& globals);

// The same catalog, found once per process.
const registry::Catalog& plugin_catalog(const Globals& globals);

// True if `what` is the path of a plugin, and not the name of a family, a plugin or a file.
bool is_plugin_path(const std::string& what);
// The plugin with this path, family, id, or file name without suffix. PluginError if there is none.
registry::PluginFile choose_plugin(const std::string& what, const Globals& globals);

// UserError if `path` does not exist: exit 2 for a .toml file, else 4. `expected`: the kinds of
// files that the command takes.
void require_description(const std::string& path, std::string_view expected =
                                                      "a run file, a model file or a model "
                                                      "directory");

}  // namespace lamina::cli
