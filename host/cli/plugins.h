// The plugins that a command line can use.
#pragma once

#include "cli/command.h"
#include "registry/discovery.h"

namespace lamina::cli {

// Reads the search path of this process, --plugin and --plugin-path included; runs no code of any
// plugin. Warns of elements that were left out. PluginError where a file of --plugin is unusable.
registry::Catalog find_plugins(const Globals& globals);

}  // namespace lamina::cli
