#include "cli/shell/plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/log.h"
#include "core/system_error.h"
#include "train/loop/run_directory.h"

namespace lamina::cli {

registry::Catalog find_plugins(const Globals& globals) {
  registry::SearchPath search = registry::search_path(
      {globals.plugins.begin(), globals.plugins.end()}, registry::SearchEnvironment::of_process(),
      {globals.plugin_folders.begin(), globals.plugin_folders.end()});
  for (const std::string& warning : search.warnings) log::warning("{}", warning);
  return registry::Catalog::scan(std::move(search));
}

const registry::Catalog& plugin_catalog(const Globals& globals) {
  static const registry::Catalog catalog = find_plugins(globals);
  return catalog;
}

bool is_plugin_path(const std::string& what) {
  return what.find('/') != what.npos || what.ends_with(".so");
}

registry::PluginFile choose_plugin(const std::string& what, const Globals& globals) {
  using registry::PluginFile;
  if (is_plugin_path(what)) {
    registry::SearchPath search =
        registry::search_path({what}, registry::SearchEnvironment::of_process());
    search.folders.clear();
    return registry::Catalog::scan(std::move(search)).plugins().front();
  }
  const registry::Catalog& catalog = plugin_catalog(globals);
  const auto offers = [&](const PluginFile& plugin) {
    return std::ranges::any_of(plugin.manifest.families, [&](const registry::FamilyNames& family) {
      return family.is_called(what);
    });
  };
  if (std::ranges::none_of(catalog.plugins(), offers))
    for (const PluginFile& plugin : catalog.plugins())
      if (plugin.manifest.id == what ||
          plugin.path.filename() == what + std::string(registry::kPluginSuffix))
        return plugin;
  std::error_code error;
  if (std::ranges::none_of(catalog.plugins(), offers) && std::filesystem::exists(what, error))
    throw UserError(
        ExitCode::plugin,
        {what,
         fmt::format("is a {}; expected a .lamina.so or the name of a family",
                     std::filesystem::is_directory(what) ? "folder" : "file of another kind"),
         {"give the path of the .lamina.so that its build makes"}});
  return *catalog.find(what, "plugin").file;
}

void require_description(const std::string& path, std::string_view expected) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return;
  const std::string what =
      error ? "cannot be read: " + system_error_text(error.value()) : "no such file or directory";
  const bool is_toml = std::filesystem::path(path).extension() == ".toml";
  throw UserError(
      is_toml ? ExitCode::usage : ExitCode::checkpoint,
      {path, fmt::format("{}; expected {}", what, expected), train::advice_on_missing(path)});
}

}  // namespace lamina::cli
