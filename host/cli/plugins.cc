#include "cli/plugins.h"

#include <filesystem>

#include "core/error.h"
#include "core/log.h"

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

void require_description(const std::string& path) {
  if (!std::filesystem::exists(path))
    throw UserError(ExitCode::usage,
                    {path,
                     "no such file or directory; a run file, a model file or a model "
                     "directory would be right",
                     {}});
}

}  // namespace lamina::cli
