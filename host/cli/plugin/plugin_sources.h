// The sources that a new plugin starts from: the template's, or those of a plugin that lamina has.
#pragma once

#include <filesystem>
#include <string>

namespace lamina::cli {

// Fills the folder `to`, which is empty, with a project called `name`. `from` is the name of a
// plugin of lamina; empty: the template. UserError (exit 2) where there is no such plugin, or no
// sources are installed; (exit 4) for files that cannot be written.
void copy_plugin_sources(const std::string& from, const std::filesystem::path& to,
                         const std::string& name);

}  // namespace lamina::cli
