#include "cli/plugins.h"

#include "core/log.h"

namespace lamina::cli {

registry::Catalog find_plugins(const Globals& globals) {
  registry::SearchPath search = registry::search_path(
      {globals.plugins.begin(), globals.plugins.end()}, registry::SearchEnvironment::of_process(),
      {globals.plugin_folders.begin(), globals.plugin_folders.end()});
  for (const std::string& warning : search.warnings) log::warning("{}", warning);
  return registry::Catalog::scan(std::move(search));
}

}  // namespace lamina::cli
