// The sources that a new plugin starts from: the template, or one of lamina's plugins.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "registry/manifest.h"

namespace lamina::cli {

// The id of a plugin consists of this and its name.
inline constexpr std::string_view kIdPrefix = "org.example.";
inline constexpr std::size_t kMaxPluginName = registry::kMaxName - kIdPrefix.size();

// Fills the empty folder `to` with a project called `name`. `from` is the name of one of lamina's
// plugins; empty: the template. Returns whether the project has published names of that
// plugin. UserError (exit 2) if the plugin does not exist or is not in C++, the name is too long
// for its families or is a word of its code, or no sources are installed; (exit 4) for files that
// cannot be written.
bool copy_plugin_sources(const std::string& from, const std::filesystem::path& to,
                         const std::string& name);

}  // namespace lamina::cli
